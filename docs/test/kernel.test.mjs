// Edits kernels in the page, as a reader does, with real typing, and runs edits that the pages suggest.
// FA_EVERY_STATE=1: all of them.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { apply, parse } from '../editor/edits.mjs'
import { compared, options_of } from '../editor/profile.mjs'
import { ROOT } from '../figures/programs.mjs'
import { blank_page, SITE, with_browser } from './browser.mjs'
import { panel_of } from './code_panel.mjs'
import { toolchain_in } from './page_toolchain.mjs'

const MANIFEST = join(SITE, 'editor', 'editor.json')
const skip = existsSync(MANIFEST) ? false : 'the editor is not built: its compiler or the tools of docs/wasm are missing'
const EVERY = process.env.FA_EVERY_STATE
const RUN = ['03', '09', '10', '11', '13', '16', '21', '22', '23']  // the chapters whose first suggestion runs otherwise

const SHAPES = { '22_backward_on_hopper': '1,2,256,256,128' }  // its blocks visit tiles of queries

const PAGE = '/chapters/04_swizzling/'
const BUTTON = '.fa-edit-kernel button'

// Opens the first editor of a page, as a reader who has unfolded the answers.
async function edit(page) {
  await page.evaluate(() => document.querySelectorAll('details').forEach((fold) => { fold.open = true }))
  await page.locator(BUTTON).first().click()
  const panel = panel_of(page, 'kernel')
  await panel.ready()
  return panel
}

test('a kernel: suggestions, a race, a compile error, a reload in between (also in Firefox)', { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE, { quiet: true }), fetched = []
  page.on('request', (request) => fetched.push(request.url()))
  page.on('dialog', (dialog) => dialog.accept())
  const parts = () => fetched.filter((url) => /\/editor\/|CodeKernel|CodePanel|code_editor/.test(url))
  await page.locator(BUTTON).first().scrollIntoViewIfNeeded()
  assert.deepEqual(parts(), [])
  const panel = await edit(page), line = (text) => panel.editor.locator('.cm-line').filter({ hasText: text })
  assert.ok(parts().length > 3)
  assert.ok(await line('[anchor: multiply_query_key]').isVisible())

  const before = await panel.check()
  assert.match(before, /^ch04_swizzling: [^]*counted on the emulator +original +yours\n[^]* {2}shared_load_wavefronts +16640 +16640\n[^]*check +passed/)
  assert.doesNotMatch(before, /^\*/m)

  await panel.press('Make BLOCK_KV 32')
  assert.match(await panel.check(), /^\* barriers +(\d+) +(?!\1)\d+$[^]*check +passed/m)
  assert.match(await panel.root.locator('.fa-changed').first().textContent(), /^\* /)

  await page.reload()
  const again = await edit(page)
  assert.equal(await again.root.getByRole('button', { name: 'Make BLOCK_KV 32' }).isEnabled(), false)
  await again.press('Reset')
  assert.equal(await again.root.getByRole('button', { name: 'Make BLOCK_KV 32' }).isEnabled(), true)

  await again.reach('fa::MISSING_BARRIER')
  await again.type('fa::MISSING_BARRIER', '// no barrier')
  assert.match(await again.check(), /^ {2}hazard +chapters\/04_swizzling\/attention\.hpp:\d+: read_before_barrier: warp \d+\s+reads /m)
  await again.root.locator('.fa-place').first().click()
  assert.equal(await again.root.locator('.cm-lint-marker-warning').count(), 1)
  assert.match(await page.evaluate(() => String(getSelection())), /^ +ldmatrix_x2\(K_rmem, /)

  await again.reach('// no barrier')
  await again.type('// no barrier', 'block_sink();')
  assert.match(await again.check(), /^Chapter 04: does not compile\n\nattention\.hpp:\d+: use of undeclared identifier 'block_sink'/)
  assert.equal(await again.root.locator('.cm-lint-marker-error').count(), 1)
  assert.deepEqual(page.complaints, [])
}))

test('without JSPI, the page says what is missing, and the command', { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE, { width: 390, height: 844 })
  await page.evaluate(() => { delete WebAssembly.Suspending })
  await page.evaluate(() => document.querySelectorAll('details').forEach((fold) => { fold.open = true }))
  await page.locator(BUTTON).first().click()
  await page.getByText(/no JSPI[^]*edit chapters\/04_swizzling\/attention\.hpp, and then: \.\/learn build && build\/bin\/ch04_swizzling --shape/).waitFor()
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
}))

// The commands of a chapter's lessons that have an editor.
const commands_of = (kernel) => readdirSync(join(SITE, 'chapters', kernel)).filter((name) => name.endsWith('.html')).flatMap((name) =>
  [...readFileSync(join(SITE, 'chapters', kernel, name), 'utf8').matchAll(/<p class="fa-edit-kernel"/g)])
const text_of = (...path) => readFileSync(join(ROOT, 'chapters', ...path), 'utf8')
const { kernels } = skip ? { kernels: {} } : JSON.parse(readFileSync(MANIFEST, 'utf8'))

test('each kernel has an editor and suggestions, which show what they say', { skip }, () => blank_page(async (page) => {
  const run = await toolchain_in(page, { kernel: Object.keys(kernels)[0] })
  for (const [kernel, files] of Object.entries(kernels)) {
    assert.ok(commands_of(kernel).length, kernel)
    const all = parse(text_of(kernel, 'edits.txt')), of_files = files.map((file) => all.filter((one) => apply(text_of(kernel, file), one)))
    assert.deepEqual(of_files.flat().map(({ name }) => name).sort(), all.map(({ name }) => name).sort(),
      `${kernel}: the lines of each edit are once in one of its files`)
    for (const [i, file] of files.entries()) {
      const original = text_of(kernel, file), edits = of_files[i]
      const design = files.length > 1 ? ` --design ${file.slice(0, -4).replace('_', '-')}` : ''
      const request = { kernel, file, ...options_of(`ch${kernel} --shape ${SHAPES[kernel] ?? '1,1,128,512,128'}${design}`) }
      assert.ok(edits.length > 1, `${kernel}: ${file}`)
      const before = EVERY ? await run({ ...request, text: original }) : { output: '' }
      for (const one of EVERY ? edits : edits.slice(0, RUN.includes(kernel.slice(0, 2)))) {
        const yours = await run({ ...request, text: apply(original, one) })
        assert.ok(yours.run, `${kernel}: ${one.name}: ${yours.compiled?.said}`)
        const { lines } = compared(kernel, `chapters/${kernel}/${file}`, before, yours)
        assert.ok(lines.join('\n').includes(one.says), `${kernel}: ${one.name}: ${one.says} is not in\n${lines.join('\n')}`)
      }
    }
  }
}))
