// Compares the figure of chapter 17's errors with the program's current output.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/rounding.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const outputs = Object.fromEntries(Object.entries(figure.sources).map(([key, command]) => [key, output_of(command)]))
const data = figure.data(outputs)
const number = (words) => {
  const [, mantissa, power] = words.match(/^(\d\.\d) · 10⁻([⁰¹²³⁴⁵⁶⁷⁸⁹])$/)
  return Number(mantissa) * 10 ** -'⁰¹²³⁴⁵⁶⁷⁸⁹'.indexOf(power)
}
const near = (got, wanted) => Math.abs(got - wanted) <= 0.06 * wanted

function assert_shows(values, length) {
  const shown = Object.entries(values)
  assert.equal(shown.length, 15)
  for (const [name, words] of shown) {
    const { rmse } = outputs[`${length},${name.replace('_', ',')}`].check
    assert.ok(near(number(words), rmse), `${length}, ${name}: ${words}, ${rmse}`)
  }
}

test('rounding: the numbers are the program’s, at both widths', () => {
  for (const length of [256, 1024, 4096])
    for (const width of [WIDE, NARROW]) assert_shows(numbers_in(figure.draw(data, { length }, width)), length)
})

test('rounding: the intact runs pass, and a mean that stays in K does not', () => {
  for (const [key, { check }] of Object.entries(outputs)) {
    if (!key.endsWith('rough')) assert.ok(check.passed, key)
    else if (key.includes('mean')) assert.ok(!check.passed, key)
  }
})

test('rounding: on its page', () => with_browser(async (open) => {
  const page = await open(page_with('17_low_precision', 'rounding'), { width: 390 })
  const shown = await figure_on(page, 'rounding')
  assert_shows(await shown.values(), 1024)
  await shown.choose('length', '256')
  assert_shows(await shown.values(), 256)
  await shown.point('outliers:head')
  assert.match(await shown.words(), /^256 keys, one number in 1000 .*, a head has one scale: error \d\.\d · 10⁻.*by 8\./)
  assert.deepEqual(page.complaints, [])
}))
