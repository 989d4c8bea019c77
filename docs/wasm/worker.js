// The programs beside a page: it goes on while they run, and may end them.
//
// To it: { folder } of the modules, and { breaks_of: chapter } or { request }. From it: { breaks:
// { name: what it leaves out } }, { answer }, or { missing: why there are no programs }.
import { module_of, Programs } from './host.mjs'

const loaded = {}

async function load(url) {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`status ${response.status}`)
  return new Programs(await WebAssembly.compile(await response.arrayBuffer()))
}

self.onmessage = async ({ data: { folder, breaks_of, request } }) => {
  try {
    const name = module_of(request ?? { chapter: breaks_of })
    const programs = await (loaded[name] ??= load(`${folder}${name}.wasm`))
    self.postMessage(request ? { answer: programs.run(request) } : { breaks: programs.breaks(breaks_of) })
  } catch (problem) {
    self.postMessage({ missing: String(problem.message ?? problem) })
  }
}
