// Compares chapter 15's overlap with the kernels and the emulator: the order of products and waits
// in the log with the formulas, the picture with what the emulator would report, and the words with
// the picture.
import { without_second_votes } from '../figures/overlap_log.js'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/overlap.js'
import { output_of, ROOT } from '../figures/programs.mjs'
import { figure_on, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources)
  .map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const TILES = 4, KEYS = 128, D = 128, FIRST = 4  // warp of consumer 0; the producer has 0 to 3
const range = (n) => Array.from({ length: n }, (_, i) => i)
const drawn = (view, step, width = WIDE) => numbers_in(figure.draw(data, { view, step }, width))

// "S0" is a committed group of S, "wait 1" a wgmma_wait that leaves one in flight, "turn", "pass",
// "max".
function said(log, consumer) {
  const mine = without_second_votes(log.events.filter(({ block, warp }) => block === 0 && warp === FIRST + 4 * consumer))
  const first_V = Math.min(...log.events.filter(({ kind, source }) => kind === 'tma_load' && source[0] === 'V')
    .map((event) => event.shared_address))
  const list = []
  mine.forEach(({ kind, pending_groups, barrier, b }, i) => {
    if (kind === 'wgmma' && mine[i + 1].kind === 'commit') list.push(b.shared_address >= first_V ? 'O' : 'S')
    if (kind === 'wait') list.push(`wait ${pending_groups}`)
    if (kind === 'vote') list.push('max')
    if (kind === 'barrier' && barrier) list.push(`turn ${barrier}`)
    if (kind === 'barrier_arrive') list.push(`pass ${barrier}`)
  })
  return list
}

test('the log: what is given, waited for, and computed, in which order', () => {
  const pieces = Array(KEYS / 16).fill('O')
  assert.deepEqual(said(logs.ch14, 0), range(TILES).flatMap(() => ['S', 'wait 0', 'max', ...pieces, 'wait 0']))
  const overlapped = (turn, pass) => [...turn, 'S', ...pass, 'wait 0', 'max',
    ...range(TILES - 1).flatMap(() => [...turn, 'S', 'O', ...pass, 'wait 1', 'max', 'wait 0']), 'O', 'wait 0']
  assert.deepEqual(said(logs.ch15, 0), overlapped([], []))
  assert.deepEqual(said(logs.turns, 0), overlapped(['turn 1'], ['pass 2']))
  assert.deepEqual(said(logs.turns, 1), ['pass 1', ...overlapped(['turn 2'], ['pass 1'])])
  for (const log of Object.values(logs)) assert.deepEqual(log.hazards, [])
})

test('what the log has no events for stands where the sources have it', () => {
  const in_order = (file, ...calls) => {
    const text = readFileSync(join(ROOT, 'chapters', file, 'attention.hpp'), 'utf8')
    const from = text.indexOf(calls[0])
    calls.reduce((at, call) => {
      const next = text.indexOf(call, at)
      assert.ok(next >= at, `${file}: ${call}`)
      return next
    }, from)
    assert.ok(from > 0)
  }
  in_order('14_warp_specialization', 'FA_DEVICE void multiply_weights_value', '    exponentiate(P_rmem', '    wgmma<bf16',
    'wgmma_wait<0>')
  in_order('15_overlap', '[anchor: main_loop]', 'softmax(0', 'pack(P', 'for (', 'begin_scores', 'begin_output',
    'wgmma_wait<1>', 'softmax(kv_tile', 'finish_output', 'if (!breaks.has(fa::EARLY_PACK)) pack(P')
  in_order('15_overlap', 'const auto softmax =', 'raise_row_max', 'exponentiate')
})

const lanes = Object.entries(data).flatMap(([run, { lanes }]) =>
  lanes.map((lane, i) => ({ ...lane, where: `${run}, ${i}` })))
const step_of = ({ steps }, kind, tile, product) =>
  steps.findLast((step) => step.kind === kind && step.tile === tile && (!product || step.product === product))
const product_of = ({ products }, product, tile) => products.find((one) => one.product === product && one.tile === tile)

