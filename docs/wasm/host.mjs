// Runs the chapters' programs from WebAssembly, in Node, in a worker of the page.
//
//   const programs = new Programs(await WebAssembly.compile(bytes))   // of the module_of(request).wasm
//   programs.run({ chapter: 4, shape: [1, 1, 64, 128, 64], breaks: ['missing-barrier'], events: 100 })
//   programs.run({ chapter: 1, command: ['run', 'my.txt'], files: { 'my.txt': '.machine mac …' }, trace: true })
//   programs.run({ chapter: 20, command: ['train'], text: 'my.txt', files: { 'my.txt': '…' }, steps: 20, outputs: true })
//   programs.run({ exercise: '01.1', stub: '…', answer: '…' })
//
// The keys of a request are the program's options (schedule_seed is --schedule-seed), except these:
//   chapter         the chapter's number
//   command         the words before the options
//   files           the content of the files that the words and options name, texts or bytes
//   breaks          a list for --break
//   events          the largest number of events that the answer may have
//   report: false   for a command that has no --json
//   outputs: true   the answer has the result's files
// The answer:
//   status   the program's exit status, 0, 1 or 2
//   text     the text that the program prints
//   error    with status 2: the program's error message
//   report   the object that the program writes with --json
//   events   the first events that the program writes with --events. events_left_out is the number of the others;
//            hazards is from the same file
//   outputs  { out: the bytes of the result's .npy file }. Chapter 20 has { checkpoint }, for `files` of a later request
// An exercise's answer has `text`, the verdict of ./learn check, and status 0 if it is right.

import { read } from '../editor/verdict.mjs'
import { EXERCISES, PROGRAMS } from './modules.mjs'

const GRADIENTS = ['dq', 'dk', 'dv']
const OUTPUTS = { 10: GRADIENTS, 20: ['checkpoint'], 22: GRADIENTS }  // every other chapter has out
const NO_KERNELS = [1, 2, 18, 20]  // programs without --device, or on the CPU by default
// These programs keep options in static variables, so each request needs a new instance.
const begins_anew = ({ chapter, exercise }) => exercise !== undefined || [1, 2, 10, 11, 20].includes(Number(chapter))
const OF_THE_HOST = ['--device', '--json', '--bench', '--events', '--lse', '--block-table',
  ...['q', 'k', 'v', 'do', 'out', 'dq', 'dk', 'dv'].map((name) => `--${name}`)]
const DECODER = new TextDecoder(), ENCODER = new TextEncoder()
const REWINDING = 2  // asyncify's states; 0 is normal, 1 unwinding
const ABANDONED = Symbol('abandoned')

class Refused extends Error {}  // bad input, with the program's message

// Returns a request as the words of a command line, with the program's name first.
export function commandLine(request) {
  if (request === null || typeof request !== 'object' || Array.isArray(request)) {
    throw new Refused('request: expected an object, such as {"chapter":4}')
  }
  const { chapter, command = [], files, breaks = [], events, report, outputs, ...options } = request
  const program = Object.hasOwn(PROGRAMS, chapter) ? PROGRAMS[chapter] : null
  if (program === null) {
    throw new Refused(`chapter ${JSON.stringify(chapter)}: accepted: ${Object.keys(PROGRAMS).join(', ')}`)
  }
  if (!Array.isArray(command)) throw new Refused('command: expected a list of words')
  if (!Array.isArray(breaks)) throw new Refused('breaks: expected a list of names')
  if (events !== undefined && !(Number.isSafeInteger(events) && events >= 0)) {
    throw new Refused('events: expected how many to give back, a whole number')
  }
  const words = [program, ...command.map(String)]
  for (const [key, value] of Object.entries(options)) {
    const option = `--${key.replaceAll('_', '-')}`
    const is_size = option === '--k' && Number(chapter) === 18
    if (OF_THE_HOST.includes(option) && !is_size) throw new Refused(`${option}: not in a request`)
    if (value === false || value === null) continue
    words.push(option)
    if (value !== true) words.push(String(value))  // a list becomes words with commas
  }
  for (const name of breaks) words.push('--break', String(name))
  const on_cpu = NO_KERNELS.includes(Number(chapter)) || command.length || options.algorithm !== undefined
  if (!on_cpu) words.push('--device', 'emulator')
  if (report !== false) words.push('--json', 'report')
  if (events !== undefined) words.push('--events', 'events')
  if (outputs) for (const name of OUTPUTS[chapter] ?? ['out']) words.push(`--${name}`, name)
  for (const word of words) {
    if (word.includes('\0')) throw new Refused('request: a zero byte in a word')
  }
  return words
}

