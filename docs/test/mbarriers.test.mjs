// Compares each state of chapter 12's mbarriers in the figure with a separate count of the log's
// instructions, and with the formulas of the kernel.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/mbarriers.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const NAMES = ['Q', 'K0', 'K1', 'V'], KV_BYTES = 48 * 128 * 2, Q_BYTES = 128 * 128 * 2
const logs = Object.fromEntries(Object.entries(figure.sources)
  .map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const of_warp = ({ events }, warp) => events.filter((event) => event.warp === warp)
const kinds_of = (events, kind) => events.filter((event) => event.kind === kind)

// The mbarriers are 8 bytes each, in the order of attention.hpp: Q, V, K twice.
const first = logs[''].events.find(({ kind }) => kind === 'mbarrier').mbarrier
const name_of = ({ mbarrier }) => ['Q', 'V', 'K0', 'K1'][(mbarrier - first) / 8]

// Returns the contents of the table after each step of warp 0, by the rules of PTX: an arrival
// counts down, expected bytes count up, completed bytes count down, and the next phase begins when
// both are zero.
function states_of(events) {
  const states = [], all = Object.fromEntries(NAMES.map((name) => [name, { phase: 0, arrivals: 1, bytes: 0 }]))
  const coming = Object.fromEntries(NAMES.map((name) => [name, []]))
  const complete = (name) => {
    const each = all[name]
    if (each.arrivals === 0 && each.bytes === 0) all[name] = { phase: each.phase + 1, arrivals: 1, bytes: 0 }
  }
  let multiplies = ''
  for (const event of events) {
    const name = name_of(event)
    const matrix = event.kind === 'ldmatrix' && event.shared_address >= Q_BYTES
      ? event.shared_address < Q_BYTES + 2 * KV_BYTES ? 'K' : 'V' : ''
    const step = ['mbarrier_wait', 'barrier', 'tma_load', 'store_global'].includes(event.kind) || matrix
    if (event.kind === 'mbarrier_arrive') {
      // The tile before has arrived, whether or not a thread has waited for it.
      for (const bytes of coming[name].splice(0)) all[name].bytes -= bytes
      complete(name)
      all[name].arrivals--
      all[name].bytes += event.bytes
    }
    if (event.kind === 'tma_load') coming[name].push(event.bytes)
    if (event.kind === 'mbarrier_wait' && event.phase === all[name].phase) {
      for (const bytes of coming[name].splice(0)) all[name].bytes -= bytes
      complete(name)
    }
    if (matrix && matrix === multiplies) continue
    if (event.kind === 'store_global' && multiplies === 'store') continue
    if (!step) continue
    multiplies = event.kind === 'store_global' ? 'store' : matrix
    states.push(structuredClone(all))
  }
  return states
}

function wanted_numbers(state) {
  return Object.fromEntries(NAMES.flatMap((name) => {
    const { phase, arrivals, bytes } = state[name], passes = ['waits', 'passes']
    return Object.entries({ phase, parity: phase % 2, arrivals, bytes, wait0: passes[phase % 2],
      wait1: passes[1 - phase % 2] }).map(([key, value]) => [`${key}_${name}`, `${value}`])
  }))
}

const assert_has = (values, wanted, what) => {
  for (const [name, number] of Object.entries(wanted)) assert.equal(values[name], number, `${name}, ${what}`)
}

test('the log: one warp asks and all wait, in the phases and parities of a ring of two', () => {
  for (const warp of [0, 1, 2, 3]) {
    const mine = of_warp(logs[''], warp), waits = kinds_of(mine, 'mbarrier_wait'), counts = {}
    for (const wait of waits) {
      const name = name_of(wait), phase = counts[name] = (counts[name] ?? -1) + 1
      assert.deepEqual([wait.phase, wait.parity], [phase, phase % 2], `${name}, warp ${warp}`)
    }
    assert.deepEqual(counts, { Q: 0, K0: 2, K1: 1, V: 4 }, `warp ${warp}`)
    assert.deepEqual(waits.map(name_of).filter((name) => name[0] === 'K'), ['K0', 'K1', 'K0', 'K1', 'K0'])
    const loads = kinds_of(mine, 'tma_load'), told = kinds_of(mine, 'mbarrier_arrive')
    assert.equal(loads.length, warp === 0 ? 11 : 0, 'only warp 0 asks')
    assert.deepEqual(told.map(({ bytes }) => bytes), loads.map(({ bytes }) => bytes), 'and says how many come')
    loads.forEach((load) => {
      const name = name_of(load)
      assert.equal(load.bytes, name === 'Q' ? Q_BYTES : KV_BYTES, 'whole boxes, also the last')
      const row = 48 * (name === 'V' ? load.phase : name === 'Q' ? 0 : 2 * load.phase + +name[1])
      assert.deepEqual(load.coordinates, [0, row, 0, 0], `${name}, phase ${load.phase}`)
      assert.equal(load.source, `${name[0]}[${128 * row}]`)
    })
  }
})

test('the picture: phase, arrivals and bytes of each mbarrier after each step', () => {
  for (const key of Object.keys(data)) {
    const states = states_of(of_warp(logs[key], 0)), { columns } = data[key]
    assert.equal(columns.length, states.length, key)
    for (const step of columns.keys()) {
      if (key === 'expect-too-little' && step === 3) continue  // below
      for (const width of [WIDE, NARROW]) {
        const drawing = figure.draw(data, { ...figure.initial(data), broken: key, step }, width)
        assert_has(numbers_in(drawing), wanted_numbers(states[step]), `${key}, step ${step}, ${width} pixels`)
      }
    }
  }
})

test('half of the bytes: as many too many are there as the emulator says, and no wait ends', () => {
  const run = data['expect-too-little'], step = run.columns.length - 1
  const { text } = logs['expect-too-little'].hazards[0]
  const drawn = numbers_in(figure.draw(data, { broken: 'expect-too-little', step }, WIDE))
  assert.equal(drawn.bytes_Q, `${-text.match(/has (\d+) bytes more than it expects/)[1]}`)
  assert.equal(drawn.phase_Q, '0')
  assert.match(drawn.doing_0, /all wait at Q_full for parity 0, for Q, for ever$/)
  assert.deepEqual(run.warps, ['xxxx', '..xx', '..xx', '..xx'])
})

test('the wrong parity: the waits of tiles 1 and 2 pass at once, and the hazard stands at one of them', () => {
  const run = data['wrong-parity'], said = figure.describe(data, { broken: 'wrong-parity', step: 0 })
  const at_once = run.columns.flatMap(({ kind }, step) => {
    const { doing_0: doing } = numbers_in(figure.draw(data, { broken: 'wrong-parity', step }, WIDE))
    return / passes at once$/.test(doing) ? [[step, kind, doing.match(/K tile \d/)[0]]] : []
  })
  assert.deepEqual(at_once.map(([, ...more]) => more), [['wait', 'K tile 1'], ['wait', 'K tile 2']])
  const [{ text, count, kind }] = logs['wrong-parity'].hazards
  assert.equal(count, 2 * 128, 'all threads, two waits')
  assert.ok(at_once.some(([step]) => step === run.hazards[0].column))
  assert.ok(said.includes(text))
  const drawn = numbers_in(figure.draw(data, { broken: 'wrong-parity', step: 0 }, WIDE))
  assert.equal(drawn.hazard, `${kind}, ${count} times`)
  const red = figure.draw(data, { broken: 'wrong-parity', step: 0 }, WIDE).match(/<path class="e"/g)
  assert.equal(red.length, 2, 'two tiles are read, landed or not')
  assert.equal(logs[''].hazards.length, 0)
})

test('mbarriers on the page: steps, breaks, pointing', () => with_browser(async (open) => {
  const page = await open('/chapters/12_tma/', { width: 390 })
  const shown = await figure_on(page, 'mbarriers'), states = states_of(of_warp(logs[''], 0))
  for (const step of [0, 7, 13, states.length - 1]) {
    await shown.slide('step', step)
    assert_has(await shown.values(), wanted_numbers(states[step]), `step ${step}`)
  }
  await shown.point('copy:1:2')  // tile 4 of K, of which 28 rows exist
  assert.match(await shown.words(), /K tile 4, rows 192 to 239, of which 20 do not exist and come as zeros: c/)
  await shown.choose('broken', 'expect-too-little')
  assert.match(await shown.words(), /Step 3: all wait at Q_full/, 'the last step there is')
  await shown.choose('broken', 'wrong-parity')
  await shown.drag([0.2, 0.2], [0.99, 0.2])
  assert.match(await shown.words(), /Step 38: each warp stores/)
  assert.deepEqual(page.complaints, [])
}))
