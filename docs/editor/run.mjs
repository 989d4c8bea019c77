// node docs/editor/run.mjs TOPIC/EXERCISE FILE: the verdict of the page on an answer.
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { execute, Toolchain, unpacked } from './toolchain.mjs'
import { does_not_compile, verdict } from './verdict.mjs'

const PUBLIC = new URL('../public/editor/', import.meta.url)

/// Returns the page's toolchain, in Node.
export function toolchain() {
  const [clang, files] = ['clang', 'files'].map((name) => gunzipSync(readFileSync(new URL(
    readdirSync(PUBLIC).find((file) => file.startsWith(`${name}-`)), PUBLIC))))
  return new Toolchain(new WebAssembly.Module(clang), unpacked(files))
}

/// Returns the verdict on an answer.
export async function check(tools, title, request) {
  const compiled = tools.compile(request)
  if (!compiled.program) return does_not_compile(title, request.file, compiled)
  let output = ''
  const run = await execute(compiled.program, undefined, (text) => { output += text })
  return verdict(title, run, output)
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [exercise, path] = process.argv.slice(2)
  const { lines } = await check(toolchain(), exercise, { exercise, file: basename(path), text: readFileSync(path, 'utf8') })
  console.log(lines.join('\n'))
}
