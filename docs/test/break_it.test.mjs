import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { shown } from '../figures/break_it.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, SITE, with_browser } from './browser.mjs'

const TYPES = [['f32', 'f32', 'fp32'], ['f16', 'f32', 'p fp16'], ['f16', 'f16', 'all fp16']]
const CASES = [[256, 1, '1'], [64, 128, '128'], [256, 1 / 128, '1/128'], [1, 1, '1']]  // keys, value, label
const fresh = output_of(['ch02_tiled_cpu', 'overflow', '--json', '{json}'])
const row_of = (p, sums, keys, value, { rows } = fresh) => rows.find((row) =>
  row.p_type === p && row.sums_type === sums && row.keys === keys && row.value === value)

// Compares every number in the drawing with the program's.
function compare(numbers, { without_maximum, with_maximum }, score) {
  const index = fresh.scores.indexOf(score)
  for (const key of ['p', 'l', 'o', 'output']) {
    const where = `${key} at ${score}`
    assert.equal(numbers[`broken_${key}`], shown(without_maximum[key][index]), where)
    assert.equal(numbers[`safe_${key}`], shown(with_maximum[key][index]), `${where}, with the maximum`)
  }
}

test('break_it: every number is what ch02_tiled_cpu overflow prints', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'break_it'))
  const figure = await figure_on(page, 'break_it')
  const seen = new Set()
  for (const [p, sums, label] of TYPES) {
    await figure.choose('types', label)
    for (const [keys, value, value_label] of CASES) {
      await figure.choose('keys', String(keys))
      await figure.choose('value', value_label)
      for (const score of [0, 5.5, 11, 11.5, 79.5, 84, 88.5, 89, 100]) {
        await figure.slide('score', score)
        const numbers = await figure.values()
        compare(numbers, row_of(p, sums, keys, value), score)
        seen.add(numbers.broken_output)
      }
      for (const [of_p, of_sums] of TYPES) {
        const ends = row_of(of_p, of_sums, keys, value).without_maximum.finite_up_to
        const first = ['p', 'l', 'o'].reduce((least, key) => ends[key] < ends[least] ? key : least)
        assert.equal(await figure.value(`first_${of_p}/${of_sums}`),
          `${first} is Inf above ${ends[first].toFixed(2)}`)
      }
    }
  }
  for (const one of ['Inf', 'NaN', '0', '1']) assert.ok(seen.has(one), `o / l was once ${one}`)
  assert.equal(await figure.value('largest_fp16'), String(row_of('f16', 'f16', 1, 1).sums_largest))
  assert.equal(+await figure.value('largest_fp32'), +row_of('f32', 'f32', 1, 1).sums_largest.toPrecision(2))
  assert.deepEqual(page.complaints, [])
}))

test('break_it: the thresholds of the lesson', () => {
  const ends = (p, sums, keys) => row_of(p, sums, keys, 1).without_maximum.finite_up_to
  assert.equal(ends('f32', 'f32', 256).p.toFixed(2), '88.72')
  assert.equal(ends('f32', 'f32', 256).l.toFixed(2), '83.18')
  assert.equal(ends('f16', 'f32', 256).l.toFixed(2), '11.09')
  assert.equal(ends('f16', 'f16', 256).l.toFixed(2), '5.54')
})

test('break_it: dragging, keys, other axis, on a narrow page', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'break_it'), { width: 390 })
  const figure = await figure_on(page, 'break_it')
  assert.match(await figure.words(), /^256 keys of score 84 .* o \/ l NaN\. l was first: Inf above 83\.18\./)
  await figure.drag([0.9, 0.2], [0.5, 0.2])
  const score = +/score ([\d.]+)/.exec(await figure.words())[1]
  assert.ok(score > 35 && score < 55, `dragged to ${score}`)
  compare(await figure.values(), row_of('f32', 'f32', 256, 1), score)
  const slider = figure.root.locator('[data-control="score"] input')
  await slider.press('ArrowRight')
  assert.match(await figure.words(), new RegExp(`score ${score + 0.5} `))
  await figure.choose('up_to', '12.5')
  assert.match(await figure.words(), /score 12\.5 /)
  await figure.choose('types', 'all fp16')
  await figure.slide('score', 5.625)
  compare(await figure.values(), row_of('f16', 'f16', 256, 1), 5.625)
  assert.match(await figure.words(), /l was first: Inf above 5\.54/)
  assert.deepEqual(page.complaints, [])
}))

test('break_it: the museum shows the case without a NaN', () => with_browser(async (open) => {
  const page = await open('/docs/break-it.html')
  const figure = await figure_on(page, 'break_it')
  assert.match(await figure.words(), /l Inf, o [\d.e]+, o \/ l 0\..*No NaN warns/)
  assert.deepEqual(page.complaints, [])
}))

const skip = existsSync(join(SITE, 'tiled.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("break_it: the reader's own number of keys, run in the page", { skip }, () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'break_it')), figure = await figure_on(page, 'break_it')
  const count = figure.root.locator('[data-control="count"] input')
  await figure.choose('keys', 'your own')
  for (const keys of [100, 7]) {
    const run = output_of(['ch02_tiled_cpu', 'overflow', '--keys', `${keys}`, '--json', '{json}'])
    await count.fill(`${keys}`)
    await figure.says(new RegExp(`^${keys} keys of score`))
    for (const [p, sums, label] of TYPES) {
      await figure.choose('types', label)
      for (const score of [5.5, 11, 84, 88]) {
        await figure.slide('score', score)
        compare(await figure.values(), row_of(p, sums, keys, 1, run), score)
      }
    }
  }
  await count.fill('512')
  await figure.says(/^Your own keys: --keys 512: expected a whole number from 1 to 511\. 256 keys of score/)
  assert.deepEqual(page.complaints, [])
}))
