// Compares chapter 20's curves with the measurement and with the lesson.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import context from '../figures/context.js'
import on_gpu from '../figures/on_gpu.js'
import loss from '../figures/loss.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const kept = output_of(loss.sources.kept), data = loss.data({ kept })
const numbers = (text) => text.split(' ').map(Number)
const curves = Object.fromEntries(kept.rows.map((row) => [row.name,
  { ...row, passed: row.passed === 1, first: numbers(row.first), means: numbers(row.means) }]))
const last = (name) => curves[name].last

test('loss: the last 200 steps as they were measured', () => {
  for (const show of ['breaks', 'seeds']) {
    for (const width of [WIDE, NARROW]) {
      const shown = numbers_in(loss.draw(data, { show, focus: 'tiled 0' }, width))
      const names = Object.keys(shown)
      assert.equal(names.length, show === 'breaks' ? 6 : 11)
      for (const name of names) {
        const curve = name.replace('last_', '').replace('_', ' ')
        assert.equal(shown[name], last(curve).toFixed(3), curve)
      }
    }
  }
})

test('loss: what the lesson says of the curves', () => {
  const intact = last('tiled 0'), seeds = [0, 1, 2, 3, 4]
  for (const { means } of Object.values(curves)) {
    assert.equal(means.length, 2000 / kept.about.every)
    assert.ok(means.every(Number.isFinite))
  }
  const spread = Math.max(...seeds.map((n) => last(`plain ${n}`))) - Math.min(...seeds.map((n) => last(`plain ${n}`)))
  for (const seed of seeds) {
    const [plain, tiled] = [curves[`plain ${seed}`], curves[`tiled ${seed}`]]
    assert.ok(plain.first.every((x, step) => Math.abs(x - tiled.first[step]) <= 1e-5), `seed ${seed}, first 20`)
    assert.ok(Math.abs(plain.last - tiled.last) < spread / 10, `seed ${seed}`)
    assert.ok(plain.passed && tiled.passed)
  }
  assert.ok(Math.abs(last('ch10 0') - intact) < spread)
  assert.ok(last('mask-off-by-one') < intact - 1, 'who sees the answer is too good')
  const broken = ['mask-off-by-one', 'tile-relative-mask', 'no-d', 'no-scale-in-dk', 'no-rescale']
  for (const name of broken) assert.equal(curves[name].passed, false, name)
})

test('loss on the page: which curves, pointing', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('20_train_a_gpt', 'loss'), { width })
    const shown = await figure_on(page, 'loss')
    await shown.point('no-d')
    assert.match(await shown.words(), /^D forgotten: after 2000 steps the loss is /)
    await shown.choose('show', 'three attentions, five seeds')
    assert.match(await shown.words(), /^plain, seed 0: after 2000 steps the loss is /)
    assert.deepEqual(page.complaints, [])
  }
}))

test('context: memory and time as they were measured; four times the memory for twice the context', () => {
  const all = context.data({ kept: output_of(context.sources.kept) })
  const contexts = Object.keys(all), bytes = (name, n) => all[contexts[n]][name].attention_bytes
  assert.deepEqual(contexts, ['512', '1024', '2048', '4096', '8192', '16384'])
  for (let n = 1; n < contexts.length; n++) assert.equal(bytes('plain', n), 4 * bytes('plain', n - 1))
  for (const focus of contexts) {
    const { plain, tiled } = all[focus]
    for (const width of [WIDE, NARROW]) {
      const memory = numbers_in(context.draw(all, { show: 'memory', focus }, width))
      assert.equal(memory.memory_plain, `${plain.attention_bytes / 2 ** 20} MiB`)
      assert.equal(memory.memory_tiled, `${tiled.attention_bytes / 2 ** 10} KiB`)
      const time = numbers_in(context.draw(all, { show: 'time', focus }, width))
      assert.equal(time.time_factor, (plain.ms / tiled.ms).toFixed(1))
    }
  }
})

test('on_gpu: tokens a second and kernels as they were measured', () => {
  const kept = output_of(on_gpu.sources.kept), groups = output_of(on_gpu.sources.kernels)
  const data = on_gpu.data({ kept, kernels: groups })
  assert.deepEqual(data.rows.map(({ context: length }) => length), [512, 1024, 2048, 4096, 8192, 16384])
  for (const { context: length, tokens_per_second } of data.rows) {
    for (const row of kept.rows.filter((one) => one.context === length && one.tokens_per_second)) {
      assert.equal(row.batch * length, kept.about.tokens)
      const middle = numbers(row.ms).sort((a, b) => a - b)[1]
      assert.ok(Math.abs(row.tokens_per_second - 1000 * kept.about.tokens / middle) <= 1, row.runner)
      const ours = numbers(kept.rows.find((one) => one.context === length && one.runner === 'ours, ch16').first_losses)
      const losses = numbers(row.first_losses)
      assert.equal(losses.length, ours.length)
      losses.forEach((loss, i) => assert.ok(Math.abs(loss - ours[i]) <= 5e-4, row.runner))
    }
    for (const width of [WIDE, NARROW]) {
      const shown = numbers_in(on_gpu.draw(data, { show: 'speed', focus: `${length}` }, width))
      assert.equal(shown.speed_0, `${Math.round(tokens_per_second['ours, ch16'] / 1000)} k`)
      assert.equal(shown.speed_2, length > 4096 ? 'no memory' : `${Math.round(tokens_per_second['PyTorch, math'] / 1000)} k`)
      const bars = numbers_in(on_gpu.draw(data, { show: 'kernels', focus: `${length}` }, width))
      assert.equal(bars.kernel_0, groups.rows[0].ms.toFixed(1))
    }
  }
})
