// Runs the programs in a worker of the page (docs/wasm/worker.js). The worker starts with the first
// request, and cancel() ends it. A loaded module is cached, which also allows offline use.
import { withBase } from 'vitepress'
import { ref } from 'vue'

import { module_of } from '../../wasm/modules.mjs'

const PATIENCE = 300  // milliseconds until the page shows that the program runs

const modules = {}  // compiled, shared by all panels of the page
async function load(name) {
  const response = await fetch(withBase(`/${name}.wasm`))
  if (!response.ok) throw new Error(`${name}.wasm: status ${response.status}`)
  return WebAssembly.compile(await response.arrayBuffer())
}
const loaded = (name) => modules[name] ??= load(name).catch((problem) => {
  delete modules[name]  // the next request tries again
  throw problem
})

export class Runner {
  state = ref('untouched')  // ready, running, missing
  seconds = ref(-1)  // run time so far, once it is long enough to show
  #worker
  #given  // names of the modules that the worker has
  #waiting = []  // requests without an answer, as the worker answers them in order
  #runs = 0
  #round = 0  // number of cancelled rounds

  /// Returns the --break names of a chapter, { name: description }, or undefined if they
  /// are not available.
  async breaks(chapter) {
    const said = await this.#ask({ chapter }, { breaks_of: chapter })
    if (this.state.value === 'untouched' && said) this.state.value = 'ready'
    return said?.breaks
  }

  /// Returns the answer to a request (docs/wasm/host.mjs), or undefined if it was cancelled or no
  /// program can answer.
  async run(request) {
    const begin = performance.now()
    this.state.value = 'running'
    this.#runs++
    const clock = setInterval(() => {
      const ms = performance.now() - begin
      if (ms >= PATIENCE && this.state.value === 'running') this.seconds.value = Math.floor(ms / 1000)
    }, 100)
    try {
      const said = await this.#ask(request, { request })
      return said?.failed === undefined ? said?.answer : { status: 2, error: said.failed }
    } finally {
      clearInterval(clock)
      this.seconds.value = -1
      if (--this.#runs === 0 && this.state.value === 'running') this.state.value = 'ready'
    }
  }

  /// Ends the worker, because a program cannot be interrupted.
  cancel() {
    this.#round++
    this.#worker?.terminate()
    this.#worker = undefined
    this.#waiting.splice(0).forEach((settle) => settle())
    if (this.state.value !== 'untouched') this.state.value = 'ready'
  }

  async #ask(request, question) {
    const name = module_of(request), round = this.#round
    let module, WorkerOfPrograms
    try {
      [module, { default: WorkerOfPrograms }] = await Promise.all([loaded(name), import('../../wasm/worker.js?worker&inline')])
    } catch {
      if (round === this.#round) this.state.value = 'missing'
      return
    }
    if (round !== this.#round) return
    if (!this.#worker) {
      this.#worker = new WorkerOfPrograms()
      this.#given = new Set()
      this.#worker.onmessage = ({ data }) => this.#heard(data)
    }
    if (!this.#given.has(name)) this.#worker.postMessage({ name, module })
    this.#given.add(name)
    this.#worker.postMessage({ name, ...question })
    return new Promise((settle) => this.#waiting.push(settle))
  }

  #heard(data) {
    this.#waiting.shift()?.(data)
  }
}
