// Tests chapter 19's figure: which rank computes which scores in which step.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import ring from '../figures/ring.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const outputs = Object.fromEntries(Object.entries(ring.sources).map(([key, command]) => [key, output_of(command)]))
const data = ring.data(outputs), sum = (numbers) => numbers.reduce((a, b) => a + b, 0)
const blocks_in = (drawing, color) => drawing.split(`class="${color}"`).length - 1

test('ring: scores as the program counts them, and all of them', () => {
  for (const layout of ['overlap', 'zigzag'])
    for (const mask of ['causal', 'all']) {
      const { steps } = outputs[`${layout}_${mask}`].profile
      assert.equal(sum(steps.flat().map(({ scores }) => scores)), mask === 'all' ? 256 * 256 : 256 * 257 / 2)
      for (let step = 0; step < 4; step++)
        for (const width of [WIDE, NARROW]) {
          const shown = numbers_in(ring.draw(data, { layout, mask, step, focus: null }, width))
          steps.forEach((rank, i) => assert.equal(shown[`scores_${i}`], `${rank[step].scores}`))
        }
    }
})

test('ring: the blocks that are drawn are as many scores as the program counts', () => {
  for (const [layout, chunk] of [['overlap', 64], ['zigzag', 32]])
    for (let step = 1; step < 4; step++) {  // step 0 also has triangles
      const drawing = ring.draw(data, { layout, mask: 'causal', step, focus: null }, WIDE)
      data[`${layout}_causal`].scores.forEach((rank, i) =>
        assert.equal((blocks_in(drawing, 'abcd'[i]) - (rank[step] ? 1 : 0)) * chunk * chunk, rank[step]))
    }
})

test('ring: in order 57 % of the time is used, as the lesson says; in zigzag all of it', () => {
  assert.match(ring.describe(data, { layout: 'overlap', mask: 'causal', step: 0 }), /Used: 57 %/)
  assert.match(ring.describe(data, { layout: 'zigzag', mask: 'causal', step: 0 }), /Used: 100 %/)
})

test('chapter 19 on the page: another layout, another step', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('19_ring_attention', 'in_order'), { width })
    const shown = await figure_on(page, 'ring')
    await shown.choose('layout', 'zigzag')
    assert.match(await shown.words(), /^Step 1, zigzag: of 8 chunks rank r has r and 7 - r, causal\. Rank 0 looks at/)
    assert.deepEqual(page.complaints, [])
  }
}))
