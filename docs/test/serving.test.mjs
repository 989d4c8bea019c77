// Tests chapter 24's figure: the holders of each page of the cache.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/served_pages.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const serve = output_of(figure.sources.serve), data = figure.data({ serve })

test('served pages: as many in use and shared as the report has, all released at the end', () => {
  serve.trace.forEach(({ pages, shared }, step) => {
    for (const width of [WIDE, NARROW]) {
      assert.match(`${numbers_in(figure.draw(data, { step, focus: null }, width)).used} `,
        new RegExp(`^Step ${step}: ${pages} of ${serve.pages} pages in use, ${shared} `))
    }
  })
  assert.equal(serve.pages_lost, 0)
  assert.equal(serve.trace.at(-1).pages, 0)
})

test('served pages: what the lesson says of request 3', () => {
  const of = (step) => serve.trace[step].holders.filter((one) => one.includes(3)).length
  assert.deepEqual([of(33), of(34), of(39)], [7, 0, 7])
  assert.match(serve.trace[34].events.join(), /request 3 gives 7 pages back/)
  assert.match(serve.trace[39].events.join(), /request 3 starts, finds 4 pages/)
})

test('chapter 24 on the page: steps, a request', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('24_serve_a_gpt', 'served_pages'), { width })
    const shown = await figure_on(page, 'served_pages')
    assert.match(await shown.words(), /^Step 8: 12 of 24 pages in use, 2 of them by several requests\./)
    await shown.point('2')
    assert.match(await shown.words(), /request 2: up to 8 pages, in \d+ steps from 4 to \d+/)
    assert.deepEqual(page.complaints, [])
  }
}))
