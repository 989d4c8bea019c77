// The toolchain of docs/editor in Chromium, from its sources. (Node 20 cannot switch stacks of WebAssembly.)
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

import { ROOT } from '../figures/programs.mjs'

const SHIM = '@bjorn3/browser_wasi_shim'
const EDITOR = join(ROOT, 'docs', 'public', 'editor')

// Serves the project's files, where SHIM has an address.
function serve(route) {
  const { pathname } = new URL(route.request().url()), path = join(ROOT, pathname)
  if (pathname === '/') return route.fulfill({ contentType: 'text/html', body: '' })
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return route.fulfill({ status: 404, body: '' })
  if (!/js$/.test(path)) return route.fulfill({ body: readFileSync(path) })
  route.fulfill({ contentType: 'text/javascript',
    body: readFileSync(path, 'utf8').replace(`'${SHIM}'`, `'/docs/node_modules/${SHIM}/dist/index.js'`) })
}

/// Loads the toolchain in `page`, an empty one of a browser. `what` is of Toolchain.prepare. Returns run(request), which
/// returns { compiled } if a request of Toolchain.compile does not compile, or else { run, output }.
export async function toolchain_in(page, what) {
  await page.route('http://toolchain/**', serve)
  await page.goto('http://toolchain/')
  const [clang, files] = ['clang', 'files'].map((name) =>
    `http://toolchain/docs/public/editor/${readdirSync(EDITOR).find((file) => file.startsWith(`${name}-`))}`)
  await page.evaluate(async (load) => {
    const started = () => new Worker('/docs/editor/worker.js', { type: 'module' })
    const ask = (worker, question) => new Promise((settle, refuse) => {
      let output = ''
      worker.onerror = (event) => refuse(new Error(event.message))
      worker.onmessage = ({ data }) => {
        if (data.printed !== undefined) output += data.printed
        else if (data.failed !== undefined) refuse(new Error(data.failed))
        else if (data.loaded === undefined) settle({ ...data, output })
      }
      worker.postMessage(question)
    })
    const compiler = started()
    await ask(compiler, { load })
    window.compile_and_run = async (request) => {
      const { program, ...compiled } = await ask(compiler, { compile: request })
      if (!program) return { compiled }
      const worker = started()
      try {
        return await ask(worker, { run: program, words: request.words })
      } finally {
        worker.terminate()
      }
    }
  }, { clang, files, what })
  return async (request) => {
    const { compiled, ended: run, output } = await page.evaluate((request) => window.compile_and_run(request), request)
    return { compiled, run, output }
  }
}
