// The editor without a network and out of memory; all answers as one file.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { ROOT } from '../figures/programs.mjs'
import { SITE, with_browser } from './browser.mjs'
import { panel_of } from './code_panel.mjs'

const skip = existsSync(join(SITE, 'editor', 'editor.json')) ? false
  : 'the editor is not built: its compiler or the tools of docs/wasm are missing'

const EXERCISE = '02_tiled_cpu/ex2_online_softmax', PAGE = `/exercises/${EXERCISE}/`, MAP = '/exercises/'
const TITLE = '02.2 Online softmax', FILE = 'online_softmax.hpp'

const answered = (text) => ({ name: FILE, mimeType: 'text/plain', buffer: Buffer.from(text) })

test('an exercise offline and out of memory', { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE, { quiet: true }), panel = panel_of(page)
  const solution = readFileSync(join(ROOT, 'solutions', EXERCISE, FILE), 'utf8')
  await panel.press('Edit')
  await panel.ready()
  await page.context().setOffline(true)
  const file = panel.root.getByLabel('Open a file')
  await file.setInputFiles(answered(solution))
  assert.equal(await panel.check(), `${TITLE}: right (7 test cases)`)
  await file.setInputFiles(answered(solution.replace('inline void see(Running& state, float x) {', '$&\n  static std::vector<float> all; for (;;) all.resize(all.size() + (1 << 24), 1.0f);')))
  assert.match(await panel.check(), /^02\.2 Online softmax: wrong: it needs more than the 512 MB of memory/)
  await file.setInputFiles(answered(solution))
  assert.equal(await panel.check(), `${TITLE}: right (7 test cases)`)
  await page.context().setOffline(false)
}))

test('the map: what is right, and all answers as one file', { skip }, () => with_browser(async (open) => {
  const page = await open(MAP, { quiet: true }), map = page.locator('.fa-map')
  const put = (texts) => page.evaluate((texts) => Object.entries(texts).forEach(([key, text]) => localStorage.setItem(key, text)), texts)
  await put({ 'fa-exercise-02.2': 'mine, ½\n', 'fa-right-02.2': '1', 'fa-exercise-01.1': 'LOAD\n' })
  await page.reload()
  await map.getByText('02.2 (right)').waitFor()
  assert.match(await map.textContent(), /1\s+of \d+ are right[^]*01\.1 \(begun\)/)
  const saved = page.waitForEvent('download')
  await map.getByRole('button', { name: 'Save all answers' }).click()
  const path = await (await saved).path()
  assert.equal(spawnSync('tar', ['tf', path], { encoding: 'utf8' }).stdout,
    `my_exercises/01_toy_machine/ex1_one_element/one_element.txt\nmy_exercises/${EXERCISE}/${FILE}\n`)
  await page.evaluate(() => localStorage.clear())
  await page.reload()
  await map.locator('[data-state]').first().waitFor()  // the page's script runs
  page.on('dialog', (dialog) => dialog.accept())
  await map.getByLabel('Open such a file').setInputFiles({ name: 'my_exercises.tar', mimeType: 'application/x-tar', buffer: readFileSync(path) })
  await map.getByText('2 answers in the file').waitFor()
  assert.equal(await page.evaluate(() => localStorage.getItem('fa-exercise-02.2')), 'mine, ½\n')
  await map.getByLabel('Open such a file').setInputFiles({ name: 'a.tar', mimeType: 'application/x-tar', buffer: Buffer.alloc(2048, 'x') })
  await map.getByText('this is not a .tar file').waitFor()
}))
