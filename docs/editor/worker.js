// Compiles answers in one worker of the page, and runs their tests in another, which the page can end.
//
// Messages to the worker: { load: { clang, files, exercise } }, the addresses of both
// files and the exercise whose headers come first, once; then { compile }
// (toolchain.mjs). Or { run: the program }. Answers: { loaded: bytes so far }, { ready }, the result of
// compile(), { printed }, { ended }, or { failed }.
import { execute, Toolchain, unpacked } from './toolchain.mjs'

const CACHE = 'fa-editor'
let toolchain, bytes = 0, reported = 0

// Returns a file as a stream without its compression. The browser keeps the file, where it can, for the next
// visit and for use offline.
async function stream_of(url) {
  const cache = await self.caches?.open(CACHE).catch(() => undefined)
  const kept = await cache?.match(url), response = kept ?? await fetch(url)
  if (!response.ok) throw new Error(`${url}: status ${response.status}`)
  if (!kept) cache?.put(url, response.clone()).catch(() => {})
  return response.body.pipeThrough(new TransformStream({ transform(chunk, to) {
    bytes += chunk.length
    if (bytes - reported > 250_000) self.postMessage({ loaded: reported = bytes })
    to.enqueue(chunk)
  } })).pipeThrough(new DecompressionStream('gzip'))
}

async function load({ clang, files, exercise }) {
  const [module, packed] = await Promise.all([
    stream_of(clang).then((stream) => WebAssembly.compileStreaming(
      new Response(stream, { headers: { 'content-type': 'application/wasm' } }))),
    stream_of(files).then((stream) => new Response(stream).arrayBuffer())])
  self.postMessage({ loaded: bytes })
  toolchain = new Toolchain(module, unpacked(new Uint8Array(packed)))
  toolchain.prepare(exercise)
  const cache = await self.caches?.open(CACHE).catch(() => undefined)
  for (const { url } of await cache?.keys() ?? []) if (![clang, files].includes(url)) cache.delete(url)  // older
  return { ready: true }
}

async function answer({ load: urls, compile, solution, run }) {
  if (run) return { ended: await execute(run, (printed) => self.postMessage({ printed })) }
  if (solution) return { text: toolchain.text(solution) }
  return compile ? toolchain.compile(compile) : load(urls)
}

self.onmessage = async ({ data }) => {
  try {
    self.postMessage(await answer(data))
  } catch (problem) {
    self.postMessage({ failed: String(problem.message ?? problem) })
  }
}
