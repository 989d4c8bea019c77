import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, SITE, with_browser } from './browser.mjs'

const PAGE = page_with('02_tiled_cpu', 'online_softmax')
const PRESETS = { '1 to 6': [1, 2, 3, 4, 5, 6], '6 to 1': [6, 5, 4, 3, 2, 1],
  'a late giant': [1, 2, 3, 4, 5, 100], 'all equal': [3, 3, 3, 3, 3, 3],
  'very negative': [-1000, -999, -1002, -998, -1001, -997] }
const softmax = (x, algorithm) => output_of(['ch01_toy_machine', 'softmax', '--algorithm', algorithm,
  '--n', `${x.length}`, '--x', `${x}`, '--json', '{json}'])
const attention = (x) => output_of(['ch01_toy_machine', 'attention', '--n', '6', '--k', `${x}`,
  '--v', '1,2,3,4,5,6', '--json', '{json}'])
const number_in = (words) => Number(words.replaceAll('−', '-').match(/-?[\d.]+(e-\d+)?$/)[0])

// With four decimals, or as e-43.
const assert_near = (words, number, where) => {
  const bound = number !== 0 && Math.abs(number) < 5e-5 ? 0.5 * 10 ** Math.floor(Math.log10(number)) : 5.01e-5
  assert.ok(Math.abs(number_in(words) - number) <= bound, `${where}: ${words} for ${number}`)
}

test('online softmax: every step of every preset is what programs say', () => with_browser(async (open) => {
  const page = await open(PAGE)
  const figure = await figure_on(page, 'online_softmax')
  for (const [label, x] of Object.entries(PRESETS)) {
    await figure.choose('preset', label)
    for (let n = 1; n <= 6; ++n) {
      await figure.slide('step', n)
      const shown = await figure.values(), where = `${label}, ${n}`
      // The same state from the other program.
      const [, m, l] = softmax(x.slice(0, n), 'online').steps.at(-1).registers
      assert_near(shown.m, m, `${where}: m`)
      assert_near(shown.l, l, `${where}: l`)
      for (let i = 0; i < n; ++i) assert_near(shown[`term_${i}`], Math.exp(x[i] - m), `${where}: term ${i}`)
    }
    const shown = await figure.values()
    softmax(x, 'safe').outputs.out.forEach((weight, i) =>
      assert_near(shown[`weight_${i}`], weight, `${label}: weight ${i}`))
    const { outputs, steps } = attention(x)
    assert_near(shown.output, outputs.o[0], `${label}: o / l`)
    const costs = Array.from({ length: 6 }, (_, i) => +shown[`instructions_${i}`])
    assert.equal(new Set(costs.slice(1)).size, 1, 'every number after the first costs the same')
    const place_of = (word) => steps.findIndex(({ instruction }) => instruction.startsWith(word))
    const all = place_of('DIV') - place_of('LOAD k[')
    assert.equal(costs.reduce((a, b) => a + b), all, `${label}: all instructions`)
  }
  assert.deepEqual(page.complaints, [])
}))

test('online softmax: forwards, back and words, on a phone', () => with_browser(async (open) => {
  const page = await open(PAGE, { width: 390 })
  const figure = await figure_on(page, 'online_softmax')
  await figure.slide('step', 3)
  await figure.forward('step')
  assert.match(await figure.words(),
    /^Number 4 of 6: x = 4, v = 4\. m rises from 3 to 4: l = 1\.5032 · 0\.3679 \+ 1 = 1\.5530/)
  await figure.back('step')
  assert.match(await figure.words(), /^Number 3 of 6/)
  await figure.choose('preset', '6 to 1')
  assert.match(await figure.words(), /m stays 6/)
  await figure.choose('preset', '1 to 6')
  await figure.slide('step', 6)
  assert.match(await figure.words(), /0\.0043, .* 0\.6337\. Output o \/ l = 5\.4329\.$/)
  assert.deepEqual(page.complaints, [])
}))

const skip = existsSync(join(SITE, 'toy.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("online softmax: the reader's own scores, written and dragged, run in the page", { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE), figure = await figure_on(page, 'online_softmax')
  const scores = figure.root.locator('[data-control="scores"] input')
  const compare = async () => {
    const x = (await scores.inputValue()).split(',').map(Number), { outputs } = attention(x)
    await figure.root.locator('[data-name="m"]', { hasText: `= ${Math.max(...x)}` }).waitFor()
    const shown = await figure.values()
    assert_near(shown.output, outputs.o[0], `${x}: o / l`)
    assert_near(shown.l, softmax(x, 'online').steps.at(-1).registers[2], `${x}: l`)
    softmax(x, 'safe').outputs.out.forEach((weight, i) => assert_near(shown[`weight_${i}`], weight, `${x}: weight ${i}`))
  }
  await figure.choose('preset', 'your own')
  await figure.slide('step', 6)
  await figure.says(/^Run in this page\. Number 6/)
  await compare()
  await scores.fill('-4, 7, 0.25, 7, 9, -12')
  await compare()
  const places = await figure.root.locator('[data-drag="score"]').first().boundingBox()
  await page.mouse.move(places.x + places.width / 2, places.y + 30)
  await page.mouse.down()
  await page.mouse.move(places.x + places.width / 2, places.y)
  await page.mouse.up()
  const first = Number((await scores.inputValue()).split(',')[0])
  assert.ok(first > 4 && first <= 8, `dragged to ${first}`)
  const [weight] = softmax((await scores.inputValue()).split(',').map(Number), 'safe').outputs.out
  await figure.root.locator('[data-name="weight_0"]', { hasText: weight.toFixed(4) }).waitFor()
  await scores.fill('1, 2')
  await figure.says(/^Your own numbers: expected 6 numbers/)
  assert.deepEqual(page.complaints, [])
}))

test('online softmax: a copy without programs shows what was recorded, and says so', () => with_browser(async (open) => {
  const page = await open(PAGE)
  await page.route('**/toy.wasm', (route) => route.fulfill({ status: 404, body: '' }))
  const figure = await figure_on(page, 'online_softmax')
  await figure.choose('preset', 'your own')
  await figure.says(/^Your own numbers: this copy of the site was built without the programs.*These are 1 to 6\. Number 4 of 6: x = 4,/)
}))
