// Tests the roles of chapter 22: the order of each lane against the log and the formulas of the
// kernel, the waits against a separate list of what each waits for, the buffers, the broken runs
// against the program's output.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'

import figure from '../figures/backward_roles.js'
import { conflicts_of } from '../figures/backward_roles_log.js'
import { NARROW, WIDE } from '../figures/draw.js'
import { BIN, output_of } from '../figures/programs.mjs'
import { figure_on, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources)
  .map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const TILES = 4, CONSUMERS = [2, 3], STAGES = 2
const BROKEN = ['dq-overwritten', 'reduce-before-landed']
const drawn = (broken, step, width = WIDE) => numbers_in(figure.draw(data, { broken, step }, width))
const find = (run, lane, kind, more = {}) => run.lanes[lane].steps.filter((step) => step.kind === kind
  && Object.entries(more).every(([key, value]) => step[key] === value))

// The mbarriers are 8 bytes each: full and empty of Q's ring, then of dO's (kernel.hpp, Layout).
function mbarrier_at(log, mbarrier) {
  const first = log.events.find(({ kind }) => kind === 'mbarrier').mbarrier
  return ['Q', 'dO'].flatMap((matrix) => ['full', 'empty'].flatMap((what) =>
    [0, 1].map((i) => `${matrix} ${i} ${what}`)))[(mbarrier - first) / 8]
}

test('the log: which phase the producer and the consumers wait for, and where they arrive', () => {
  for (const [broken, log] of Object.entries(logs)) {
    const seen = (warp) => log.events.filter((event) => event.warp === warp
      && ['mbarrier_wait', 'mbarrier_arrive'].includes(event.kind))
      .map(({ kind, mbarrier, phase }) => `${kind.slice(9)} ${mbarrier_at(log, mbarrier)} ${phase}`)
    const tiles = [...Array(TILES).keys()].map((n) => [n % STAGES, Math.floor(n / STAGES)])
    assert.deepEqual(seen(0), tiles.flatMap(([i, phase]) => ['Q', 'dO'].flatMap((matrix) =>
      [`wait ${matrix} ${i} empty ${phase - 1}`, `arrive ${matrix} ${i} full ${phase}`])), broken)
    for (const warp of [4, 8]) {
      assert.deepEqual(seen(warp), tiles.flatMap(([i, phase]) => [`wait Q ${i} full ${phase}`, `wait dO ${i} full ${phase}`,
        `arrive dO ${i} empty ${phase}`, `arrive Q ${i} empty ${phase}`]), `${broken}, warp ${warp}`)
    }
  }
})

test('the lanes: each has the steps of its program in order, and none begins before the last one ends', () => {
  for (const [broken, run] of Object.entries(data)) {
    const order = (lane) => run.lanes[lane].steps.map(({ kind, product, half, names }) =>
      [kind, product ?? half ?? names?.map((name) => name.slice(0, -1)).join('+')].filter((word) => word !== undefined).join(' '))
    const tile = (n) => ['full', 'issue S', 'full', 'issue dP', 'products S', 'P', 'issue dV', 'products dP', 'dS',
      'store_dS', 'meet', 'issue dQ', 'issue dK', 'products dV+dQ', ...n ? ['read'] : [], 'store_dQ', 'products dK']
    for (const lane of CONSUMERS) {
      assert.deepEqual(order(lane).map((word) => word.replace(/^read \d/, 'read')),
        [...[0, 1, 2, 3].flatMap(tile), 'meet', 'store'], broken)
    }
    const add = (half) => broken === BROKEN[1] ? [`add ${half}`, `stored ${half}`] : [`stored ${half}`, `add ${half}`]
    assert.deepEqual(order(1), [...[0, 1, 2, 3].flatMap((n) => [...add(0), ...add(1),
      ...n === 3 || broken === BROKEN[0] ? [] : ['engine 0', 'engine 1']]), 'engine all'], broken)
    for (const { steps } of run.lanes) {
      steps.slice(1).forEach((step, i) => assert.ok(step.from === steps[i].to + 1, `${broken}: ${step.kind}`))
    }
  }
})

