// The compiler of the page (docs/editor), which all panels share, and the runs of programs.
import { withBase } from 'vitepress'

const ENDLESS = 20  // seconds after which a program is taken for endless

// In the page's script, so that it also starts offline.
const worker = async () => new (await import('../../editor/worker.js?worker&inline')).default()

let compiler  // a promise of the worker
async function start(what, progress) {
  const response = await fetch(withBase('/editor/editor.json'))
  if (!response.ok) throw new Error(`editor.json: status ${response.status}`)
  const { clang, files } = await response.json(), total = clang.bytes + files.bytes
  const url = ({ name }) => new URL(withBase(`/editor/${name}`), location.href).href
  const started = await worker()
  progress({ done: 0, total })
  try {
    await ask(started, { load: { clang: url(clang), files: url(files), what } }, ({ loaded }) => progress({ done: loaded, total }))
  } catch (problem) {
    started.terminate()
    throw problem
  }
  return started
}

// Returns a worker's answer. Its messages before the answer go to `meanwhile`.
function ask(worker, question, meanwhile = () => {}) {
  return new Promise((settle, refuse) => {
    worker.onerror = (event) => refuse(new Error(event.message || 'the worker did not start'))
    worker.onmessage = ({ data }) => data.loaded !== undefined || data.printed !== undefined ? meanwhile(data)
      : data.failed !== undefined ? refuse(new Error(data.failed)) : settle(data)
    worker.postMessage(question)
  })
}

/// Loads the compiler, once for all. `what` is of Toolchain.prepare. Calls `progress` with { done, total }, in bytes.
export const load = (what, progress) => compiler ??= start(what, progress).catch((problem) => {
  compiler = undefined  // the next click tries again
  throw problem
})

/// Returns the result of Toolchain.compile (docs/editor/toolchain.mjs). A compiler that fails is reloaded.
export async function compile(request) {
  try {
    return await ask(await compiler, { compile: request })
  } catch (problem) {
    (await compiler).terminate()
    compiler = undefined
    throw problem
  }
}

/// Returns the text of a file of the compiler, such as solutions/02_tiled_cpu/ex1_safe_softmax/safe_softmax.hpp.
export const text = async (path) => (await ask(await compiler, { text: path })).text

let cancelled
/// Ends the program that runs, whose { run } is then null.
export const cancel = () => cancelled?.(null)

/// Runs a program in a separate worker. Returns { run, output } for verdict() and compared().
export async function run(program, words) {
  const own = await worker()
  let output = '', clock
  const stopped = new Promise((settle) => { cancelled = settle })
  const endless = new Promise((settle) => { clock = setTimeout(() => settle({ seconds: ENDLESS }), 1000 * ENDLESS) })
  const ended = ask(own, { run: program, words }, ({ printed }) => { output += printed }).then((data) => data.ended)
  try {
    return { run: await Promise.race([ended, endless, stopped]), output }
  } finally {
    clearTimeout(clock)
    own.terminate()
  }
}
