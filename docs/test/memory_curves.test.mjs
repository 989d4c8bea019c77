import assert from 'node:assert/strict'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'

const MIB = 1 << 20

test('memory_curves: bytes as ch02_tiled_cpu counts them now', () => with_browser(async (open) => {
  const fresh = output_of(['ch02_tiled_cpu', 'memory', '--longest', '2048', '--json', '{json}']).rows
  const measured = output_of(['docs/measurements/cpu/ch02_memory.csv']).rows
  assert.ok(fresh.length > 1)
  assert.deepEqual(measured.slice(0, fresh.length), fresh)
  const page = await open(page_with('02_tiled_cpu', 'memory_curves'))
  const figure = await figure_on(page, 'memory_curves', 'memory_curves')
  for (const { length, safe_peak_bytes, tiled_peak_bytes, output_bytes, score_matrix_bytes } of measured) {
    await figure.slide('power', Math.log2(length))
    assert.deepEqual(await figure.values(), {
      memory_naive: `${(safe_peak_bytes / MIB).toFixed(2)} MiB`,
      memory_tiled: `${(tiled_peak_bytes / MIB).toFixed(3)} MiB`,
      memory_O: `${output_bytes / MIB} MiB`,
      memory_factor: (safe_peak_bytes / tiled_peak_bytes).toFixed(0),
    }, `n = ${length}`)
    assert.match(await figure.words(),
      new RegExp(`^n = ${length}: .* score matrix alone ${score_matrix_bytes / MIB}\\.0 MiB`))
  }
  assert.deepEqual(page.complaints, [])
}))

test('memory_curves: times are the medians of the measurement', () => with_browser(async (open) => {
  const { rows } = output_of(['docs/measurements/cpu/crossover.csv'])
  const median = (name, length) =>
    rows.find((row) => row.kernel === name && row.length === length).ns / 1000
  const page = await open(page_with('02_tiled_cpu', 'time_curves'))
  const figure = await figure_on(page, 'memory_curves', 'time_curves')
  assert.match(await figure.words(),
    /^n = 32: .* Xeon with AVX-512, 16 cores, virtual machine, 2 MiB of L2 a core/)
  for (let length = 16; length <= 4096; length *= 2) {
    await figure.slide('power', Math.log2(length))
    const values = await figure.values()
    for (const name of ['naive', 'tiled', 'fast']) {
      const shown = parseFloat(values[`time_${name}`])
      const off = Math.abs(shown - median(name, length))
      assert.ok(off <= (shown < 100 ? 0.051 : 0.501), `${name} at ${length}: ${shown}`)
    }
    assert.equal(values.time_factor, (median('naive', length) / median('tiled', length)).toFixed(2))
  }
  assert.deepEqual(page.complaints, [])
}))

test('memory_curves: dragging, keys, and the chart that is chosen', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'memory_curves'), { width: 390 })
  const figure = await figure_on(page, 'memory_curves', 'memory_curves')
  await figure.drag([0.9, 0.5], [0.22, 0.5])
  assert.match(await figure.words(), /^n = 512: /)
  await figure.press('ArrowRight')
  assert.match(await figure.words(), /^n = 1024: /)
  await figure.back('power')
  assert.match(await figure.words(), /^n = 512: /)
  await figure.slide('power', 15)
  await figure.choose('show', 'time')
  assert.match(await figure.words(), /^n = 4096: naive \(safe\) 339025 µs/)
  assert.deepEqual(page.complaints, [])
}))
