// Runs the programs of chapters 03 on from WebAssembly: in Node, in a worker of the page.
//
//   const kernels = new Kernels(await WebAssembly.compile(bytes))   // of the module_of(4).wasm
//   kernels.run({ chapter: 4, shape: [1, 1, 64, 128, 64], breaks: ['missing-barrier'], events: 100 })
//
// The keys of a request are the program's options (schedule_seed is --schedule-seed), but for
// `chapter`; `breaks`, a list for --break; `events`, the most to give back; `outputs: true`, for
// what --out and, where the chapter has it, --lse write. The answer:
//   status   0, 1 or 2, as of the program
//   text     what it prints
//   error    with status 2: its sentence
//   report   what it writes with --json
//   events   what it writes with --events, as far as asked for; events_left_out: how many are not
//   outputs  { out: the bytes of its .npy file }

export const PROGRAMS = {
  3: 'ch03_basic_kernel', 4: 'ch04_swizzling', 5: 'ch05_pipelining', 6: 'ch06_ldmatrix_x4',
  7: 'ch07_better_pipelining', 8: 'ch08_fewer_instructions', 9: 'ch09_masks_and_shapes',
  12: 'ch12_tma', 13: 'ch13_wgmma', 14: 'ch14_warp_specialization', 15: 'ch15_overlap',
  16: 'ch16_maximum_on_demand', 17: 'ch17_low_precision'
}
// Which file has a chapter. A request for one that there is not gets its answer from either.
export const MODULES = ['ampere', 'hopper', 'overlap']
const MODULE_OF = { 12: 'hopper', 13: 'hopper', 14: 'hopper', 15: 'overlap', 16: 'overlap' }
export const module_of = (chapter) => MODULE_OF[chapter] ?? 'ampere'
const DECODER = new TextDecoder()
const REWINDING = 2  // asyncify's states; 0 is normal, 1 unwinding
const ABANDONED = Symbol('abandoned')

class Refused extends Error {}  // bad input, in the program's words

// A request as the words of a command line, the program's name first.
export function commandLine(request) {
  if (request === null || typeof request !== 'object' || Array.isArray(request)) {
    throw new Refused('request: expected an object, such as {"chapter":4}')
  }
  const { chapter, breaks = [], events, outputs, ...options } = request
  const program = Object.hasOwn(PROGRAMS, chapter) ? PROGRAMS[chapter] : null
  if (program === null) {
    throw new Refused(`chapter ${JSON.stringify(chapter)}: accepted: ${Object.keys(PROGRAMS).join(', ')}`)
  }
  if (!Array.isArray(breaks)) throw new Refused('breaks: expected a list of names')
  if (events !== undefined && !(Number.isSafeInteger(events) && events >= 0)) {
    throw new Refused('events: expected how many to give back, a whole number')
  }
  const words = [program]
  for (const [key, value] of Object.entries(options)) {
    const option = `--${key.replaceAll('_', '-')}`
    if (['--device', '--json', '--out', '--lse', '--bench', '--q', '--k', '--v'].includes(option)) {
      throw new Refused(`${option}: not in a request`)
    }
    if (value === false || value === null) continue
    words.push(option)
    if (value !== true) words.push(String(value))  // a list: with commas
  }
  for (const name of breaks) words.push('--break', String(name))
  words.push('--device', 'emulator', '--json', 'report')
  if (events !== undefined) words.push('--events', 'events')
  if (outputs) words.push('--out', 'out')
  for (const word of words) {
    if (word.includes('\0')) throw new Refused('request: a zero byte in a word')
  }
  return words
}

// One instance of the module. After an error nothing on its stacks has been cleaned up.
class Instance {
  constructor(module) {
    this.text = ''
    this.files = {}
    const wasi = {
      fd_write: (file, list, count, written) => this.write(list, count, written),
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

  write(list, count, written) {
    let total = 0
    for (let i = 0; i < count; ++i) {
      const [at, bytes] = new Uint32Array(this.exports.memory.buffer, list + 8 * i, 2)
      this.text += DECODER.decode(new Uint8Array(this.exports.memory.buffer, at, bytes))
      total += bytes
    }
    this.view().setUint32(written, total, true)
    return 0
  }

  // Fibers, one after the other, until the main stack is to go on. A context as fiber.cpp has it:
  // asyncify's two words, the stack pointer, whether it has started, whether it is the main one.
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

  // On a fiber: first to stop, and once more when it has been called again.
  leaveFiber() {
    const e = this.exports
    if (e.asyncify_get_state() === REWINDING) e.asyncify_stop_rewind()
    else e.asyncify_start_unwind(this.running)
  }

  call(words) {
    const bytes = new TextEncoder().encode(words.join('\0') + '\0')
    const at = this.exports.fa_allocate(bytes.length)
    new Uint8Array(this.exports.memory.buffer).set(bytes, at)
    this.text = ''
    this.files = {}
    return this.exports.fa_run(at, words.length)
  }
}

export class Kernels {
  constructor(module) {
    this.module = module
    this.instance = null
  }

  // What a chapter's --break accepts: { name: what it leaves out }.
  breaks(chapter) {
    this.instance ??= new Instance(this.module)
    this.instance.call([PROGRAMS[chapter], '--list-breaks'])
    return Object.fromEntries(this.instance.text.split('\n').filter(Boolean)
      .map((line) => line.match(/^(\S+) +(.*)$/).slice(1)))
  }

  memoryBytes() { return this.instance?.exports.memory.buffer.byteLength ?? 0 }

  run(request) {
    try {
      const words = commandLine(request)
      this.instance ??= new Instance(this.module)
      const status = this.instance.call(words)
      const { text, files } = this.instance
      const answer = { status, text, report: JSON.parse(DECODER.decode(files.report)) }
      if (files.events) {
        const log = JSON.parse(DECODER.decode(files.events))
        answer.events = log.events.slice(0, request.events)
        answer.events_left_out = log.events.length - answer.events.length
        if (log.tiles) answer.tiles = log.tiles
      }
      if (files.out) answer.outputs = { out: files.out }
      return answer
    } catch (error) {
      this.instance = null
      if (error instanceof Refused) return { status: 2, error: error.message }
      if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) {
        return { status: 2, error: 'not enough memory for this size, or a defect: ' + error.message }
      }
      throw error
    }
  }
}
