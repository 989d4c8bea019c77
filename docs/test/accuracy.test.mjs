// Compares chapter 17's errors with the measurement and with the lesson.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import accuracy from '../figures/accuracy.js'
import { NARROW, WIDE } from '../figures/draw.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const kept = output_of(accuracy.sources.kept), data = accuracy.data({ kept })
const INPUTS = ['normal', 'outliers', 'k-mean', 'sink', 'long', 'long-v']
const schemes = [...new Set(kept.rows.map(({ scheme }) => scheme))]
const errors = Object.fromEntries(schemes.map((name) => [name, Object.fromEntries(
  kept.rows.filter(({ scheme }) => scheme === name).map((row) => [row.input, row]))]))
const rmse = (scheme, input) => errors[scheme][input].rmse

test('accuracy: the errors as they were measured', () => {
  assert.deepEqual([...new Set(kept.rows.map(({ input }) => input))], INPUTS)
  for (const input of INPUTS) {
    for (const measure of ['rmse', 'relative_l1']) {
      for (const width of [WIDE, NARROW]) {
        const shown = numbers_in(accuracy.draw(data, { input, measure, focus: 'bf16' }, width))
        assert.equal(Object.keys(shown).length, schemes.length)
        for (const [name, of] of Object.entries(errors)) {
          const shown_here = shown[`error_${name.replaceAll('-', '_')}`]
          assert.equal(Number(shown_here), Number(of[input][measure].toExponential(1)), `${name}, ${input}, ${measure}`)
        }
      }
    }
  }
})

test('accuracy: medians lie in their ranges, and all is finite', () => {
  for (const [name, of] of Object.entries(errors)) {
    for (const input of INPUTS) {
      const { rmse, lowest_rmse: low, highest_rmse: high, cosine, relative_l1 } = of[input]
      assert.ok(low > 0 && low <= rmse && rmse <= high, `${name}, ${input}`)
      assert.ok(cosine > 0 && cosine <= 1 && relative_l1 > 0, `${name}, ${input}`)
    }
  }
})

test('accuracy: the paper\'s numbers, where they are, and only there', () => {
  const cited = Object.fromEntries(kept.rows.filter((one) => one.cited_rmse).map((one) => [one.scheme, one.cited_rmse]))
  assert.deepEqual(cited, { fp16: 1.9e-4, 'fp8-tensor': 2.4e-2, 'fp8-block': 2.4e-2, 'fp8-tensor-hadamard': 9.3e-3,
    'fp8-block-hadamard': 9.1e-3 })
  const hollow = (state) => accuracy.draw(data, { focus: 'bf16', ...state }, WIDE).split('<circle').filter((piece) =>
    piece.includes('line-e')).length
  assert.equal(hollow({ input: 'outliers', measure: 'rmse' }), 6)  // and in the legend
  assert.equal(hollow({ input: 'outliers', measure: 'relative_l1' }), 0)
  assert.equal(hollow({ input: 'normal', measure: 'rmse' }), 0)
})

test('accuracy: what the lesson says', () => {
  const grains = ['tensor', 'block', 'warp', 'thread'].map((grain) => `int8-${grain}`)
  for (const name of [...grains, 'fp8-block']) {
    assert.ok(rmse(`${name}-smooth`, 'k-mean') < rmse(name, 'k-mean') / 3, `${name}: smoothing`)
  }
  for (const name of grains) assert.ok(rmse(name, 'normal') < rmse('fp8-tensor', 'normal') / 2, `${name} beats e4m3`)
  assert.ok(rmse('fp8-tensor-hadamard', 'outliers') < rmse('fp8-tensor', 'outliers') / 1.5)
  assert.ok(rmse('fp8-block-hadamard', 'k-mean') > rmse('fp8-block-smooth', 'k-mean') * 3, 'rotation is no smoothing')
  assert.ok(rmse('fp8-block-unscaled', 'sink') > rmse('fp8-block', 'sink') * 8)
  assert.ok(rmse('fp8-block-unscaled', 'normal') < rmse('fp8-block', 'normal') * 1.1)
  assert.ok(rmse('fp8-block-one-level', 'long-v') > rmse('fp8-block', 'long-v') * 100)
  assert.ok(rmse('fp8-block-one-level', 'long') < rmse('fp8-block', 'long') * 1.1)
  assert.ok(rmse('mxfp8', 'normal') > rmse('fp8-tensor', 'normal'))
})

test('accuracy on the page: input, measure, pointing', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('17_low_precision', 'accuracy'), { width })
    const shown = await figure_on(page, 'accuracy')
    await shown.choose('measure', 'relative L1')
    await shown.point('int8-thread')
    assert.match(await shown.words(), /^int8-thread on one in 1000 far out: relative L1 error /)
    assert.deepEqual(page.complaints, [])
  }
}))
