// Tests the roles of chapter 14: the order of each lane and the phases against the log and the
// formulas of the kernel, the table against a separate count of the mbarriers, the broken runs
// against the program's result.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import { BIN, output_of } from '../figures/programs.mjs'
import figure from '../figures/roles.js'
import { figure_on, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources)
  .map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const TILES = 4, CONSUMERS = 3, WARPS = [0, 4, 8, 12]

// The mbarriers are 8 bytes each, in the order of attention.hpp.
const ORDER = ['Q', 'K 0', 'K 1', 'V 0', 'V 1', 'K 0 empty', 'K 1 empty', 'V 0 empty', 'V 1 empty']
const first = logs[''].events.find(({ kind }) => kind === 'mbarrier').mbarrier
const name_of = ({ mbarrier }) => ORDER[(mbarrier - first) / 8]
const drawn = (broken, step, width = WIDE) => numbers_in(figure.draw(data, { broken, step }, width))
const steps_of = (broken) => figure.controls(data, { broken })[1].max + 1
const name_in = ({ buffer, is_empty }) => `${data.buffers[buffer].name}${is_empty ? ' empty' : ''}`

test('the log: who waits for which phase, who asks, who arrives', () => {
  const { events } = logs['']
  for (const [lane, warp] of WARPS.entries()) {
    const mine = events.filter((event) => event.warp === warp)
    const seen = mine.filter(({ kind }) => kind === 'mbarrier_wait' || kind === 'mbarrier_arrive')
      .map((event) => `${event.kind.slice(9)} ${name_of(event)} ${event.phase} ${event.parity ?? ''}`.trim())
    const wanted = Array.from({ length: TILES }, (_, tile) => {
      const buffer = tile % 2, round = tile >> 1
      return ['K', 'V'].flatMap((matrix) => lane === 0
        ? [`wait ${matrix} ${buffer} empty ${round - 1} ${(round + 1) % 2}`, `arrive ${matrix} ${buffer} ${round}`]
        : [`wait ${matrix} ${buffer} ${round} ${round % 2}`, `arrive ${matrix} ${buffer} empty ${round}`])
    }).flat()
    assert.deepEqual(seen, [lane === 0 ? 'arrive Q 0' : 'wait Q 0 0', ...wanted], `warp ${warp}`)
  }
})

test('the picture: each lane in its order, nothing before what it waits for', () => {
  for (const [broken, { lanes }] of Object.entries(data.runs)) {
    const all = lanes.flat(), each = broken === 'empty-count' ? CONSUMERS - 1 : CONSUMERS
    lanes.forEach((steps, lane) => {
      const mine = logs[broken].events.filter(({ warp }) => warp === WARPS[lane])
      const waits = mine.filter(({ kind }) => kind === 'mbarrier_wait')
      assert.deepEqual(steps.filter(({ kind }) => kind === 'wait').map((step) => [name_in(step), step.phase]),
        waits.map((event) => [name_of(event), event.phase]), `${broken}, lane ${lane}`)
      const counts = (kind) => steps.filter((step) => step.kind === kind).length
      assert.deepEqual(['ask', 'S', 'softmax', 'O'].map(counts), lane ? [0, 4, 4, 4] : [9, 0, 0, 0])
      steps.slice(1).forEach((step, i) => assert.ok(step.from > steps[i].to, `${broken}: ${step.kind}`))
    })
    for (const step of all.filter(({ kind, phase }) => kind === 'wait' && phase >= 0)) {
      const before = all.filter(({ buffer, kind, phase, arrives }) => buffer === step.buffer
        && (step.is_empty ? arrives === step.phase : kind === 'ask' && phase === step.phase))
      assert.equal(before.length, step.is_empty ? each : 1, name_in(step))
      for (const { to } of before) assert.ok(to < step.to, `${broken}: ${name_in(step)} passes too early`)
    }
    for (const step of all.filter(({ arrives }) => arrives > 0)) {
      const before = all.filter(({ buffer, arrives }) => buffer === step.buffer && arrives === step.arrives - 1)
      for (const { to } of before) assert.ok(to < step.to, `${broken}: arrives in phase ${step.arrives} too early`)
    }
  }
})