// Returns the files of a request, by name.
function filesOf({ exercise, stub, answer, files = {} }) {
  const all = exercise === undefined ? files : { stub, [answer_file(exercise)]: answer }
  if (all === null || typeof all !== 'object') throw new Refused('files: expected an object of texts')
  for (const [name, text] of Object.entries(all)) {
    if (text instanceof Uint8Array && !name.includes('\0')) continue
    if (typeof text !== 'string') throw new Refused(`file ${name}: expected a text`)
    if (`${name}${text}`.includes('\0')) throw new Refused(`file ${JSON.stringify(name)}: a zero byte in it`)
  }
  return all
}
const answer_file = (exercise) => `${EXERCISES[exercise].replace(/^ex\d+_/, '')}.txt`

// An instance of the module. After an error its stacks are not cleaned up.
class Instance {
  constructor(module) {
    const wasi = {
      fd_write: (file, list, count, written) => this.write(file, list, count, written),
      clock_time_get: (clock, precision, at) => {
        this.view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true)
        return 0
      },
      environ_sizes_get: (count, bytes) => {
        this.view().setUint32(count, 0, true)
        this.view().setUint32(bytes, 0, true)
        return 0
      },
      environ_get: () => 0,
      fd_fdstat_get: () => BADF,
      proc_exit: (status) => { throw new Error(`the program has ended with ${status}`) }
    }
    const BADF = 8
    for (const { module: from, name } of WebAssembly.Module.imports(module)) {
      if (from === 'wasi_snapshot_preview1') wasi[name] ??= () => BADF
    }
    this.exports = new WebAssembly.Instance(module, {
      wasi_snapshot_preview1: wasi,
      host: {
        run_fibers: () => this.runFibers(),
        leave_fiber: () => this.leaveFiber(),
        fail: (text) => { throw new Refused(this.string(text)) },
        abandon_fiber: () => { throw ABANDONED },
        write_file: (path, bytes, count) => {
          this.files[this.string(path)] = new Uint8Array(this.exports.memory.buffer, bytes, count).slice()
        }
      }
    }).exports
    this.exports._initialize()
  }

  view() { return new DataView(this.exports.memory.buffer) }

  string(at) {
    const bytes = new Uint8Array(this.exports.memory.buffer)
    return DECODER.decode(bytes.subarray(at, bytes.indexOf(0, at)))
  }

  write(file, list, count, written) {
    let total = 0
    for (let i = 0; i < count; ++i) {
      const [at, bytes] = new Uint32Array(this.exports.memory.buffer, list + 8 * i, 2)
      this.printed[file === 2 ? 'errors' : 'text'].push(new Uint8Array(this.exports.memory.buffer, at, bytes).slice())
      total += bytes
    }
    this.view().setUint32(written, total, true)
    return 0
  }

  // Runs fibers, one after the other, until the main stack continues. A context has the format of fiber.cpp, that
  // is, asyncify's two words, the stack pointer, whether it has started, whether it is the main one.
  runFibers() {
    const e = this.exports, stack = e.__stack_pointer, main = stack.value
    for (;;) {
      this.running = e.fa_current()
      const context = this.running >> 2
      let words = new Uint32Array(e.memory.buffer)
      if (words[context + 4]) break
      stack.value = words[context + 2]
      if (words[context + 3]) e.asyncify_start_rewind(this.running)
      else words[context + 3] = 1
      try {
        e.fa_fiber()
      } catch (error) {
        if (error !== ABANDONED) throw error
        break
      }
      e.asyncify_stop_unwind()
      words = new Uint32Array(e.memory.buffer)
      words[context + 2] = stack.value
    }
    stack.value = main
  }

  // Called on a fiber, once to stop it, and once more after it has been called again.
  leaveFiber() {
    const e = this.exports
    if (e.asyncify_get_state() === REWINDING) e.asyncify_stop_rewind()
    else e.asyncify_start_unwind(this.running)
  }

  give(name, content) {
    const start = ENCODER.encode(`${name}\0`), bytes = typeof content === 'string' ? ENCODER.encode(content) : content
    const at = this.exports.fa_allocate(start.length + bytes.length), memory = new Uint8Array(this.exports.memory.buffer)
    memory.set(start, at)
    memory.set(bytes, at + start.length)
    this.exports.fa_give_file(at, start.length + bytes.length)
  }

  call(words) {
    const bytes = ENCODER.encode(words.join('\0') + '\0')
    const at = this.exports.fa_allocate(bytes.length)
    new Uint8Array(this.exports.memory.buffer).set(bytes, at)
    this.printed = { text: [], errors: [] }
    this.files = {}
    return this.exports.fa_run(at, words.length)
  }

  // The bytes of a character may be in two writes.
  said(where) { return this.printed[where].map((bytes) => DECODER.decode(bytes, { stream: true })).join('') + DECODER.decode() }
}