test('the picture: nothing is touched that a product in flight owns, and all work is drawn', () => {
  for (const lane of lanes) {
    const { steps, products, where } = lane
    steps.slice(1).forEach((step, i) => assert.equal(step.from, steps[i].to + 1, where))
    assert.equal(products.length, 2 * TILES, where)
    for (const tile of range(TILES)) {
      const S = product_of(lane, 'S', tile), O = product_of(lane, 'O', tile)
      const length = ({ runs }) => runs.reduce((sum, [from, to]) => sum + to - from + 1, 0)
      assert.deepEqual([S, O].map(length), [D / 16, KEYS / 16], where)  // one step per wgmma
      for (const { given, known, runs } of [S, O]) {
        assert.ok(given < runs[0][0] && runs.at(-1)[1] < known, `${where}: runs outside of its flight`)
      }
      const maximum = step_of(lane, 'maximum', tile), exponentials = step_of(lane, 'exponentials', tile)
      assert.ok(S.known < maximum.from && maximum.to < exponentials.from + KEYS / 16, where)
      const work = steps.filter((step) => step.kind === 'exponentials' && step.tile === tile)
      assert.equal(work.reduce((sum, { from, to }) => sum + to - from + 1, 0), KEYS / 16, where)
      const packs = steps.filter(({ kind, tile: own }) => kind === 'pack' && own === tile), [packed] = packs
      assert.equal(packs.length, where.startsWith('ch14') ? 0 : 1, where)
      if (!packed) continue
      assert.ok(exponentials.to < packed.from && packed.to < O.given, where)
      const before = product_of(lane, 'O', tile - 1)
      if (!before) continue
      assert.ok(before.known < packed.from, `${where}: P of tile ${tile} is packed under O of the tile before`)
      // The idea of the chapter: O of the previous tile is in flight during all exponentials of
      // this tile.
      assert.ok(before.given < maximum.from && exponentials.to < before.known, where)
    }
  }
  // In chapter 14 the tile's own O is in flight, and no product of another tile.
  const [lane] = lanes
  for (const { from, tile } of lane.steps.filter(({ kind }) => kind === 'maximum' || kind === 'exponentials')) {
    for (const { product, given, known, tile: other } of lane.products) {
      if (given < from && from <= known) assert.deepEqual([product, other], ['O', tile])
    }
  }
})

test('the picture: one product at a time, and turns that are given before they are taken', () => {
  for (const { lanes } of Object.values(data)) {
    const runs = lanes.flatMap(({ products }) => products.flatMap(({ runs }) => runs))
      .sort(([one], [other]) => one - other)
    runs.slice(1).forEach(([from], i) => assert.ok(from > runs[i][1], 'two products at once'))
  }
  const given = (lane, barrier) => lane.steps.filter(({ passes }) => passes === barrier).map(({ to }) => to)
  const [one, other] = data.turns.lanes
  for (const [lane, by, barrier] of [[one, other, 1], [other, one, 2]]) {
    const turns = lane.steps.filter(({ kind }) => kind === 'turn')
    assert.equal(turns.length, TILES)
    turns.forEach(({ to }, i) => assert.ok(to > given(by, barrier)[i], `turn ${i} of ${barrier} is taken too early`))
  }
  const issues = data.turns.lanes.flatMap(({ steps }, consumer) => steps
    .filter(({ kind, product }) => kind === 'issue' && product === 'S').map(({ from }) => [from, consumer]))
    .sort(([one], [other]) => one - other).map(([, consumer]) => consumer)
  assert.deepEqual(issues, range(2 * TILES).map((i) => i % 2))
})

test('the words: what is in flight at each step, followed through once more', () => {
  for (const [view, runs] of [['overlap', [data.ch14.lanes[0], data.ch15.lanes[0]]], ['turns', data.turns.lanes]]) {
    const { max } = figure.controls(data, { view })[1]
    for (let step = 0; step <= max; step++) {
      const numbers = drawn(view, step)
      runs.forEach(({ steps, products }, i) => {
        const names = (list) => list.map(({ product, tile }) => `${product}${tile}`).join(', ') || 'nothing'
        const flying = products.filter(({ given, known }) => step >= given && step <= known)
        const now = flying.filter(({ runs }) => runs.some(([from, to]) => step >= from && step <= to))
        assert.equal(numbers[`flight_${i}`], `in flight ${names(flying)}; computed now ${names(now)}`)
        const [, computed] = /exponentials of tile (\d)/.exec(numbers[`doing_${i}`]) ?? []
        const there = steps.find(({ kind, from, to }) => kind === 'exponentials' && from <= step && step <= to)
        assert.equal(computed, there && `${there.tile}`)
      })
    }
  }
})

test('overlap on the page: steps, views', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open('/chapters/15_overlap/', { width }), size = width < 500 ? NARROW : WIDE
    const shown = await figure_on(page, 'overlap')
    for (const step of [0, 21, 36]) {
      await shown.slide('step', step)
      assert.deepEqual(await shown.values(), drawn('overlap', step, size))
    }
    assert.match(await shown.words(), /Chapter 15: exponentials of tile 1; in flight O0/)
    await shown.choose('view', '15 with turns')
    await shown.slide('step', 69)
    assert.deepEqual(await shown.values(), drawn('turns', 69, size))
    assert.match(await shown.words(), /Consumer 0: exponentials of tile 2; in flight O1.*Consumer 1: waits for S2/)
    assert.deepEqual(page.complaints, [])
  }
}))
