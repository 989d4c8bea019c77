// Compares chapter 10's two loop orders, every step and every total, with the program's list.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { GROUPS, LENGTHS, sources, stand } from '../figures/backward_model.js'
import figure from '../figures/backward_schedule.js'
import { NARROW, WIDE } from '../figures/draw.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const outputs = Object.fromEntries(Object.entries(sources).map(([key, command]) => [key, output_of(command)]))
const data = figure.data(outputs)
const BLOCK = 64, KIB = 1024
const sum = (numbers) => Object.values(numbers ?? {}).reduce((a, b) => a + b, 0)
const kib = (bytes) => `${+(bytes / KIB).toFixed(2)}`
const STATES = LENGTHS.flatMap((length) => [false, true].flatMap((causal) =>
  ['o', 'p'].map((d_from) => ({ length, causal, d_from, step: 1 }))))
const listed = ({ length, causal, d_from }, order) =>
  outputs[`${length}${causal ? ',causal' : ''}`].schedules[order + (d_from === 'p' ? ', D from P' : '')]

// Returns the expected words of the drawing after `step` steps of an order.
function expected(run, order, step) {
  const now = run.steps[step - 1]
  const numbers = { [`${order}_step`]: `↓ ${kib(sum(now?.loads))}  ↑ ${kib(sum(now?.stores))}` }
  for (const [name, matrices] of Object.entries(GROUPS)) {
    const moved = (steps, way) => steps.reduce((total, one) =>
      total + matrices.reduce((of, matrix) => of + (one[way]?.[matrix] ?? 0), 0), 0)
    const never = moved(run.steps, 'loads') + moved(run.steps, 'stores') === 0
    for (const [way, said] of [['loads', 'read'], ['stores', 'written']]) {
      numbers[`${order}_${name}_${said}`] = never ? '–' : kib(moved(run.steps.slice(0, step), way))
    }
  }
  const total = `${kib(run.bytes_read + run.bytes_written)} KiB, ${run.products} products`
  return { ...numbers, [`total_${order}`]: total }
}

function assert_has(values, wanted, what) {
  for (const [name, number] of Object.entries(wanted)) {
    assert.equal(values[name]?.replace(/\s+/g, ' '), number.replace(/\s+/g, ' '), `${name}, ${what}`)
  }
}

test('backward_schedule: every step moves what the program says, at both widths', () => {
  for (const state of STATES) {
    const orders = ['rows', 'columns'].map((order) => [order, listed(state, order)])
    for (let step = 1; step <= Math.max(...orders.map(([, { steps }]) => steps.length)); step++) {
      for (const width of [WIDE, NARROW]) {
        const values = numbers_in(figure.draw(data, { ...state, step }, width))
        for (const [order, run] of orders) {
          assert_has(values, expected(run, order, step), `${JSON.stringify(state)}, step ${step}`)
        }
      }
    }
  }
})

test('backward_schedule: the steps move all that is moved, and each pair of tiles has one', () => {
  for (const state of STATES) {
    for (const order of ['rows', 'columns']) {
      const run = listed(state, order)
      assert.equal(run.steps.reduce((total, { loads }) => total + sum(loads), 0), run.bytes_read)
      assert.equal(run.steps.reduce((total, { stores }) => total + sum(stores), 0), run.bytes_written)
      const pairs = run.steps.filter(({ phase }) => phase === 'gradient')
        .map(({ queries, keys }) => `${queries[0] / BLOCK},${keys[0] / BLOCK}`)
      const tiles = state.length / BLOCK
      assert.equal(new Set(pairs).size, state.causal ? tiles * (tiles + 1) / 2 : tiles * tiles)
      assert.equal(pairs.length, new Set(pairs).size)
    }
  }
})

// Rows finish dQ while dK and dV are incomplete, and columns do the reverse.
test('backward_schedule: which sums wait', () => {
  for (const state of STATES) {
    for (const [order, own, others] of [['rows', ['dQ'], ['dK', 'dV']], ['columns', ['dK', 'dV'], ['dQ']]]) {
      const { steps } = listed(state, order)
      const gradients = steps.flatMap(({ phase }, n) => phase === 'gradient' ? [n + 1] : [])
      const waits = new Set(gradients.flatMap((step) =>
        Object.entries(stand(data, { ...state, step }, order).became)
          .filter(([, tiles]) => tiles.includes('sum')).map(([name]) => name)))
      assert.deepEqual([...waits].sort(), others, `${order}, ${JSON.stringify(state)}`)
      const end = stand(data, { ...state, step: steps.length }, order).became
      for (const name of [...own, ...others]) {
        assert.equal(end[name].length, state.length / BLOCK)
        assert.ok(end[name].every((one) => one === 'done'), `${order}, ${name}`)
      }
    }
  }
})

test('backward_schedule: on its page', () => with_browser(async (open) => {
  const page = await open(page_with('10_backward', 'backward_schedule'))
  const shown = await figure_on(page, 'backward_schedule')
  assert_has(await shown.values(), expected(listed({ length: 256, d_from: 'o' }, 'rows'), 'rows', 12), 'the still')
  await shown.choose('length', '512')
  await shown.choose('d_from', 'P and dP')
  await shown.tick('causal')
  await shown.slide('step', 30)
  const state = { length: 512, causal: true, d_from: 'p' }
  for (const order of ['rows', 'columns']) {
    assert_has(await shown.values(), expected(listed(state, order), order, 30), order)
  }
  await shown.point('columns:5,3')
  assert.match(await shown.words(), /Columns, keys outside: key tile 4 of 8, query tile 6 of 8; reads .*dQ 16/)
  assert.deepEqual(page.complaints, [])
}))
