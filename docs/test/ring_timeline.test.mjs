import assert from 'node:assert/strict'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import { runs_of } from '../figures/ring_timeline.js'
import { figure_on, page_with, with_browser } from './browser.mjs'

const runs = runs_of(output_of(['docs/measurements/h100/ch19_timeline.csv']).rows)

test('ring_timeline: lengths are what the events say; a step begins behind the one before', () => with_browser(async (open) => {
  const page = await open(page_with('19_ring_attention', 'ring_timeline')), figure = await figure_on(page, 'ring_timeline')
  for (const [mask, label, schedules] of [['causal', 'causal', ['ring', 'overlap', 'zigzag']], ['all', 'all keys', ['ring', 'overlap']]]) {
    await figure.choose('mask', label)
    const values = await figure.values()
    for (const schedule of schedules) {
      const { time_ms: time, steps } = runs[`${schedule}_${mask}`]
      assert.equal(values[`${schedule}_time`], `${time.toFixed(2)} ms`)
      steps.forEach((of_rank, rank) => {
        const [first, second] = of_rank
        assert.ok(first.begin_ms + first.compute_ms <= second.begin_ms && second.begin_ms + second.compute_ms <= time)
        // The keys of the second step have arrived when it begins. Without overlap their transfer
        // starts after the first step.
        assert.ok(first.transfer_begin_ms + first.transfer_ms <= second.begin_ms)
        if (schedule === 'ring') assert.ok(first.transfer_begin_ms >= first.begin_ms + first.compute_ms)
        else assert.ok(first.transfer_begin_ms < first.begin_ms + first.compute_ms)
        assert.ok(values[`${schedule}_${rank}_compute_0`].endsWith(first.compute_ms.toFixed(2)))
        assert.equal(values[`${schedule}_${rank}_transfer`], first.transfer_ms.toFixed(2))
      })
    }
    assert.equal('zigzag_time' in values, mask === 'causal')
  }
  await figure.point('ring:1')
  assert.match(await figure.words(), /^ring, GPU 1: from 0\.11 to 5\.63 ms it computes with the keys of GPU 1, /)
  assert.deepEqual(page.complaints, [])
}))
