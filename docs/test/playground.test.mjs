// CUDA files in the page: the same report as ./learn cuda, and the playground with real typing.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { reported } from '../editor/cuda_report.mjs'
import { prepared, retargeted, size_of, split } from '../editor/device_ir.mjs'
import { read_link, write_link } from '../editor/link.mjs'
import { does_not_compile } from '../editor/verdict.mjs'
import { ROOT } from '../figures/programs.mjs'
import { blank_page, SITE, with_browser } from './browser.mjs'
import { panel_of } from './code_panel.mjs'
import { toolchain_in } from './page_toolchain.mjs'

const skip = existsSync(join(SITE, 'editor', 'editor.json')) ? false
  : 'the editor is not built: its compiler or the tools of docs/wasm are missing'
const EMUCUDA = join(process.env.FA_BIN ?? join(ROOT, 'build', 'bin'), 'emucuda')
const LANGUAGE = ['playground_language.cu', 'playground_types.cu']
const example = (file) =>
  readFileSync(join(ROOT, LANGUAGE.includes(file) ? 'docs/test' : 'docs/editor/examples', file), 'utf8')

// An edit of each example, and the kinds of hazards that it then has.
const FAULTS = [
  ['vector_add.cu', 'i < n', 'i <= n', ['out_of_bounds']],
  ['transpose.cu', '  __syncthreads();\n', '', ['read_before_barrier']],
  ['transpose.cu', '[TILE][TILE]', '[TILE][TILE + 1]', []],
  ['reduction.cu', 'partial[i + half];\n', 'partial[i + half];\n    __syncthreads();\n', []],
  ['matmul.cu', 'b_tile[i][x];\n    __syncthreads();', 'b_tile[i][x];', ['overwrite_while_read']],
  ['attention.cu', '    __syncthreads();  // before', '    // before', ['overwrite_while_read']],
]
const EXAMPLES = ['vector_add.cu', 'transpose.cu', 'reduction.cu', 'matmul.cu', 'attention.cu']
const cases = [...[...EXAMPLES, ...LANGUAGE].map((file) => [file]), ...FAULTS]

// What Firefox writes to its console when a page ends a worker whose WebAssembly has stacks of its own.
const ENDED = 'uncaught exception: undefined'

