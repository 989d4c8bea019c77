// Edits and checks exercises in the page, as a reader does, with real typing.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'

import { ROOT } from '../figures/programs.mjs'
import { SITE, with_browser } from './browser.mjs'
import { panel_of } from './code_panel.mjs'

const MANIFEST = join(SITE, 'editor', 'editor.json')
const skip = existsSync(MANIFEST) ? false : 'the editor is not built: its compiler or the tools of docs/wasm are missing'
const MOST_BYTES = 25e6

const EXERCISE = '02_tiled_cpu/ex2_online_softmax', PAGE = `/exercises/${EXERCISE}/`
const TITLE = '02.2 Online softmax'

test('an exercise: a right answer, a wrong one, a compile error, an endless loop (also in Firefox)', { skip }, () => with_browser(async (open) => {
  const fetched = []
  const page = await open(PAGE, { quiet: true }), panel = panel_of(page)
  page.on('request', (request) => fetched.push(request.url()))
  page.on('dialog', (dialog) => dialog.accept())
  assert.equal(await panel.editor.count(), 0)
  await panel.press('Edit')
  await panel.ready()
  for (const name of ['clang', 'files']) assert.equal(fetched.filter((url) => url.includes(`/editor/${name}-`)).length, 1)

  assert.match(await panel.check(), new RegExp(`^${TITLE}: not written yet\n\n {2}TODO\\(02.2\\): `))
  await panel.type('exercise::todo', 'const float m_new = std::max(state.m, x);')
  await page.keyboard.press('Enter')
  await page.keyboard.type('state.l = state.l + std::exp(x - m_new);')
  await page.keyboard.press('Enter')
  await page.keyboard.type('state.m = m_new;')
  assert.match(await panel.check(), new RegExp(`^${TITLE}: wrong \\(\\d of 7 test cases pass\\)[^]*looks like: no-rescale: the old sum`))

  await panel.type('state.l = state.l', 'state.l = state.l * std::exp(state.m - m_new) + std::exp(x - m_new);')
  assert.equal(await panel.check(), `${TITLE}: right (7 test cases)`)

  await panel.type('state.m = m_new;', 'state.m = m_now;')
  assert.match(await panel.check(), new RegExp(`^${TITLE}: does not compile\n\nonline_softmax\\.hpp:\\d+: use of undeclared identifier 'm_now'`))
  assert.equal(await panel.root.locator('.cm-lint-marker-error').count(), 1)

  await panel.type('state.m = m_now;', 'state.m = m_new; while (x > 100) { std::printf("%s", ""); }')
  assert.match(await panel.check(), new RegExp(`^${TITLE}: wrong: still running after 20 s; is there a loop that never ends\\?\n\n`
    + ' {2}in the test case: scores whose exponential overflows'))

  // The scripts come late. There is no button before that, because a click on it would be lost.
  await page.route('**/assets/chunks/*.js', async (route) => { await wait(500); await route.continue() })
  await page.reload()
  await panel.press('Edit')
  await panel.ready()
  const kept = await page.evaluate(async () => (await (await caches.open('fa-editor')).keys()).map(({ url }) => url))
  assert.deepEqual(kept.map((url) => /editor\/([a-z]+)/.exec(url)[1]).sort(), ['clang', 'files', 'files'])
  assert.ok(kept.some((url) => url.includes('?headers.pch&clang-')), `${kept}`)
  assert.match(await panel.text(), /while \(x > 100\)/)
  await panel.press('Hint 1 of')
  assert.equal(await panel.root.locator('.fa-hint-text').count(), 1)
  await panel.press('Solution')
  assert.equal(await panel.check(), `${TITLE}: right (7 test cases)`)
  await panel.press('Reset')
  assert.match(await panel.text(), /exercise::todo/)
  assert.deepEqual(page.complaints, [])
}))

test('an exercise on the emulator: a hazard, files, a test that the reader cancels', { skip }, () => with_browser(async (open) => {
  const page = await open('/exercises/debugging/ex5_transpose/', { quiet: true }), panel = panel_of(page)
  page.on('dialog', (dialog) => dialog.accept())
  await panel.press('Edit')
  await panel.ready()
  await panel.press('Solution')
  const right = await panel.text()
  assert.equal(await panel.check(), 'D.5 Right, and slow: right (1 test cases)')

  await panel.type('block_sync();', '// no barrier')
  assert.match(await panel.check(), new RegExp('^D\\.5 Right, and slow: wrong \\(0 of 1 test cases pass\\)[^]* '
    + 'my_exercises/debugging/ex5_transpose/transpose\\.hpp:\\d+: read_before_barrier: thread '))

  const saved = page.waitForEvent('download')
  await panel.press('Save as file')
  assert.equal((await saved).suggestedFilename(), 'transpose.hpp')
  assert.match(readFileSync(await (await saved).path(), 'utf8'), /FA_KERNEL void transpose/)
  await panel.root.getByLabel('Open a file').setInputFiles({ name: 'transpose.hpp', mimeType: 'text/plain', buffer: Buffer.from(
    right.replace('block_sync();', 'while (column >= 0) block_sync();')) })
  await panel.root.getByRole('button', { name: 'Check' }).click()
  await panel.press('Cancel')
  await panel.ready()
  assert.match(await panel.root.locator('[data-result]').textContent(), /: cancelled$/)
  assert.deepEqual(page.complaints, [])
}))

test('without a network, the page says how to check an exercise', { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE, { width: 390, height: 844 }), panel = panel_of(page)
  await page.route('**/editor/clang-*', (route) => route.abort())
  await panel.press('Edit')
  await panel.root.getByText('./learn check 02.2').waitFor()
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
}))

test('the editor takes at most 25 MB from a server that does not compress', { skip }, () => {
  const scripts = ['assets/chunks', 'assets'].flatMap((folder) => readdirSync(join(SITE, folder)).map((name) => join(SITE, folder, name)))
    .filter((path) => /(code_editor|compiler|Code(Exercise|Kernel|Panel)|EditKernel|profile|verdict|worker-)[^/]*\.js$/.test(path))
  const { clang, files } = JSON.parse(readFileSync(MANIFEST, 'utf8'))
  const total = clang.bytes + files.bytes + scripts.reduce((sum, path) => sum + statSync(path).size, 0)
  assert.ok(total <= MOST_BYTES, `${total} bytes`)
})
