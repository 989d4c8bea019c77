// Compiles an exercise's test with an answer, or a chapter's kernel, and runs it: clang and lld, built for WebAssembly, on files
// in memory. In a worker of the page, and in Node.
import { ConsoleStdout, Directory, File, OpenFile, PreopenDirectory, WASI, WASIProcExit } from '@bjorn3/browser_wasi_shim'
import * as cuda from './cuda.mjs'
import { Fibers } from './fibers.mjs'

const FLAGS = ['--target=wasm32-wasi', '-std=c++20', '-fwasm-exceptions', '-ffp-contract=off', '-DNDEBUG', '-w',
  '-fno-color-diagnostics', '-ferror-limit=20', '-fmacro-prefix-map=/project/=', '-nostdinc', '-nostdinc++',
  ...['compat', 'doctest', 'nlohmann', 'c++', 'clang', 'c'].flatMap((name) => ['-isystem', `/include/${name}`]), '-I', '/project']
const LINK = ['/lib/start.o', '-L/lib', '-lexercise', '-lc++', '-lc++abi', '-lc',
  '-lwasi-emulated-process-clocks', '-lbuiltins', '--stack-first', '-z', 'stack-size=1048576', '--max-memory=536870912',
  '--export=__stack_pointer']
const MOST_OUTPUT = 64 << 20  // bytes, as in exercises/track.py
const POST_EVERY = 100  // milliseconds

// A file grows with room to spare. The shim copies the whole file for each write beyond its end, and clang writes an
// object in 25 000 parts, for which Chromium needed ten times as long as for the compilation.
OpenFile.prototype.fd_write = function (bytes) {
  const { file } = this, at = Number(this.file_pos), end = at + bytes.length
  if (end > file.data.length) {
    const { data } = file
    let room = data.buffer
    if (end > room.byteLength) {
      room = new ArrayBuffer(Math.max(end, 2 * data.length))
      new Uint8Array(room).set(data)
    }
    file.data = new Uint8Array(room, 0, end).fill(0, data.length)
  }
  file.data.set(bytes, at)
  this.file_pos += BigInt(bytes.length)
  return { ret: 0, nwritten: bytes.length }
}

// Returns the files that build.py packed, [path, bytes] each.
export function unpacked(bytes) {
  const end = bytes.indexOf(0)
  let at = end + 1
  return JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)))
    .map(([path, count]) => [path, bytes.subarray(at, at += count)])
}

// Returns a program with the interface of WASI, and the object that starts it. A trap is an exception.
function loaded(module, words, environment, root, say, write = () => {}) {
  const output = new ConsoleStdout((bytes) => say(bytes.slice()))
  const wasi = new WASI(words, environment, [new OpenFile(new File([])), output, output, new PreopenDirectory('/', root)],
    { debug: false })
  const fibers = Fibers.needed_by(module) ? new Fibers() : null
  const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi.wasiImport, host: { ...fibers?.imports,
    write_file: (_, at, count) =>
      write(new TextDecoder().decode(new Uint8Array(instance.exports.memory.buffer, at, count))),
    fail: (at) => { throw new WebAssembly.RuntimeError(text_at(instance.exports.memory, at)) } } })
  return { wasi, instance, fibers }
}

function text_at({ buffer }, at) {
  const bytes = new Uint8Array(buffer)
  return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)))
}

export class Toolchain {
  #clang
  #root = new Map()
  #emulated  // the exercises whose tests need the emulator
  #runs  // the object with another chapter's kernel that a kernel's program also runs

  /// `clang` is the compiled module, and `files` are those of unpacked().
  constructor(clang, files) {
    this.#clang = clang
    for (const [path, bytes] of files) this.put(path, bytes)
    this.#runs = JSON.parse(this.text('runs'))
    this.#emulated = new Set(this.text('emulated').split('\n'))
  }

