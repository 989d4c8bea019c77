import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, SITE, with_browser } from './browser.mjs'

const MATRICES = ['Q', 'K', 'V', 'S', 'P', 'O', 'm, l']
const NAMES = { keys_outside: 'FlashAttention-1', three_passes: 'Plain attention' }
const sum = (numbers) => Object.values(numbers).reduce((a, b) => a + b, 0)
const traffic = (length, dim, rows, cols, causal) => output_of(['ch02_tiled_cpu', 'traffic',
  '--length', `${length}`, '--dim', `${dim}`, '--block-q', `${rows}`, '--block-kv', `${cols}`,
  ...causal ? ['--causal'] : [], '--json', '{json}'])

// Returns the expected figure of an order after `step` steps, from the program's list.
function expected({ steps, fast_memory }, order, step) {
  const now = steps[step - 1]
  const numbers = {
    [`${order}_step`]: now ? `↓ ${sum(now.loads)}  ↑ ${sum(now.stores)}` : '↓ 0  ↑ 0',
    [`${order}_fast`]: `${now ? sum(fast_memory[now.pass]) : 0} elements`,
  }
  for (const matrix of MATRICES) {
    const moved = (list, way) => list.reduce((total, one) => total + (one[way][matrix] ?? 0), 0)
    const never = moved(steps, 'loads') + moved(steps, 'stores') === 0
    for (const [way, name] of [['loads', 'read'], ['stores', 'written']]) {
      numbers[`${order}_${matrix}_${name}`] = never ? '–' : `${moved(steps.slice(0, step), way)}`
    }
  }
  return numbers
}

const assert_has = (values, wanted, what) => {
  for (const [name, number] of Object.entries(wanted)) {
    const shown = values[name]?.replace(/, M = \d+$/, '').replace(/\s+/g, ' ')
    assert.equal(shown, number.replace(/\s+/g, ' '), `${name}, ${what}`)
  }
}

test('tiles: every step moves what ch02_tiled_cpu traffic says', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'tiles'))
  const figure = await figure_on(page, 'tiles', 'tiles')
  for (const [length, dim, rows, cols, steps] of [[5, 3, 3, 4, [1, 2, 3, 4, 9]], [16, 8, 8, 4, [3, 7, 17]],
    [512, 64, 64, 64, [1, 20, 36, 64]], [512, 64, 128, 64, [9]]]) {
    await figure.choose('length', `N = ${length}, d = ${dim}`)
    await figure.choose('tile', `${rows} × ${cols}`)
    for (const causal of [false, true]) {
      if (causal) await figure.tick('causal')
      const { orders } = traffic(length, dim, rows, cols, causal)
      for (const beside of ['three_passes', 'keys_outside']) {
        await figure.choose('beside', NAMES[beside])
        const last = Math.max(orders[beside].steps.length, orders.queries_outside.steps.length)
        for (const step of steps.filter((one) => one <= last)) {
          await figure.slide('step', step)
          const values = await figure.values()
          const what = `${rows} x ${cols} of ${length}${causal ? ', causal' : ''}, step ${step}`
          assert_has(values, expected(orders[beside], beside, step), what)
          assert_has(values, expected(orders.queries_outside, 'queries_outside', step), what)
          for (const [order, { read, written }] of Object.entries(orders)) {
            assert.equal(values[`total_${order}`], `${read + written}`, `${order}, ${what}`)
          }
        }
      }
      if (causal) await figure.tick('causal')
    }
  }
  assert.deepEqual(page.complaints, [])
}))

