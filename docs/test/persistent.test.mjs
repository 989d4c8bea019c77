import assert from 'node:assert/strict'
import { test } from 'node:test'

import { runs_of } from '../figures/persistent.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'

const runs = runs_of(output_of(['docs/measurements/h100/ch21_timeline.csv']).rows)

test('persistent: bars are the recorded tiles; tiles of an SM follow each other', () => with_browser(async (open) => {
  const page = await open(page_with('21_persistent_blocks', 'persistent')), figure = await figure_on(page, 'persistent')
  for (const [label, says] of [['µs', ([, begin, end]) => (end - begin).toFixed(1)], ['keys', ([keys]) => String(keys)]]) {
    await figure.choose('label', label)
    const values = await figure.values()
    let drawn = 0
    for (const [run, sms] of Object.entries(runs)) {
      for (const [sm, tiles] of Object.entries(sms)) {
        tiles.forEach((tile, i) => {
          assert.ok(tile[1] < tile[2] && (i === 0 || tiles[i - 1][2] <= tile[1]))
          const value = values[`${run}_${sm}_${i}`]
          if (value) assert.equal(value, says(tile))
          drawn += value ? 1 : 0
        })
      }
    }
    assert.ok(drawn > 40, `${drawn} bars have a label`)
  }
}))
