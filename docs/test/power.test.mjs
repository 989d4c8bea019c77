import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, shape_words, WIDE } from '../figures/draw.js'
import power from '../figures/power.js'
import { output_of, ROOT } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const rows_of = (name) => readFileSync(join(ROOT, 'docs/measurements/h200', name), 'utf8')
  .split('--mean 0:')[0].split('\n').filter((line) => line.startsWith('| ') && !line.includes('TFLOP'))
  .map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()))
// [shape, name, TFLOP/s, GHz, W] from the measurements, with percent for a program.
const steady = rows_of('ch13_steady.txt').map(([shape, name, tflops, , , , ghz, watts]) =>
  [shape, name.replace(':', '_'), tflops, ghz, watts])
const tensor = Object.fromEntries(rows_of('ch13_profile.txt').map(([program, , , percent]) =>
  [program.replace(/^(ch\d\d)_\w+/, '$1').replace(/ --\w+ /, '_'), percent]))
const SHAPE = '2,16,8192,8192,128', data = power.data({ steady: output_of(power.sources.steady) })

function compare(numbers, shape) {
  const own = steady.filter(([at]) => at === shape)
  assert.equal(own.length, 8)
  for (const [, name, tflops, ghz, watts] of own) {
    assert.deepEqual(['tflops', 'ghz', 'watts'].map((key) => numbers[`${key}_${name}`]), [tflops, ghz, watts],
      `${name} at ${shape}`)
    assert.equal(numbers[`tensor_${name}`], shape === SHAPE ? tensor[name] : undefined, name)
  }
}

test('power: every number as it stands in the measurements', () => {
  assert.equal(Object.keys(tensor).filter((name) => /^(ch|cuDNN)/.test(name)).length, 7)
  for (const width of [WIDE, NARROW]) {
    for (const shape of Object.keys(data.shapes)) {
      compare(numbers_in(power.draw(data, { shape, focus: 'ch12' }, width)), shape)
    }
  }
})

test('power: what the lesson says of it is what was measured', () => {
  const cells = data.shapes[SHAPE]
  const { ratio_tflops, ratio_ghz, ratio_watts } = numbers_in(power.draw(data, power.initial(data), WIDE))
  const ratio = (key) => `× ${(cells.ch14[key] / cells.ch08[key]).toFixed(2)}`
  assert.deepEqual([ratio_tflops, ratio_ghz, ratio_watts], ['tflops', 'ghz', 'watts'].map(ratio))
  const speeds = ['ch08', 'ch12', 'ch13:1', 'ch13', 'ch14:2', 'ch14'].map((name) => cells[name].tflops)
  assert.deepEqual(speeds, [...speeds].sort((one, other) => one - other), 'speed rises')
  assert.ok(cells.ch08.ghz > cells.ch13.ghz && cells.ch13.ghz > cells['ch14:2'].ghz
    && cells['ch14:2'].ghz > cells.ch14.ghz, 'the clock falls')
  const watts = Object.values(cells).map((cell) => cell.watts)
  assert.ok(Math.max(...watts) / Math.min(...watts) < 1.03, 'power stands still')
})

test('power on the page: problems, pointing', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('14_warp_specialization', 'power'), { width })
    const shown = await figure_on(page, 'power')
    for (const shape of Object.keys(data.shapes).reverse()) {
      await shown.choose('shape', shape_words(shape))
      compare(await shown.values(), shape)
    }
    await shown.point('ch14:2')
    assert.match(await shown.words(),
      /^14, two consumers: 605\.4 TFLOP\/s, tensor pipe 73\.8 % busy, 1\.74 GHz, 721 W\./)
    await shown.press('ArrowDown')
    assert.match(await shown.words(), /^14, three consumers: /)
    assert.deepEqual(page.complaints, [])
  }
}))