test('the waits: none is over before that for which it waits', () => {
  for (const [broken, run] of Object.entries(data)) {
    let checked = 0
    const after = (wait, others, count) => {
      assert.equal(others.length, count, `${broken}: ${JSON.stringify(wait)}`)
      for (const { to } of others) assert.ok(to <= wait.to, `${broken}: ${JSON.stringify(wait)}`)
      checked++
    }
    const consumers = CONSUMERS.flatMap((lane) => run.lanes[lane].steps)
    for (const lane of CONSUMERS) {
      for (const wait of find(run, lane, 'full')) after(wait, find(run, 0, 'ask', { buffer: wait.buffer, phase: wait.phase }), 1)
      for (const wait of find(run, lane, 'read')) {
        assert.equal(wait.half, lane - 2)
        after(wait, run.lanes[1].steps.filter(({ frees }) => frees?.includes(wait.half)).slice(wait.tile, wait.tile + 1), 1)
      }
      find(run, lane, 'products').forEach((wait) => after(wait, run.lanes[lane].products.filter(({ product, tile, known }) =>
        wait.names.includes(`${product}${tile}`) && known === wait.to), wait.names.length))
      // Both consumers have come to the barrier before either continues.
      find(run, lane, 'meet').forEach((wait, nth) => after(wait, find(run, 5 - lane, 'meet').slice(nth, nth + 1)
        .map(({ from }) => ({ to: from - 1 })), 1))
    }
    for (const wait of find(run, 0, 'empty')) {
      after(wait, consumers.filter(({ buffer, arrives }) => buffer === wait.buffer && arrives === wait.phase),
        wait.phase < 0 ? 0 : CONSUMERS.length)
    }
    for (const wait of find(run, 1, 'stored')) after(wait, find(run, wait.half + 2, 'store_dQ', { tile: wait.tile }), 1)
    assert.equal(checked, 2 * (8 + 3 + 16 + 5) + 8 + 8, broken)
  }
})

test('the products: one is in flight while P, dS and dQ are made, and the tensor cores do one at a time', () => {
  const run = data['']
  for (const lane of CONSUMERS) {
    for (let tile = 0; tile < TILES; tile++) {
      for (const [kind, under] of [['P', 'dP'], ['dS', 'dV'], ['store_dQ', 'dK']]) {
        const [{ from, to }] = find(run, lane, kind, { tile })
        const each = run.lanes[lane].products.find((one) => one.product === under && one.tile === tile)
        assert.ok(each.given < from && to < each.known, `consumer ${lane - 2}, ${kind}, tile ${tile}`)
        assert.match(drawn('', from)[`doing_${lane}`], new RegExp(`; in flight ${under}${tile}$`))
      }
    }
  }
  const all = CONSUMERS.flatMap((lane) => run.lanes[lane].products).sort((one, other) => one.from - other.from)
  assert.equal(all.length, 2 * 5 * TILES)
  all.slice(1).forEach((product, i) => assert.ok(product.from > all[i].to))
  for (const { given, from, to, known } of all) assert.ok(given < from && to < known)
})

test('the buffers: every tile in its place, one after the other, and read while it is there', () => {
  const run = data['']
  const wanted = { 'Q 0': [0, 2], 'Q 1': [1, 3], 'dO 0': [0, 2], 'dO 1': [1, 3], 'dS 0': [0, 2], 'dS 1': [1, 3],
    'dQ half 0': [0, 1, 2, 3], 'dQ half 1': [0, 1, 2, 3] }
  assert.deepEqual(Object.fromEntries(run.buffers.map(({ name, fills }) => [name, fills.map(({ tile }) => tile)])), wanted)
  for (const { name, fills } of Object.values(data).flatMap(({ buffers }) => buffers)) {
    fills.slice(1).forEach((fill, i) => assert.ok(fill.from > fills[i].to, name))
  }
  for (const { name, matrix, fills } of run.buffers) {
    for (const { from, to, tile, reads } of fills) {
      assert.equal(reads.length, { Q: 4, dO: 4, dS: 2, dQ: 1 }[matrix], name)
      for (const read of reads) assert.ok(from < read[0] && read[1] <= to, `${name}, tile ${tile}: ${read}`)
    }
    assert.deepEqual(conflicts_of({ fills }), [])
  }
})