  /// Precompiles the headers of { exercise }, { kernel } or { cuda }. The first compile() does it otherwise.
  prepare(what) {
    if (what.cuda) return cuda.prepare(this.#tools)
    const [pch] = this.precompiled(what), header = pch.replace('.pch', '.hpp')
    if (this.#root.has(pch)) return
    const { code, text } = this.#run('clang++', ...FLAGS, '-x', 'c++-header', `/project/${header}`, '-o', `/${pch}`)
    if (code !== 0) throw new Error(`the headers do not compile: ${text}`)
  }

  /// Returns the names of the files that prepare() makes. With get() and put(), another toolchain can have them.
  precompiled({ exercise, kernel, cuda: of_cuda }) {
    if (of_cuda) return cuda.PRECOMPILED
    return [kernel ? 'kernel_headers.pch' : this.#emulated.has(exercise) ? 'emulator_headers.pch' : 'headers.pch']
  }

  get(name) { return this.#root.get(name).data }

  // What cuda.mjs needs of this object.
  #tools = { run: (...words) => this.#run(...words), link: (...objects) => this.#link(...objects),
    put: (path, bytes) => this.put(path, bytes), text: (path) => this.text(path),
    has: (path) => this.#root.has(path), remove: (path) => this.#root.delete(path) }

  put(path, bytes) {
    const parts = path.split('/'), name = parts.pop()
    let at = this.#root
    for (const part of parts) {
      if (!at.has(part)) at.set(part, new Directory(new Map()))
      at = at.get(part).contents
    }
    at.set(name, new File(bytes))
  }

  #run(...words) {
    const decoder = new TextDecoder()
    let text = ''
    const { wasi, instance } = loaded(this.#clang, words, [], this.#root,
      (bytes) => { text += decoder.decode(bytes, { stream: true }) })
    return { code: wasi.start(instance), text }
  }

  /// Returns the text of a file, or undefined.
  text(path) {
    const file = path.split('/').reduce((at, part) => at?.get(part)?.contents ?? at?.get(part), this.#root)
    return file && new TextDecoder().decode(file.data)
  }

  /// Compiles the test of an exercise, such as 02_tiled_cpu/ex1_safe_softmax, with the answer `text` as `file`, or the
  /// program of a kernel, such as 04_swizzling, with `text` in place of its `file` and with the macros `define`. Returns
  /// { program } or { said: the compiler's words, alone: those about an answer alone }. Or compiles a CUDA file,
  /// { cuda: true, file, text }.
  compile({ exercise, kernel, cuda: of_cuda, file, text, define = [] }) {
    if (of_cuda) return cuda.compile(this.#tools, { file, text })
    // The folder of an answer is as for ./learn check, because messages name it.
    const folder = kernel ? `project/chapters/${kernel}` : `project/my_exercises/${exercise}`, path = `${folder}/${file}`
    const original = kernel && this.text(path)
    this.#root.get('project').contents.delete('my_exercises')
    this.put(path, new TextEncoder().encode(text))
    for (const name of ['test.o', 'program.wasm']) this.#root.delete(name)  // it refuses to replace a file
    this.prepare({ exercise, kernel })
    const flags = ['-include-pch', `/${this.precompiled({ exercise, kernel })[0]}`,
      ...define.map((macro) => `-D${macro}`), '-I', `/${folder}`]
    const compile = (...words) => this.#run('clang++', ...FLAGS, ...flags, ...words)
    const source = kernel ? `kernels/${kernel}.cpp` : `exercises/${exercise}/test.cpp`
    const compiled = compile('-c', `/project/${source}`, '-o', '/test.o')
    if (kernel) this.put(path, new TextEncoder().encode(original))
    if (compiled.code !== 0) {
      return { said: compiled.text, alone: kernel ? undefined : compile('-fsyntax-only', '-x', 'c++', `/${path}`).text }
    }
    return this.#link('/test.o', ...this.#runs[kernel] ? [`/lib/${this.#runs[kernel]}.o`] : [])
  }

  #link(...objects) {
    const linked = this.#run('wasm-ld', ...objects, ...LINK, '-o', '/program.wasm')
    return linked.code === 0 ? { program: this.#root.get('program.wasm').data.slice() } : { said: linked.text, alone: '' }
  }
}

// The report of a CUDA file's kernels (common/cuda/runtime.cpp), and the signals of its crashes.
const REPORT = ['EMUCUDA_REPORT=report', 'EMUCUDA_PROFILE=1']
const SIGNALS = [[/unreachable/, 6], [/divide by zero|division by zero/, 8], [/./, 11]]

/// Runs a program with `words`, by default that of a test. Calls `say` with what it prints, now and then. Returns
/// { code } or { trap, signal }, and the file that the program has written, { report }.
export async function execute(program, words = ['--reporters=verdict'], say) {
  const decoder = new TextDecoder()
  let text = '', count = 0, last = 0, report
  const flush = () => {
    say(text)
    text = ''
    last = performance.now()
  }
  const { wasi, instance, fibers } = loaded(await WebAssembly.compile(program), ['program', ...words],
    REPORT, new Map(), (bytes) => {
      text += decoder.decode(bytes, { stream: true })
      count += bytes.length
      const at_case = text.includes('\x1e') && text.endsWith('\n')  // one that does not end must be known
      if (at_case || performance.now() - last > POST_EVERY) flush()
      if (count > MOST_OUTPUT) throw new Error(`it printed more than ${MOST_OUTPUT >> 20} MB`)
    }, (written) => { report = written })
  try {
    if (!fibers) return { code: wasi.start(instance) }
    wasi.inst = instance
    await fibers.run(instance.exports)
    return { code: 0 }
  } catch (problem) {
    if (problem instanceof WASIProcExit) return { code: problem.code, report }
    const trap = String(problem.message ?? problem), signal = SIGNALS.find(([words]) => words.test(trap))[1]
    try {
      instance.exports.emucuda_crashed?.(signal)
    } catch { /* the memory is broken */ }
    return { trap, signal, report }
  } finally {
    flush()
  }
}
