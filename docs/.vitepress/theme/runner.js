// The programs in a worker of the page (docs/wasm/worker.js): started when first asked, ended by cancel().
import { withBase } from 'vitepress'
import { ref } from 'vue'

const PATIENCE = 300  // milliseconds until a sign says that it runs

export class Runner {
  state = ref('untouched')  // ready, running, missing
  seconds = ref(-1)  // how long it has been running, once that is worth a sign
  #worker
  #waiting = []  // of questions that have no answer yet; the worker answers them in order

  /// What a chapter's --break accepts, { name: what it leaves out }; undefined if that cannot be had.
  async breaks(chapter) { return (await this.#ask({ breaks_of: chapter }))?.breaks }

  /// The answer to a request (docs/wasm/host.mjs); undefined if it was cancelled, or nobody can answer.
  async run(request) {
    const begin = performance.now()
    this.state.value = 'running'
    const clock = setInterval(() => {
      const ms = performance.now() - begin
      if (ms >= PATIENCE) this.seconds.value = Math.floor(ms / 1000)
    }, 100)
    try {
      return (await this.#ask({ request }))?.answer
    } finally {
      clearInterval(clock)
      this.seconds.value = -1
    }
  }

  /// A program does not listen: its worker ends.
  cancel() {
    this.#worker?.terminate()
    this.#worker = undefined
    this.#waiting.splice(0).forEach((settle) => settle())
    if (this.state.value !== 'untouched') this.state.value = 'ready'
  }

  #ask(question) {
    if (!this.#worker) {
      this.#worker = new Worker(new URL('../../wasm/worker.js', import.meta.url), { type: 'module' })
      this.#worker.onmessage = ({ data }) => this.#heard(data)
      this.#worker.onerror = () => this.#heard({ missing: 'its worker could not be started' })
    }
    this.#worker.postMessage({ folder: new URL(withBase('/'), location.href).href, ...question })
    return new Promise((settle) => this.#waiting.push(settle))
  }

  #heard(data) {
    this.state.value = data.missing !== undefined ? 'missing' : this.#waiting.length > 1 ? this.state.value : 'ready'
    this.#waiting.shift()?.(data)
  }
}