function native(file, text) {
  const folder = mkdtempSync(join(tmpdir(), 'playground-'))
  try {
    writeFileSync(join(folder, file), text)
    const { stdout, stderr } = spawnSync(EMUCUDA, [file, '--profile', '--json', 'report.json'],
      { cwd: folder, encoding: 'utf8' })
    assert.ok(existsSync(join(folder, 'report.json')), stderr)
    return { stdout, stderr, ...JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8')) }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const skip_comparison = skip || !existsSync(EMUCUDA) && 'emucuda is not built'
test('the report of a CUDA file is that of ./learn cuda', { skip: skip_comparison }, () => blank_page(async (page) => {
  const run = await toolchain_in(page, { cuda: true })
  const remedies = JSON.parse(readFileSync(join(ROOT, 'build/wasm/editor/remedies'), 'utf8'))
  for (const [file, old, fresh, kinds] of cases) {
    const name = `${file}${old ? `: ${fresh}` : ''}`, text = old ? example(file).replace(old, fresh) : example(file)
    assert.ok(!old || text !== example(file), name)
    const wanted = native(file, text), done = await run({ cuda: true, file, text })
    assert.ok(done.run, `${name}: ${done.compiled?.said}`)
    const { report, lines } = reported(file, text, done, remedies)
    const { stdout, stderr, program, ...of_native } = wanted, { stopped, ...of_page } = report
    assert.equal(done.output, stdout, name)
    assert.deepEqual({ exit: done.run.code, stopped }, program, name)
    assert.deepEqual(of_page, of_native, name)
    if (kinds) assert.deepEqual([...new Set(report.hazards.map(({ kind }) => kind))], kinds, name)
    assert.equal(`${lines.join('\n')}\n`, `${stdout}${stderr.replace(/, emucuda's is 1$/m, '')}`, name)
  }
}))

const PLACE = /^\/(\w+\.cu):(\d+):1: error: (.*)$/m

test('what the page refuses, and errors of the compiler, have their line', { skip }, () => blank_page(async (page) => {
  const run = await toolchain_in(page, { cuda: true }), file = 'a.cu'
  const said = async (text) => (await run({ cuda: true, file, text })).compiled
  const ptx = await said('__global__ void k(int* p) {\n  asm volatile("membar.gl;");\n  *p = 1;\n}\nint main() {}\n')
  assert.deepEqual(PLACE.exec(ptx.said).slice(1),
    ['a.cu', '2', 'inline PTX is not supported in the page. ./learn cuda a.cu can do more'])
  const { lines, places } = does_not_compile(file, file, await said('int main() {\n  return unknown_name;\n}\n'))
  assert.equal(lines[0], 'a.cu: does not compile')
  assert.deepEqual(places.map(({ line, text }) => [line, text]), [[2, "use of undeclared identifier 'unknown_name'"]])
}))

test('the text of a device', () => {
  assert.deepEqual(split('float 1.0, ptr getelementptr (i8, ptr @a, i32 4), c"a,b"'),
    ['float 1.0', 'ptr getelementptr (i8, ptr @a, i32 4)', 'c"a,b"'])
  const types = ['i1', 'double', '<3 x float>', '[3 x i16]', '{ i8, ptr, i8 }', '%p']
  assert.deepEqual(types.map((type) => size_of(type, { '%p': '<{ i8, i32 }>' }).bytes), [1, 8, 16, 6, 12, 5])
  const copy = '  call void @llvm.memcpy.p0.p0.i32(ptr align 16 %a, ptr align 16 %b, i32 16, i1 false), !dbg !3'
  assert.match(prepared(copy),
    /= load <4 x i32>, ptr %b, align 16, !dbg !3\n {2}store <4 x i32> %emucuda\.copy0, ptr %a, align 16, !dbg !3$/)
  const asm = `define dso_local ptx_kernel void @k() !dbg !1 {
  call void asm sideeffect "membar.gl;", ""(), !dbg !2
  ret void
}
!1 = distinct !DISubprogram(name: "k", file: !3, line: 1)
!2 = !DILocation(line: 4, column: 3, scope: !1)
!3 = !DIFile(filename: "/a.cu", directory: "")`
  assert.deepEqual(retargeted(asm, new Set()), { problems: [{ file: 'a.cu', line: 4, name: 'inline PTX' }] })
})

test('a link has the text', async () => {
  const text = 'int main() { return 0; }  // ½\n', link = await write_link(text)
  assert.match(link, /^#code=[\w-]+$/)
  assert.equal(await read_link(link), text)
  await assert.rejects(read_link(`${link.slice(0, -9)}`))
})

test('the page of an exercise with a CUDA file links to its program', { skip }, async () => {
  for (const directory of readdirSync(join(ROOT, 'exercises/cuda'))) {
    const [, link] = /href="\/docs\/playground\.html(#code=[^"]+)"/.exec(readFileSync(join(SITE, 'exercises/cuda', directory, 'index.html'), 'utf8'))
    const text = await read_link(link)
    for (const part of [/TODO\(C\.\d\)/, /__global__/, /int main\(/]) assert.match(text, part)
    assert.doesNotMatch(text, /#include <\w+\.cu>/)
  }
})

test('the playground: edit, run, a race, a link, a compile error, an endless loop (also in Firefox)', { skip }, () => with_browser(async (open) => {
  const page = await open('/docs/playground.html', { quiet: true }), fetched = [], panel = panel_of(page, 'playground')
  page.on('request', (request) => fetched.push(request.url()))
  page.on('dialog', (dialog) => dialog.accept())
  await panel.root.scrollIntoViewIfNeeded()
  assert.deepEqual(fetched.filter((url) => /\/editor\/|code_editor/.test(url)), [])
  await page.getByRole('button', { name: 'reduction.cu' }).click()
  await panel.press('Edit')
  await panel.ready()
  const race = await panel.check()
  assert.match(race, /^\d+\n[^]*reduction\.cu:12: read_before_barrier: [^]*kernel sum_of_block, 1 launch/)
  assert.match(race, /2 hazards; the program's exit status is 0\n?$/)
  assert.ok(await panel.root.locator('.cm-lint-marker-warning').count() > 0)
  await panel.root.locator('.fa-place').first().click()
  assert.match(await page.evaluate(() => String(getSelection())), /partial\[i\] \+= partial/)

  await panel.type('if (i < half)', '    if (i < half) partial[i] += partial[i + half]; __syncthreads();')
  assert.match(await panel.check(), /^256\n256\n256\n256\n[^]*0 hazards; the program's exit status is 0\n?$/)

  await panel.press('Link to this text')
  const link = await panel.root.locator('.fa-link').inputValue()
  await panel.type('__syncthreads();', '  __sink();')
  assert.match(await panel.check(), /^reduction\.cu: does not compile\n\nreduction\.cu:\d+: use of undeclared identifier '__sink'/)
  assert.equal(await panel.root.locator('.cm-lint-marker-error').count(), 1)

  await page.goto('about:blank')
  await page.goto(link)
  await panel.root.locator('pre').filter({ hasText: 'partial[i + half]; __syncthreads();' }).waitFor()
  assert.equal(await panel.words.count(), 0)
  await panel.press('Edit')
  await panel.ready()
  assert.equal(await panel.words.count(), 0)
  assert.match(await panel.check(), /^256\n[^]*0 hazards/)

  await panel.type('if (i < half)', '    for (;;) {}')
  assert.match(await panel.check(), /playground\.cu: still running after 20 s; is there a loop that never ends\?\n?$/)
  page.complaints = page.complaints.filter((words) => words !== ENDED)
  await panel.press('Reset')
  assert.match(await panel.check(), /^256\n[^]*0 hazards/)
  assert.deepEqual(page.complaints, [])
}))
