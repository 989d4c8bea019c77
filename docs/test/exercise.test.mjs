// Tests exercises 01.1 to 01.5 in the page: the tests of ./learn check check the answer, and the
// answer is kept.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { read } from '../editor/verdict.mjs'
import { BIN, ROOT } from '../figures/programs.mjs'
import { EXERCISES } from '../wasm/modules.mjs'
import { SITE, with_browser } from './browser.mjs'
import { wrong_answers } from './mistakes.mjs'

const skip = existsSync(join(SITE, 'toy.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'

const file_of = (directory) => `${directory.replace(/^ex\d+_/, '')}.txt`
const text_of = (...path) => readFileSync(join(ROOT, ...path), 'utf8')

function panel_of(page) {
  const root = page.locator('.fa-exercise'), press = (name) => root.getByRole('button', { name }).click()
  const editor = root.locator('textarea'), words = root.locator('[data-result]')
  return {
    root, editor, press,
    async judge(text) {
      if (text !== undefined) await editor.fill(text)
      await press('Check')
      await words.waitFor()
      return (await words.textContent()).trim()
    },
    async run() {
      await press('Run, step by step')
      await words.waitFor()
      return words.textContent()
    },
  }
}

// Returns the native program's verdict on an answer, as ./learn check shows it.
function verdict_of(id, file, answer) {
  const folder = mkdtempSync(join(tmpdir(), 'verdict-')), path = join(folder, file)
  writeFileSync(path, answer)
  const { stdout } = spawnSync(join(BIN, `ex${id}_${file.slice(0, -4)}`), ['--reporters=verdict'],
    { encoding: 'utf8', env: { ...process.env, EXERCISE_ANSWER: path } })
  rmSync(folder, { recursive: true })
  return read(stdout).result.text.trim()
}

for (const [id, directory] of Object.entries(EXERCISES)) {
  test(`exercise ${id}: stub, solution and a wrong answer have the verdict of ./learn check`, { skip }, () => with_browser(async (open) => {
    const folder = ['01_toy_machine', directory], file = file_of(directory)
    const page = await open(`/exercises/01_toy_machine/${directory}/`), panel = panel_of(page)
    const title = /^# (.+)$/m.exec(text_of('exercises', ...folder, 'README.md'))[1]
    assert.equal(await panel.editor.inputValue(), text_of('exercises', ...folder, file))
    assert.match(await panel.judge(), new RegExp(`^${title}: not written yet\n\n {2}TODO\\(${id}\\): `))
    assert.match(await panel.judge(text_of('solutions', ...folder, file)), new RegExp(`^${title}: right \\(\\d test cases\\)$`))
    const [[, wrong]] = wrong_answers(folder.join('/'))
    assert.equal(await panel.judge(wrong), `${title}: ${verdict_of(id, file, wrong)}`)
    assert.deepEqual(page.complaints, [])
  }))
}

test('exercise 01.1: step by step, hints, what was written stays, the stub again', { skip }, () => with_browser(async (open) => {
  const page = await open('/exercises/01_toy_machine/ex1_one_element/', { width: 390, height: 844 }), panel = panel_of(page)
  const stub = await panel.editor.inputValue()
  const half = stub.replace(/^TODO.*$/m, 'LOAD b[0][0], R1\nMAC_Z R0, R1, R2')
  await panel.editor.fill(half)
  assert.match(await panel.run(), /MAC_Z R0, R1, R2 +│ a00 +│ b00 +│ a00·b00\n[^]*WRONG: 1 of 1 number/)
  await panel.editor.fill(half.replace('MAC_Z R0', 'MAC_Z R7'))
  assert.match(await panel.run(), /^error: one_element\.txt:11:7: R7 does not exist/)
  for (const number of [1, 2, 3]) await panel.press(`Hint ${number} of 3`)
  assert.equal(await panel.root.getByRole('button', { name: 'Hint' }).count(), 0)
  assert.equal(await panel.root.locator('.fa-hint-text').count(), 3)
  await page.reload()
  await page.locator('.fa-exercise').getByRole('button', { name: 'Start again' }).waitFor()
  assert.equal(await panel.editor.inputValue(), half.replace('MAC_Z R0', 'MAC_Z R7'))
  await panel.press('Start again')
  assert.equal(await panel.editor.inputValue(), stub)
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
  assert.deepEqual(page.complaints, [])
}))