export class Programs {
  constructor(module) {
    this.module = module
    this.instance = null
  }

  // Returns the --break names of a chapter: { name: the part that it leaves out }.
  breaks(chapter) {
    const instance = new Instance(this.module)
    instance.call([PROGRAMS[chapter], '--list-breaks'])
    return Object.fromEntries(instance.said('text').split('\n').filter(Boolean)
      .map((line) => line.match(/^(\S+) +(.*)$/).slice(1)))
  }

  memoryBytes() { return this.instance?.exports.memory.buffer.byteLength ?? 0 }

  run(request) {
    try {
      const judged = request?.exercise !== undefined
      if (judged && !Object.hasOwn(EXERCISES, request.exercise)) {
        throw new Refused(`exercise ${JSON.stringify(request.exercise)}: accepted: ${Object.keys(EXERCISES).join(', ')}`)
      }
      const words = judged ? ['judge', answer_file(request.exercise), EXERCISES[request.exercise]] : commandLine(request)
      const files = filesOf(request)
      if (begins_anew(request)) this.instance = null
      this.instance ??= new Instance(this.module)
      for (const [name, text] of Object.entries(files)) this.instance.give(name, text)
      const status = this.instance.call(words)
      return judged ? { status, text: read(this.instance.said('text')).result?.text } : this.answer(status, request)
    } catch (error) {
      this.instance = null
      if (error instanceof Refused) return { status: 2, error: error.message }
      if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) {
        return { status: 2, error: 'not enough memory for this size, or a defect: ' + error.message }
      }
      throw error
    }
  }

  answer(status, request) {
    const { files } = this.instance
    if (status === 2) return { status, error: this.instance.said('errors').replace(/^error: /, '').trimEnd() }
    const answer = { status, text: this.instance.said('text') }
    if (files.report) answer.report = JSON.parse(DECODER.decode(files.report))
    if (files.events) {
      const log = JSON.parse(DECODER.decode(files.events))
      answer.events = log.events.slice(0, request.events)
      answer.events_left_out = log.events.length - answer.events.length
      if (log.tiles) answer.tiles = log.tiles
      answer.hazards = log.hazards
    }
    if (request.outputs) {
      answer.outputs = Object.fromEntries((OUTPUTS[request.chapter] ?? ['out']).map((name) => [name, files[name]]))
    }
    return answer
  }
}
