// Compiles answers and kernels in one worker of the page, and runs their programs in another, which the page can end.
//
// Messages to the worker: { load: { clang, files, what } }, the addresses of both files and whose headers come first
// (Toolchain.prepare), once; then { compile } (toolchain.mjs) or { text: the path of a file }. Or { run: the program,
// words: its options }. Answers: { loaded: bytes so far }, { ready }, the result of
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

async function load({ clang, files, what }) {
  const [module, packed] = await Promise.all([
    stream_of(clang).then((stream) => WebAssembly.compileStreaming(
      new Response(stream, { headers: { 'content-type': 'application/wasm' } }))),
    stream_of(files).then((stream) => new Response(stream).arrayBuffer())])
  self.postMessage({ loaded: bytes })
  toolchain = new Toolchain(module, unpacked(new Uint8Array(packed)))
  const cache = await self.caches?.open(CACHE).catch(() => undefined)
  // The precompiled headers of an earlier visit, made by the same compiler of the same files.
  const of_compiler = `&${clang.split('/').pop()}`, made = []
  const key_of = (name) => `${files}?${name}${of_compiler}`
  for (const name of toolchain.precompiled(what)) {
    const kept = await cache?.match(key_of(name))
    kept ? toolchain.put(name, new Uint8Array(await kept.arrayBuffer())) : made.push(name)
  }
  toolchain.prepare(what)
  for (const name of made) cache?.put(key_of(name), new Response(toolchain.get(name))).catch(() => {})
  for (const { url } of await cache?.keys() ?? []) {
    const current = [clang, files].includes(url) || url.startsWith(`${files}?`) && url.endsWith(of_compiler)
    if (!current) cache.delete(url)
  }
  return { ready: true }
}

async function answer({ load: urls, compile, text, run, words }) {
  if (run) return { ended: await execute(run, words, (printed) => self.postMessage({ printed })) }
  if (text) return { text: toolchain.text(text) }
  return compile ? toolchain.compile(compile) : load(urls)
}

self.onmessage = async ({ data }) => {
  try {
    self.postMessage(await answer(data))
  } catch (problem) {
    self.postMessage({ failed: String(problem.message ?? problem) })
  }
}
