// Runs programs in a worker. The page continues while they run and can end them.
//
// Messages to the worker: { name, module }, a compiled module, once; then { name, request } or { name,
// breaks_of: chapter }. The worker answers in the order of the requests: { answer }, { breaks: { name:
// the part that it leaves out } }, or { failed }.
import { Programs } from './host.mjs'

const programs = {}

self.onmessage = ({ data: { name, module, request, breaks_of } }) => {
  if (module) return programs[name] = new Programs(module)
  try {
    self.postMessage(request ? { answer: programs[name].run(request) } : { breaks: programs[name].breaks(breaks_of) })
  } catch (problem) {
    self.postMessage({ failed: String(problem.message ?? problem) })
  }
}
