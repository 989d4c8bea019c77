// node docs/wasm/run.mjs REQUEST runs a chapter's program as WebAssembly. REQUEST is JSON with the keys of
// host.mjs (the stub of an exercise is read here). Prints the answer as JSON, without outputs. The exit status is
// the program's.
import { readFileSync } from 'node:fs'
import { Programs } from './host.mjs'
import { EXERCISES, module_of } from './modules.mjs'

let request
try {
  request = JSON.parse(process.argv[2] ?? '')
} catch {
  console.error('error: request: expected JSON, such as \'{"chapter":4,"profile":true}\'')
  process.exit(2)
}
let bytes
const file = `${module_of(request)}.wasm`
try {
  bytes = readFileSync(new URL(`../public/${file}`, import.meta.url))
} catch {
  console.error(`error: docs/public/${file} is not built: ./learn docs --build`)
  process.exit(2)
}
const name = EXERCISES[request?.exercise]
if (name) {
  const stub = new URL(`../../exercises/01_toy_machine/${name}/${name.replace(/^ex\d+_/, '')}.txt`, import.meta.url)
  request = { stub: readFileSync(stub, 'utf8'), ...request }
}
const answer = new Programs(new WebAssembly.Module(bytes)).run(request)
if (answer.error !== undefined) console.error(`error: ${answer.error}`)
else console.log(JSON.stringify({ ...answer, outputs: undefined }, null, 1))
process.exit(answer.status)
