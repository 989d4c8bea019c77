// The fibers of docs/wasm/fiber.cpp with the browser's own switch of stacks (JSPI): a function of ours that
// returns a promise stops the stack of WebAssembly that called it, until the promise is fulfilled. Programs need no
// asyncify, and their exceptions unwind.

const { Suspending, promising, Module } = WebAssembly
const STACK_POINTER = 2, STARTED = 3, ENDED = 5  // words of fiber.cpp's Context
const END = Symbol('end')  // thrown through the frames of a fiber that will not run again

export class Fibers {
  #exports
  #start  // runs a fiber on a stack of its own
  #running  // the address of a Context
  #stopped = new Map()  // of the stacks that have stopped: what continues them, by Context

  static needed_by(module) { return Module.imports(module).some(({ name }) => name === 'run_fibers') }

  constructor() {
    if (!Suspending) throw new Error('this browser cannot switch stacks of WebAssembly (JSPI)')
    this.imports = { run_fibers: new Suspending(() => this.#switch()), leave_fiber: new Suspending(() => this.#switch()) }
  }

  /// Runs a command of WASI. Returns when it has ended.
  run(exports) {
    this.#exports = exports
    this.#start = promising(exports.fa_fiber)  // once, because Firefox compiles a module for it
    this.#running = exports.fa_current()
    const ended = promising(exports._start)()
    return Promise.race([ended, new Promise((_, refuse) => { this.fail = refuse })])
  }

  // Stops or ends the stack that calls it, and runs the one of fa_current().
  #switch() {
    const { fa_current, __stack_pointer: stack, memory } = this.#exports
    const words = new Uint32Array(memory.buffer), from = this.#running, at = stack.value
    this.#running = fa_current()
    if (words[(from >> 2) + ENDED]) {
      this.#stopped.delete(from)
      this.#go_on(words)
      throw END  // otherwise the browser would keep its stack
    }
    return new Promise((go_on) => {
      this.#stopped.set(from, { go_on, at })
      this.#go_on(words)
    })
  }

  // Continues a stack, or starts it, after the stack that runs has stopped.
  #go_on(words) {
    const { __stack_pointer: stack } = this.#exports, context = this.#running >> 2
    if (words[context + STARTED]) {
      const { go_on, at } = this.#stopped.get(this.#running)
      stack.value = at
      go_on()
    } else {
      words[context + STARTED] = 1
      stack.value = words[context + STACK_POINTER]
      queueMicrotask(() => this.#start().catch((problem) => { if (problem !== END) this.fail(problem) }))
    }
  }
}
