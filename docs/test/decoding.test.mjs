// Tests chapter 11's figures: waves by the number of splits, and the owner of each page of the
// cache.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import pages from '../figures/pages.js'
import splits from '../figures/splits.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const tables = Object.fromEntries(Object.entries(splits.sources).map(([key, command]) => [key, output_of(command)]))
const waves = splits.data(tables), serve = output_of(pages.sources.serve), held = pages.data({ serve })

test('splits: efficiency and choice as the program prints them, and as waves say', () => {
  for (const [items, { rows, chosen, flash_attention, multiprocessors }] of Object.entries(tables)) {
    for (const { splits: n, efficiency } of rows.slice(0, 40)) {
      const blocks = items * n / multiprocessors
      assert.ok(Math.abs(efficiency - blocks / Math.ceil(blocks)) < 1e-12, `${items}, ${n}`)
      for (const width of [WIDE, NARROW]) {
        const shown = numbers_in(splits.draw(waves, { items, focus: `${n}` }, width))
        assert.equal(shown.efficiency, `busy ${(100 * efficiency).toFixed(1)} %`)
        assert.equal(shown.chosen, `85 %: ${flash_attention} · 95 %: ${chosen}`)
      }
    }
  }
  assert.deepEqual([tables[8].chosen, tables[8].flash_attention, tables[128].chosen], [16, 14, 1])
})

test('pages: as many in use as the log has, each with one holder, all back at the end', () => {
  serve.steps.forEach(({ step, holders }, i) => {
    const used = holders.filter((one) => one !== null).length
    const shown = numbers_in(pages.draw(held, { step: i, focus: null }, WIDE)).used
    assert.match(`${shown} `, new RegExp(`^Step ${step}: ${used} of ${serve.pages} pages in use; `))
  })
  assert.equal(serve.pages_lost, 0)
})

test('pages: what the lesson says of request 4', () => {
  const of = (step) => serve.steps.find((one) => one.step === step).holders.filter((one) => one === 4).length
  assert.deepEqual([of(5), of(6), of(26)], [6, 0, 6])
})

test('chapter 11 on the page: other numbers of blocks, steps', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('11_decoding', 'splits'), { width })
    const shown = await figure_on(page, 'splits')
    await shown.choose('items', '24')
    assert.match(await shown.words(), /^24 blocks without splitting, 16 splits of the keys: 384 blocks/)
    const other = await open(page_with('11_decoding', 'pages'), { width })
    const map = await figure_on(other, 'pages')
    assert.match(await map.words(), /^Step 6: 23 of 28 pages in use, by 3 requests\./)
    await map.point('2')
    assert.match(await map.words(), /request 2: up to 11 pages, in 25 steps from 1 to 25/)
    assert.deepEqual([...page.complaints, ...other.complaints], [])
  }
}))
