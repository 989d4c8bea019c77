// The kernels beside a page: it goes on while they run, and may end them.
//
// To it: { url } of kernels.wasm, once; then { breaks_of: chapter } or { request }. From it: { breaks:
// { name: what it leaves out } }, { answer }, or { missing: why there are no kernels }.
import { Kernels } from './host.mjs'

let kernels

async function load(url) {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`status ${response.status}`)
  return new Kernels(await WebAssembly.compile(await response.arrayBuffer()))
}

self.onmessage = async ({ data: { url, breaks_of, request } }) => {
  try {
    kernels ??= load(url)
    const loaded = await kernels
    self.postMessage(request ? { answer: loaded.run(request) } : { breaks: loaded.breaks(breaks_of) })
  } catch (problem) {
    self.postMessage({ missing: String(problem.message ?? problem) })
  }
}
