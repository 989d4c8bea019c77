// Compares chapter 10's gradients by element: the figure of each tensor with the program's errors.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/gradient_check.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const outputs = Object.fromEntries(Object.entries(figure.sources).map(([key, command]) => [key, output_of(command)]))
const data = figure.data(outputs)
const TENSORS = ['dQ', 'dK', 'dV']
const BREAKS = { none: [], 'no-d': ['dQ', 'dK'], 'no-scale-in-dk': ['dK'], 'unmasked-backward': TENSORS,
  'lse-of-empty-row': TENSORS, 'bf16-dq': ['dQ'] }
const shown = (number) => Number(number.replace('median ', '').replace('largest ', '').replace('−', '-'))
const near = (got, wanted) => Math.abs(got - wanted) <= 0.05 * wanted

// Returns the expected contents of the drawing for the errors of a run.
function expected({ passed, errors }) {
  const of = (rows) => {
    const finite = rows.flat().filter((error) => error !== null).sort((a, b) => a - b)
    return { median: finite[finite.length >> 1], largest: finite.at(-1), lost: rows.flat().length - finite.length }
  }
  return { passed, tensors: Object.fromEntries(TENSORS.map((name) => [name, of(errors[name])])) }
}

function assert_shows(values, run, what) {
  const { passed, tensors } = expected(run)
  assert.equal(values.verdict.includes('outside'), !passed, what)
  for (const [name, { median, largest, lost }] of Object.entries(tensors)) {
    assert.ok(near(shown(values[`${name}_median`]), median), `${what}: ${values[`${name}_median`]}, ${median}`)
    assert.ok(near(shown(values[`${name}_largest`]), largest), `${what}: ${values[`${name}_largest`]}, ${largest}`)
    assert.equal(values[`${name}_not_finite`], lost ? `${lost} not finite` : 'all finite', `${what}, ${name}`)
  }
}

test('gradient_check: the numbers are the program’s, at both widths', () => {
  for (const [key, run] of Object.entries(outputs)) {
    const [dtype, broken] = key.split(',')
    for (const width of [WIDE, NARROW]) {
      assert_shows(numbers_in(figure.draw(data, { dtype, broken }, width)), run, key)
    }
  }
})

test('gradient_check: each letter is its error’s power of ten', () => {
  for (const [key, { errors }] of Object.entries(outputs)) {
    for (const name of TENSORS) {
      errors[name].forEach((row, x) => row.forEach((error, y) => {
        const letter = data.cases[key][name].rows[x][y], power = 'abcdefghi'.indexOf(letter) - 8
        if (error === null) assert.equal(letter, '!')
        else assert.ok((power === -8 || error >= 10 ** power * 0.999)
          && (power === 0 || error < 10 ** (power + 1) * 1.001),
          `${key} ${name}[${x}][${y}]: ${error} is ${letter}`)
      }))
    }
  }
})

test('gradient_check: each break spoils its tensors and no others, in fp32', () => {
  for (const [broken, wrong] of Object.entries(BREAKS)) {
    const { errors, passed } = outputs[`f32,${broken}`]
    assert.equal(passed, wrong.length === 0, broken)
    for (const name of TENSORS) {
      const right = errors[name].flat().every((error) => error !== null && error <= 1e-5)
      assert.equal(right, !wrong.includes(name), `${broken}, ${name}`)
    }
  }
})

test('gradient_check: on its page', () => with_browser(async (open) => {
  const page = await open(page_with('10_backward', 'gradient_check'), { width: 390 })
  const shown = await figure_on(page, 'gradient_check')
  assert_shows(await shown.values(), outputs['bf16,lse-of-empty-row'], 'the still')
  await shown.choose('broken', 'no-scale-in-dk')
  await shown.choose('dtype', 'fp32')
  assert_shows(await shown.values(), outputs['f32,no-scale-in-dk'], 'chosen')
  await shown.point('dQ,3')
  assert.match(await shown.words(),
    /no-scale-in-dk: .*; fp32\. Outside the bound\. dQ, query 3: the largest error is below 10⁻⁷\./)
  assert.deepEqual(page.complaints, [])
}))
