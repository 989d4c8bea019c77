import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, SITE, with_browser } from './browser.mjs'

const skip = existsSync(join(SITE, 'systolic.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'

const STAYS = { weight: 'B: weight-stationary', output: 'C: output-stationary' }
const traced = ([m, k, n], dataflow, more = []) => output_of(['ch18_systolic_array', 'matmul', '--m', `${m}`,
  '--k', `${k}`, '--n', `${n}`, '--dataflow', dataflow, '--trace', ...more, '--json', '{json}'])

// Returns the expected figure in a cycle, from the program's trace.
function expected({ trace, c }, [m, k, n], dataflow, cycle) {
  const [rows, cols] = dataflow === 'weight' ? [k, n] : [m, n], numbers = {}
  const busy = trace[cycle].cells, so_far = trace.slice(0, cycle + 1).flatMap(({ cells }) => cells)
  const sums = dataflow === 'weight' ? busy : so_far  // they stay when no cell adds
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      const last = sums.filter((cell) => cell.row === row && cell.col === col).at(-1)
      numbers[`sum_${row}_${col}`] = last ? `${last.after}` : ''
    }
  }
  if (dataflow === 'weight') {
    const left = so_far.filter(({ row }) => row === rows - 1)
    for (let col = 0; col < cols; col++) {
      const values = left.filter((cell) => cell.col === col).map(({ after }) => after)
      c.forEach((row, i) => {
        numbers[`c_${i}_${col}`] = i < values.length ? `${values[i]}` : '·'
        if (i < values.length) assert.equal(values[i], row[col], 'what leaves is C')
      })
    }
  }
  return { ...numbers, busy: `${busy.length} of ${rows * cols} cells multiply in this cycle`,
    macs: `${so_far.length} of ${m * k * n} multiplications done`,
    cycle: `cycle ${cycle} of 0 to ${trace.length - 1}` }
}

const assert_has = (values, wanted, what) => {
  for (const [name, number] of Object.entries(wanted)) assert.equal(values[name], number, `${name}, ${what}`)
}

test('systolic: every cell, result and count is what the program traces', () => with_browser(async (open) => {
  const page = await open(page_with('18_systolic_array', 'systolic'))
  const figure = await figure_on(page, 'systolic', 'systolic')
  for (const size of [[2, 3, 2], [4, 3, 5], [8, 8, 8]]) {
    const [m, k, n] = size
    await figure.choose('size', `${m} × ${k} by ${k} × ${n}`)
    for (const dataflow of ['weight', 'output']) {
      await figure.choose('dataflow', STAYS[dataflow])
      const run = traced(size, dataflow)
      assert.equal(run.cycles, m + k + n - 2)
      assert.equal(run.trace.length, run.cycles)
      for (const cycle of [0, 1, k, run.cycles - 1]) {
        await figure.slide('cycle', cycle + 1)
        assert_has(await figure.values(), expected(run, size, dataflow, cycle), `${size} ${dataflow} ${cycle}`)
      }
    }
    await figure.choose('dataflow', STAYS.weight)
    const broken = traced(size, 'weight', ['--break', 'no-stagger'])
    await figure.tick('stagger')
    await figure.slide('cycle', 2)
    assert_has(await figure.values(), expected(broken, size, 'weight', 1), `${size} not staggered`)
    await figure.tick('stagger')
  }
  assert.deepEqual(page.complaints, [])
}))

test('systolic: what waits enters in the cycles that follow', () => with_browser(async (open) => {
  const page = await open(page_with('18_systolic_array', 'systolic'))
  const figure = await figure_on(page, 'systolic', 'systolic')
  await figure.slide('cycle', 1)
  const values = await figure.values()
  assert.equal(values.left_0_1, 'a10')
  assert.equal(values.left_1_1, 'a01')
  assert.equal(values.left_2_1, undefined)
  assert.equal(values.left_2_2, 'a02')
  assert.equal(values.left_2_3, 'a12')
  await figure.point('0,0')
  assert.match(await figure.words(), /Cycle 0 of 0 to 4, weight-stationary: 1 of 6 cells multiply\. cell 0, 0: a00 times b00, sum 5\./)
  assert.deepEqual(page.complaints, [])
}))

test("systolic: the reader's own sizes, multiplied in the page", { skip }, () => with_browser(async (open) => {
  const page = await open(page_with('18_systolic_array', 'systolic'))
  const figure = await figure_on(page, 'systolic', 'systolic'), sizes = figure.root.locator('[data-control="sizes"] input')
  await figure.choose('size', 'your own')
  for (const [own, dataflow] of [['5, 3, 6', 'weight'], ['7 2 6', 'output'], ['1,1,1', 'weight']]) {
    await figure.choose('dataflow', STAYS[dataflow])
    await sizes.fill(own)
    const size = own.split(/[ ,]+/).map(Number), run = traced(size, dataflow)
    await figure.says(new RegExp(`^Cycle \\d+ of 0 to ${run.trace.length - 1}, `))
    for (const cycle of [0, run.cycles - 1]) {
      await figure.slide('cycle', cycle + 1)
      assert_has(await figure.values(), expected(run, size, dataflow, cycle), `${own} ${dataflow} ${cycle}`)
    }
  }
  await sizes.fill('5, 3')
  await figure.says(/^Your own sizes: expected three numbers, such as 5, 3, 6\. This is 2 × 3 by 3 × 2\. Cycle /)
  await sizes.fill('5, 9, 1')
  await figure.says(/^Your own sizes: more than 8 are too many to draw\. /)
  await sizes.fill('5, x, 1')
  await figure.says(/^Your own sizes: --k x: expected a whole number from 1 to 1000000\. /)
  assert.deepEqual(page.complaints, [])
}))