test('broken: the program’s hazard, at the add and the store, and in words', () => {
  for (const broken of BROKEN) {
    const [program, ...words] = figure.sources[broken].filter((word) => !['--events', '{json}'].includes(word))
    const { stdout, status } = spawnSync(join(BIN, program), words, { encoding: 'utf8' })
    const run = data[broken], [{ kind, at, text, accesses }] = run.hazards
    assert.equal(status, 1)
    const printed = stdout.replace(/\n +/g, ' ')  // the program wraps its lines
    assert.ok(printed.includes(text) && figure.describe(data, { broken, step: 0 }).includes(text), text)
    assert.equal(drawn(broken, 0).hazard, `${kind}, ${accesses} times`)
    const steps = Object.fromEntries(at.map(([lane, step]) => [lane, run.lanes[lane].steps[step]]))
    const consumer = +Object.keys(steps).find((lane) => lane > 1), half = consumer - 2
    assert.deepEqual([steps[1].kind, steps[1].tile], ['add', 0])
    assert.deepEqual([steps[consumer].kind, steps[consumer].tile], ['store_dQ', broken === BROKEN[0] ? 1 : 0])
    const said = broken === BROKEN[0] ? [consumer, steps[consumer], 'stores dQ1 while dQ0 may be read']
      : [1, steps[1], `issues the addition of half ${half} of dQ0, not stored yet`]
    assert.ok(drawn(broken, said[1].from)[`doing_${said[0]}`].includes(said[2]))
    for (const buffer of run.buffers.slice(6)) {
      const found = conflicts_of(buffer)
      assert.ok(found.length > 0, `${broken}, ${buffer.name}`)
      for (const [from, to] of found) assert.ok(from <= to && to < run.end)
    }
  }
  assert.deepEqual(data[''].hazards, [])
})

test('narrow: the same words as wide, none of them cut', () => {
  for (const [broken, { end }] of Object.entries(data)) {
    for (let step = 0; step < end; step++) {
      const [wide, narrow] = [WIDE, NARROW].map((width) => drawn(broken, step, width))
      for (let lane = 0; lane < 4; lane++) {
        const [one, other] = [wide, narrow].map((words) => words[`doing_${lane}`].replace(/^.*?: /, ''))
        assert.equal(other, one, `${broken}, step ${step}`)
      }
    }
  }
})

test('backward_roles on the page: steps, breaks, pointing', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open('/chapters/22_backward_on_hopper/4-loop.html', { width })
    const shown = await figure_on(page, 'backward_roles')
    for (const step of [0, 15, 120]) {
      await shown.slide('step', step)
      assert.deepEqual(await shown.values(), drawn('', step, width < 500 ? NARROW : WIDE))
    }
    await shown.slide('step', 15)
    assert.match(await shown.words(), /consumer 0 computes dS0; in flight dV0; consumer 1 waits for dP0/)
    await shown.point('fill:0:0')
    assert.match(await shown.words(), /Q0 takes Q 0 from step 1 to 34\. It is read by S0 of consumer 0 in steps 4 to 6/)
    await shown.choose('broken', 'dq-overwritten')
    await shown.slide('step', 57)
    assert.match(await shown.words(), /consumer 0 stores dQ1 while dQ0 may be read.*Found: .*overwrite_while_read/)
    await shown.drag([0.3, 0.2], [0.6, 0.2])
    assert.doesNotMatch(await shown.words(), /Step 57/)
    assert.deepEqual(page.complaints, [])
  }
}))
