// The compiler of the page (docs/editor), which all exercises share, and the runs of tests.
import { withBase } from 'vitepress'

const ENDLESS = 20  // seconds after which a program is taken for endless

const worker = async () => new (await import('../../editor/worker.js?worker')).default()

let compiler  // a promise of the worker
async function start(exercise, progress) {
  const response = await fetch(withBase('/editor/editor.json'))
  if (!response.ok) throw new Error(`editor.json: status ${response.status}`)
  const { clang, files } = await response.json(), total = clang.bytes + files.bytes
  const url = ({ name }) => new URL(withBase(`/editor/${name}`), location.href).href
  const started = await worker()
  progress({ done: 0, total })
  try {
    await ask(started, { load: { clang: url(clang), files: url(files), exercise } }, ({ loaded }) => progress({ done: loaded, total }))
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

/// Loads the compiler for an exercise, once for all. Calls `progress` with { done, total }, in bytes.
export const load = (exercise, progress) => compiler ??= start(exercise, progress).catch((problem) => {
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

/// Returns the text of a solution, such as 02_tiled_cpu/ex1_safe_softmax/safe_softmax.hpp.
export const solution = async (path) => (await ask(await compiler, { solution: `solutions/${path}` })).text

let cancelled
/// Ends the program that runs, whose { run } is then null.
export const cancel = () => cancelled?.(null)

/// Runs the program of a test in a separate worker. Returns { run, output } for verdict().
export async function run(program) {
  const own = await worker()
  let output = '', clock
  const stopped = new Promise((settle) => { cancelled = settle })
  const endless = new Promise((settle) => { clock = setTimeout(() => settle({ seconds: ENDLESS }), 1000 * ENDLESS) })
  const ended = ask(own, { run: program }, ({ printed }) => { output += printed }).then((data) => data.ended)
  try {
    return { run: await Promise.race([ended, endless, stopped]), output }
  } finally {
    clearTimeout(clock)
    own.terminate()
  }
}