test('tiles: how often each matrix is read, and S never is', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'tiles'), { width: 390 })
  const figure = await figure_on(page, 'tiles', 'tiles')
  const often = async (order) => Object.fromEntries(await Promise.all(MATRICES.map(async (matrix) =>
    [matrix, await figure.value(`${order}_${matrix}_times`)])))
  assert.deepEqual(await often('keys_outside'),
    { Q: '↓8×', K: '↓1×', V: '↓1×', S: 'never', P: 'never', O: '↓8× ↑8×', 'm, l': '↓8× ↑8×' })
  assert.deepEqual(await often('queries_outside'),
    { Q: '↓1×', K: '↓8×', V: '↓8×', S: 'never', P: 'never', O: '↑1×', 'm, l': '↑1×' })
  await figure.choose('beside', 'Plain attention')
  assert.deepEqual(await often('three_passes'),
    { Q: '↓1×', K: '↓8×', V: '↓8×', S: '↓3× ↑1×', P: '↓1× ↑1×', O: '↑1×', 'm, l': '↑1×' })
  assert.deepEqual(page.complaints, [])
}))

test('tiles: steps, keys and pointing; the walk-through is there too', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'tiles'))
  const figure = await figure_on(page, 'tiles', 'tiles')
  assert.match(await figure.words(),
    /Step 20\. FlashAttention-1, keys outside: for each K, V tile: 3 of 8, for each Q tile: 4 of 8;/)
  await figure.forward('step')
  assert.match(await figure.words(),
    /Step 21\. .* Q tile: 5 of 8; reads Q 4096, O 4096, m, l 128; writes O 4096, m, l 128\./)
  await figure.back('step')
  await figure.press('ArrowRight')  // the next tile of FlashAttention-2
  assert.match(await figure.words(), /Step 21\. /)
  await figure.press('ArrowDown')
  assert.match(await figure.words(), /Step 29\. /)
  await figure.point('keys_outside:7,7')
  assert.match(await figure.words(),
    /Step 64\. .* 868352 of 868352 elements so far\. .* 590336 of 590336 elements so far\./)
  const by_hand = await figure_on(page, 'tiles', 'tiles_by_hand')
  const { orders } = traffic(5, 3, 3, 4, false)
  const values = await by_hand.values()
  assert_has(values, expected(orders.keys_outside, 'keys_outside', 3), 'by hand')
  assert.match(values.keys_outside_fast, /^60 elements, M = 59$/)
  await by_hand.root.getByRole('button', { name: 'Play' }).click()
  await by_hand.root.locator('.fa-words').getByText(/^Step 4\./).first().waitFor({ state: 'attached' })
  assert.deepEqual(page.complaints, [])
}))

const skip = existsSync(join(SITE, 'tiled.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("tiles: the reader's own sizes, counted in the page", { skip }, () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'tiles')), figure = await figure_on(page, 'tiles', 'tiles')
  const sizes = figure.root.locator('[data-control="sizes"] input')
  await figure.choose('length', 'your own')
  for (const [own, causal] of [['100, 16, 32, 16', false], ['37 5 10 8', true]]) {
    await sizes.fill(own)
    if (causal) await figure.tick('causal')
    const numbers = own.split(/[ ,]+/).map(Number), { orders } = traffic(...numbers, causal)
    await figure.root.getByText(`${numbers[0]} queries and keys, d = ${numbers[1]}, tiles of`).waitFor({ state: 'attached' })
    for (const step of [1, 7, 9]) {
      await figure.slide('step', step)
      const values = await figure.values()
      assert_has(values, expected(orders.keys_outside, 'keys_outside', step), `${own}, step ${step}`)
      assert_has(values, expected(orders.queries_outside, 'queries_outside', step), `${own}, step ${step}`)
    }
  }
  await sizes.fill('100, 16, 32')
  await figure.says(/^Your own sizes: expected four numbers, such as 100, 16, 32, 16\. This is N = 512\. Step 9\./)
  await sizes.fill('100, 16, 1, 1')
  await figure.says(/^Your own sizes: 10000 pairs of tiles are too many/)
  await sizes.fill('100, 16, 32, x')
  await figure.says(/^Your own sizes: --block-kv x: expected a whole number from 1 to 1024\. This is N = 512\./)
  assert.deepEqual(page.complaints, [])
}))
