import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, shape_words, WIDE } from '../figures/draw.js'
import { output_of } from '../figures/programs.mjs'
import speed from '../figures/speed.js'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const TABLES = 'docs/measurements/tables.py'
const lines_of = (...words) =>
  output_of([TABLES, 'speed', ...words]).split('\n')
    .map((line) => line.trim().split(words.length > 0 ? /  +/ : / +/))

// Returns { 2,16,8192,8192,128: { ch03: '55.6', … } }, with the cells as printed.
function table_of(...words) {
  const lines = lines_of(...words), at = lines.findIndex(([first]) => first === 'B,H,Lq,Lkv,D')
  const names = lines[at].slice(1), end = lines.findIndex((line, i) => i > at && line[0] === '')
  return Object.fromEntries(lines.slice(at + 1, end).map(([shape, ...cells]) =>
    [shape, Object.fromEntries(cells.map((cell, i) => [names[i], cell]))]))
}
const printed = table_of()
const limit = /mma\.sync with registers only: (\d+)\./.exec(output_of([TABLES, 'speed']))[1]

// Compares every bar and the limit with the printed numbers.
function compare(numbers, shape) {
  for (const [name, value] of Object.entries(printed[shape])) {
    assert.equal(numbers[`tflops_${name}`], value === '-' ? undefined : value, `${name} at ${shape}`)
  }
  assert.equal(numbers.limit, limit)
}

test('speed: every shape, digit for digit as the tables print it', () => {
  const data = speed.data({ speed: output_of(speed.sources.speed) })
  assert.deepEqual(Object.keys(data.shapes), Object.keys(printed))
  for (const width of [WIDE, NARROW]) {
    for (const shape of Object.keys(printed)) {
      compare(numbers_in(speed.draw(data, { shape, focus: 'ch08' }, width)), shape)
    }
  }
  for (const chapter of ['04', '05', '06', '07', '08']) {
    const rows = Object.entries(table_of(chapter))
    assert.ok(rows.length, `chapter ${chapter} has a table`)
    for (const [shape, cells] of rows) {
      const numbers = numbers_in(speed.draw(data, { shape, focus: `ch${chapter}` }, WIDE))
      assert.equal(numbers[`gain_ch${chapter}`], `× ${cells.ratio}`)
      assert.match(numbers.times_before, new RegExp(`^${cells.ratio} × chapter`))
      assert.equal(numbers.of_limit, `${cells['of mma.sync']} of mma.sync alone`)
    }
  }
})

test('speed: another file is drawn as well', () => {
  const cell = { tflops: 10, slow: 9, fast: 11, of_limit: 10, times_fa2: null, times_before: null }
  const data = { machine: 'a, b, c', how: '', limit: 100, names: ['ch03', 'ch09', 'new'],
    shapes: { '1,1,1,1,64': { ch03: cell, new: cell },
      '1,1,2,2,64': { ch09: { ...cell, times_before: 2 } } } }
  for (const width of [WIDE, NARROW]) {
    const state = speed.initial(data)
    const drawing = speed.draw(data, state, width)
    assert.ok(!/NaN|undefined|null/.test(drawing + speed.describe(data, state)))
    assert.match(drawing, /does not take this shape/)
    assert.ok(!/NaN|undefined/.test(speed.draw(data, { ...state, shape: '1,1,2,2,64' }, width)))
  }
})

test('speed: pointing, keys and shapes on the site', () => with_browser(async (open) => {
  for (const [url, width] of [['/docs/measurements/', 1280], [page_with('08_fewer_instructions', 'speed'), 390]]) {
    const page = await open(url, { width })
    const figure = await figure_on(page, 'speed')
    const shapes = Object.keys(printed)
    for (const shape of [shapes.at(-1), shapes[0]]) {
      await figure.choose('shape', shape_words(shape))
      compare(await figure.values(), shape)
    }
    await figure.point('ch08')
    const { ratio } = table_of('08')[shapes[0]]
    assert.match(await figure.words(), new RegExp(`Chapter 08, fewer instructions: .*${ratio} × chapter 07`))
    await figure.press('ArrowDown')
    assert.match(await figure.words(), /FlashAttention-2: the one that PyTorch brings/)
    assert.match(await figure.words(), /driver [\d.]+, .*\d{4}-\d\d-\d\d/)
    assert.deepEqual(page.complaints, [])
  }
}))
