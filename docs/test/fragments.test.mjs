import assert from 'node:assert/strict'
import { test } from 'node:test'

import figure from '../figures/fragments.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const PAGE = page_with('03_basic_kernel', 'fragments')
const layout = output_of(['ch03_layout', '--layout', '{json}'])
const { mma, weights } = layout
const LANES = [...Array(layout.lanes).keys()]
const show = (cell) => `(${cell.join(', ')})`

// Returns the expected registers of a lane: { 'a0_0': '(2, 2)', … }.
const expected = (lane, matrices) => Object.fromEntries(matrices.flatMap((matrix) =>
  mma[matrix][lane].flatMap((cells, register) => cells.map((cell, half) =>
    [`${matrix.toLowerCase()}${register}_${half}`, show(cell)]))))

// Returns the expected S and P of a lane, and the registers of S that each register of P came from.
function expected_s_to_p(lane) {
  const wanted = expected(lane, ['A'])
  weights[lane].forEach((halves, register) => {
    assert.ok(halves.every(([from]) => from === lane), 'no lane needs another')
    wanted[`from_a${register}`] = halves.map(([, , c]) => `c${c}`).join(' ')
  })
  return wanted
}
const quad_of = (lane) =>
  LANES.filter((other) => mma.C[other].some(([[row]]) => row === mma.C[lane][0][0][0]))

test('fragments: every lane and every element, as ch03_layout says', () => {
  const data = figure.data({ layout })
  let elements = 0
  for (const lane of LANES) {
    const state = { ...figure.initial(data), lane }
    const drawing = figure.draw(data, state, 720), all = expected(lane, ['A', 'B', 'C'])
    const parts = ['A', 'B', 'C'].map((part) => figure.draw(data, { ...state, part }, 360)).join('')
    for (const one of [drawing, parts]) {
      assert.deepEqual(numbers_in(one), { ...all, quad: `quad: ${quad_of(lane).join(', ')}` })
    }
    const s_to_p = { ...state, mode: 's_to_p' }
    assert.deepEqual(numbers_in(figure.draw(data, s_to_p, 720)), expected_s_to_p(lane))
    for (const [register, [[, tile]]] of weights[lane].entries()) {
      const cs = expected_s_to_p(lane)[`from_a${register}`]
      assert.ok(figure.describe(data, s_to_p).includes(`${cs} of tile ${tile} become a${register}`))
    }
    for (const matrix of 'ABC') {
      for (const [register, cells] of mma[matrix][lane].entries()) {
        for (const cell of cells) {
          const pointed = figure.focus(data, figure.initial(data), `${matrix}:${cell}`)
          assert.equal(pointed.lane, lane)
          const id = `${matrix.toLowerCase()}${register}`, words = figure.describe(data, pointed)
          assert.match(words, new RegExp(
            `^${matrix}, row ${cell[0]}, column ${cell[1]}: lane ${lane}, register ${id}\\b`))
          assert.ok(words.includes(`${id} ${cells.map(show).join(' ')}`), `what ${id} holds, in words`)
          assert.ok(drawing.includes(` data-focus="${matrix}:${cell}"`))
          ++elements
        }
      }
    }
  }
  assert.equal(elements, 256 + 128 + 128)
})

test('fragments: what the page shows of a lane', () => with_browser(async (open) => {
  const page = await open(PAGE)
  const shown = await figure_on(page, 'fragments')
  for (const lane of [0, 9, 22, 31]) {
    await shown.slide('lane', lane)
    const { quad, ...registers } = await shown.values()
    assert.deepEqual(registers, expected(lane, ['A', 'B', 'C']), `lane ${lane}`)
    assert.equal(quad, `quad: ${quad_of(lane).join(', ')}`)
    for (const [color, cells] of [['a', 8], ['b', 4], ['d', 4]]) {
      const lit = shown.root.locator(`.fa-canvas g.${color} > [data-focus]`)
      assert.equal(await lit.count(), cells, `lit in ${color}`)
    }
  }
  await shown.choose('mode', 'S becomes P')
  for (const lane of [31, 4]) {
    await shown.slide('lane', lane)
    assert.deepEqual(await shown.values(), expected_s_to_p(lane), `lane ${lane}`)
  }
  assert.deepEqual(page.complaints, [])
}))

test('fragments: pointing, keys, steps, on a phone too', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(PAGE, { width })
    const shown = await figure_on(page, 'fragments')
    const lane_of = async () => +await shown.root.locator('[data-control="lane"] output').innerText()
    await shown.point('B:5,3')
    assert.match(await shown.words(), /^B, row 5, column 3: lane 14, register b0, high half\./)
    assert.equal(await lane_of(), 14)
    await shown.press('ArrowRight')
    assert.match(await shown.words(), /^B, row 5, column 4: lane 18, register b0, high half\./)
    await shown.press('ArrowDown')
    assert.match(await shown.words(), /^B, row 6, column 4: lane 19, register b0, low half\./)
    await shown.forward('lane')
    assert.equal(await lane_of(), 20)
    assert.doesNotMatch(await shown.words(), /^B, row/, 'what was pointed at is forgotten')
    const other = await open(page_with('03_basic_kernel', 's_to_p'), { width })
    const second = await figure_on(other, 'fragments', 's_to_p')
    assert.equal(await second.value('from_a3'), 'c2 c3', 'the second starts as its picture')
    await second.point('P:13,15')
    assert.match(await second.words(), /^P, row 13, column 15: lane 23, register a3, high half\./)
    await second.point('S:13,15')
    assert.match(await second.words(), /^S, row 13, column 15: lane 23, register c3 of tile 1\./)
    assert.deepEqual([...page.complaints, ...other.complaints], [])
  }
}))
