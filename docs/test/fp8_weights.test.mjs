// Compares the figure of weights that fit e4m3 with the event log and the kernel's source.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/fp8_weights.js'
import { output_of, ROOT } from '../figures/programs.mjs'
import { figure_on, SITE, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources).map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const TILES = 40, FIRST = 4  // warps 0 to 3 are the producer's
const drawn = (state, width = WIDE, of = data) => numbers_in(figure.draw(of, { scale: '', ...state }, width))

test('the letters: as many as tiles; the first looks and finds; all warps look in the same tiles', () => {
  for (const [name, run] of Object.entries(data)) {
    assert.equal(run.length, 4)
    for (const letters of run) assert.match(letters, /^r[krbl]{39}$/, name)
    const looked = run.map((letters) => letters.replace(/[kr]/g, 'x').replace(/[bl]/g, '-'))
    assert.ok(looked.every((one) => one === looked[0]), name)  // one bound per tile
  }
  assert.match(data.ordinary.join(''), /^(rb{39}){4}$/)
  assert.ok(/l/.test(data.large.join('')) && !/.[kr]/.test(data.large.join(',').replace(/,r/g, ',')))
  assert.ok(/[kr]/.test(data.larger[0].slice(1)) && /b/.test(data.larger[0]))
})

test('the votes: one behind each product but the first, and one for each look', () => {
  for (const [name, log] of Object.entries(logs)) {
    data[name].forEach((letters, warp) => {
      const mine = log.events.filter((event) => event.block === 0 && event.warp === FIRST + warp)
      const votes = mine.filter(({ kind }) => kind === 'vote').length, looks = letters.match(/[kr]/g).length
      assert.equal(votes, TILES - 1 + looks, `${name}, warp ${warp}`)
      // Until the last product is complete, nothing else shuffles: two per row, for two rows, and one
      // behind the ticket that names V's head.
      const begin = mine.findIndex(({ kind }) => kind === 'wgmma')
      const last = mine.findLastIndex(({ kind }) => kind === 'wgmma')
      const end = last + mine.slice(last).findIndex(({ kind }) => kind === 'wait')
      const shuffles = mine.slice(begin, end).filter(({ kind }) => kind === 'shuffle').length
      assert.equal(shuffles, 4 * letters.match(/[rl]/g).length + 1, `${name}, warp ${warp}`)
    })
  }
})

test('what the figure tells one kind of tile by stands so in the source', () => {
  const source = readFileSync(join(ROOT, 'chapters/23_fp8/attention.hpp'), 'utf8')
  const calls = ['for (int n = 1; n < count; ++n)', 'wgmma_wait<1>(S_rmem', 'exponentials(n', 'finish_output(n - 1)',
    'warp_any(large)', 'lower_weights']
  calls.reduce((at, call) => {
    const next = source.indexOf(call, at)
    assert.ok(next >= at, call)
    return next
  }, source.indexOf('[anchor: main_loop]'))
})

test('the words name each warp once', () => {
  for (const run of Object.keys(data)) {
    for (let tile = 0; tile < TILES; tile++) {
      const [words] = figure.describe(data, { run, tile, scale: '' }).split('\n')
      const named = /all four warps/.test(words) ? [0, 1, 2, 3]
        : [...words.replace(/^.*?: /, '').matchAll(/\b\d\b/g)].map(([digit]) => +digit).sort()
      assert.deepEqual(named, [0, 1, 2, 3], words)
    }
  }
})

test('fp8_weights on the page: runs, tiles', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open('/chapters/23_fp8/', { width }), size = width < 500 ? NARROW : WIDE
    const shown = await figure_on(page, 'fp8_weights')
    assert.deepEqual(await shown.values(), drawn({ run: 'large', tile: 1 }, size))
    await shown.choose('run', '× 6.25')
    await shown.slide('tile', 3)
    assert.deepEqual(await shown.values(), drawn({ run: 'larger', tile: 3 }, size))
    assert.match(await shown.words(), /Tile 3, .*looked first/)
    assert.deepEqual(page.complaints, [])
  }
}))

const skip = existsSync(join(SITE, 'fp8.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("fp8_weights: the reader's own input scale, run in the page", { skip }, () => with_browser(async (open) => {
  const page = await open('/chapters/23_fp8/'), shown = await figure_on(page, 'fp8_weights')
  const scale = shown.root.locator('[data-control="scale"] input'), recorded = await shown.values()
  await scale.fill('2.2')
  await shown.choose('run', 'your own')
  const log = output_of(figure.sources.ordinary.with(figure.sources.ordinary.indexOf('--input-scale') + 1, '2.2'))
  const own = figure.heard(data, { key: '2.2' }, log)
  assert.deepEqual(await shown.values(), drawn({ run: 'own', tile: 1, scale: '2.2' }, WIDE, own))
  assert.notEqual(await shown.value('own_summary'), recorded.larger_summary)
  await scale.fill('much')
  await shown.says(/^Q and K × much: --input-scale much: expected a finite number, such as 0\.125\. Tile 1, scores × 4:/)
  assert.deepEqual(await shown.values(), recorded)
  assert.deepEqual(page.complaints, [])
}))