// Returns the contents of the table after each step, by the rules of PTX: an arrival counts down,
// and arriving bytes complete the phase of `full`. They arrive when a thread has waited for them,
// or when the next copy starts.
function states_of(broken) {
  const all = data.runs[broken].lanes.flat(), each = broken === 'empty-count' ? CONSUMERS - 1 : CONSUMERS
  const now = Object.fromEntries(ORDER.slice(1, 5).map((name) =>
    [name, { full: 0, empty: 0, lacks: each, coming: false }]))
  return Array.from({ length: steps_of(broken) }, (_, step) => {
    for (const { kind, buffer, from, to, tile, is_empty, phase, arrives } of all) {
      const state = now[data.buffers[buffer]?.name]
      if (!state) continue
      const lands = () => {
        if (state.coming) state.full++
        state.coming = false
      }
      if (kind === 'ask' && from === step) {
        lands()
        Object.assign(state, { coming: true, tile, asked: (state.asked ?? 0) + 1 })
      }
      if (kind === 'wait' && !is_empty && to === step && phase === state.full) lands()
      if (arrives !== undefined && to === step && --state.lacks === 0) {
        Object.assign(state, { lacks: each, empty: state.empty + 1 })
      }
    }
    return structuredClone(now)
  })
}

test('the table: tile, phases and arrivals of each buffer after each step', () => {
  for (const broken of Object.keys(data.runs)) {
    states_of(broken).forEach((state, step) => {
      for (const width of [WIDE, NARROW]) {
        const numbers = drawn(broken, step, width)
        for (const [name, { full, empty, lacks, coming, tile, asked = 0 }] of Object.entries(state)) {
          const key = name.replace(' ', ''), where = `${broken}, ${name}, step ${step}`
          const what = empty >= asked ? 'empty' : coming ? 'coming' : 'full'
          assert.equal(numbers[`what_${key}`], what, where)
          assert.equal(numbers[`tile_${key}`], what === 'empty' ? '–' : `${name[0]}${tile}`, where)
          assert.match(numbers[`full_${key}`], new RegExp(`^${full}, (par. )?${full % 2}$`), where)
          assert.match(numbers[`empty_${key}`], new RegExp(`^${empty}, (par. )?${empty % 2}$`), where)
          assert.equal(numbers[`lacks_${key}`], `${lacks}`, where)
        }
      }
    })
  }
})

test('broken: another tile is read by the consumers whose rows the program finds wrong first', () => {
  for (const broken of ['empty-count', 'no-empty-wait']) {
    const [program, ...words] = figure.sources[broken].filter((word) => !['--events', '{json}'].includes(word))
    const { stdout, status } = spawnSync(join(BIN, program), words, { encoding: 'utf8' })
    assert.equal(status, 1)
    const row = +stdout.match(/O\[0, 0, (\d+), \d+\]: expected/)[1]
    const said = Array.from({ length: steps_of(broken) }, (_, step) => drawn(broken, step))
    const bad = Array.from({ length: CONSUMERS }, (_, consumer) => said.some((numbers) =>
      / but [KV] tile \d lies there$/.test(numbers[`doing_${consumer + 1}`])))
    assert.equal(bad.indexOf(true), Math.floor(row / 64), `${broken}: ${bad}, row ${row}`)
    const [{ kind, count }] = logs[broken].hazards
    assert.equal(said[0].hazard, `${kind}, ${count} times`)
    const described = figure.describe(data, { broken, step: 0 })
    for (const { text } of logs[broken].hazards) assert.ok(described.includes(text))
  }
  assert.equal(logs[''].hazards.length, 0)
  for (let step = 0; step < steps_of(''); step++) {
    assert.doesNotMatch(figure.describe(data, { broken: '', step }), /lies there/)
  }
})

test('roles on the page: steps, breaks, pointing', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open('/chapters/14_warp_specialization/', { width })
    const shown = await figure_on(page, 'roles')
    for (const step of [0, 11, 17]) {
      await shown.slide('step', step)
      assert.deepEqual(await shown.values(), drawn('', step, width < 500 ? NARROW : WIDE))
    }
    assert.match(await shown.words(),
      /producer waits for K 1 empty, phase 0, parity 0; consumer 0 S = Q Kᵀ with K tile 1/)
    await shown.point('fill:1:1')
    assert.match(await shown.words(), /K tile 2 in buffer K 0: asked for at 12, counted by phase 1 of full,/)
    await shown.choose('broken', 'empty-count')
    await shown.slide('step', 31)
    assert.match(await shown.words(), /consumer 2 S = Q Kᵀ with K tile 0, but K tile 2 lies there/)
    await shown.choose('broken', 'none')
    assert.match(await shown.words(), /Step 31: producer has ended/)
    await shown.choose('broken', 'no-empty-wait')
    await shown.drag([0.3, 0.2], [0.99, 0.2])
    assert.match(await shown.words(), /consumer 2 stores its rows of O/)
    assert.deepEqual(page.complaints, [])
  }
}))
