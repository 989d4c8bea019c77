import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import timeline from '../figures/timeline.js'
import { figure_on, SITE, with_browser } from './browser.mjs'

const LABELS = { ch04: '04', ch05: '05', stages3: '05, three stages', ch07: '07', ch08: '08' }
const log_of = (key) => output_of(timeline.sources[key])
const of_warp = ({ events }, warp) => events.filter((event) => event.warp === warp)
const steps_of = (events, kind) => events.filter((event) => event.kind === kind).map(({ step }) => step)

// Returns, for each group that copied something, the mma while it is in flight, from the log alone.
function copies_of(events) {
  const mma = steps_of(events, 'mma')
  const issued = events.filter(({ kind }) => kind === 'copy_issue')
  return [...new Set(issued.map(({ group }) => group))].map((group) => {
    const first = issued.find((event) => event.group === group).step
    const last = events.find((event) => event.kind === 'land' && event.group === group)?.step ?? Infinity
    return mma.filter((step) => first < step && step < last).length
  })
}

test('timeline: mma beside each copy, and hazards of broken kernels', () => with_browser(async (open) => {
  const page = await open('/chapters/05_pipelining/')
  const figure = await figure_on(page, 'timeline')
  for (const key of Object.keys(timeline.sources)) {
    const [chapter, broken] = key.split(' '), log = log_of(key), counts = copies_of(of_warp(log, 0))
    await figure.choose('chapter', LABELS[chapter])
    await figure.choose('broken', broken || 'none')
    for (const [i, count] of counts.entries()) {
      const found = figure.root.locator(`.fa-canvas [data-name="mma_${i}"]`)
      if (await found.count()) assert.equal(parseInt(await found.textContent()), count, `${key}, copy ${i}`)
      else assert.ok(i < 2, `${key}, copy ${i}: only the first two are too close for a label`)
    }
    if (!broken) {
      const usual = parseInt((await figure.value('usual')).match(/\d+/)[0])
      const most = counts.filter((count) => count === usual).length * 2 > counts.length
      assert.ok(most, `${key}: most copies have ${usual}`)
    }
    assert.equal(await figure.root.locator('[data-name^="hazard_"]').count(), log.hazards.length, key)
    for (const [i, { kind, where, count }] of log.hazards.entries()) {
      assert.equal(await figure.value(`hazard_${i}`), `${kind} at ${where}, ${count} times`, key)
    }
  }
  assert.deepEqual(page.complaints, [])
}))

test('timeline: what a warp does when, and what is in flight then', () => with_browser(async (open) => {
  const page = await open('/chapters/07_better_pipelining/')
  const figure = await figure_on(page, 'timeline')
  const events = of_warp(log_of('ch07 '), 0).filter(({ kind }) => kind !== 'land')
  const words = {
    copy_issue: /cp\.async of/, commit: /commits/, wait: /wait_group \d: /, barrier: /barrier \d+ of/,
    mma: /mma, (S|O) /, ldmatrix: /ldmatrix of [QKV] tile/, shuffle: /shuffle/, store_global: /stores O/,
  }
  for (let step = 0; step < events.length; step += 1 + step % 7) {
    await figure.slide('step', step)
    assert.match(await figure.value('doing'), words[events[step].kind], `instruction ${step}`)
  }
  const wait = events.findLast(({ kind }) => kind === 'wait')
  await figure.slide('step', wait.step)
  assert.match(await figure.value('doing'),
    new RegExp(`wait_group ${wait.pending_groups}: V tile 3 has landed`))
  assert.equal(await figure.value('in_flight'), 'in flight: nothing')
  await figure.back('step')
  assert.equal(await figure.value('in_flight'), 'in flight: V3')
  assert.match(await figure.value('doing'), new RegExp(`^instruction ${wait.step - 1} of warp 0`))
  await figure.forward('step')
  assert.match(await figure.value('doing'), new RegExp(`^instruction ${wait.step} of warp 0`))
}))

test('timeline: pointing, dragging and keys', () => with_browser(async (open) => {
  const page = await open('/chapters/05_pipelining/', { width: 390 })
  const figure = await figure_on(page, 'timeline')
  const log = log_of('ch05 '), mine = of_warp(log, 0)
  const copy = mine.find(({ source }) => source === 'K[2048]')  // tile 1: 32 keys of 64
  const landed = mine.find(({ kind, group }) => kind === 'land' && group === copy.group)
  await figure.point('copy:3')
  assert.match(await figure.words(), new RegExp(`K tile 1: first cp.async at instruction ${copy.step}, `
    + `waited for at ${landed.step}, 32 mma meanwhile\\. `
    + `To K buffer 1, bytes ${copy.shared_address} to ${copy.shared_address + 4095}`))
  await figure.press('ArrowRight')
  assert.match(await figure.words(), /K tile 3: first cp.async/)
  await figure.drag([0.3, 0.55], [0.99, 0.55])
  assert.match(await figure.words(), /is at instruction 6\d\d/)
  const barriers = steps_of(mine, 'barrier')
  await figure.slide('step', barriers[4] + 1)
  assert.match(await figure.value('others'), /between barriers 5 and 6/)
  await figure.choose('broken', 'missing-barrier')
  await figure.point('hazard:1')
  const { hazards } = log_of('ch05 missing-barrier')
  const { thread, step, text } = hazards[1]
  assert.match(await figure.words(), new RegExp(`Warp ${thread >> 5} is at instruction ${step}: cp\\.async`))
  assert.ok((await figure.words()).includes(text))
  await figure.choose('chapter', '04')  // has no barrier at that place, but has the break
  assert.match(await figure.words(), /Chapter 04, broken by missing-barrier/)
  await figure.choose('chapter', '05')
  await figure.choose('broken', 'wait-too-few')
  await figure.choose('chapter', '04')  // has only one wait with an effect
  assert.match(await figure.words(), /Chapter 04, as it is/)
  assert.deepEqual(page.complaints, [])
}))

const skip = existsSync(join(SITE, 'ampere.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("timeline: the reader's own shape, run in the page", { skip }, () => with_browser(async (open) => {
  const page = await open('/chapters/07_better_pipelining/')
  const figure = await figure_on(page, 'timeline'), shape = figure.root.locator('[data-control="shape"] input')
  for (const [own, broken] of [['1,1,64,192,64', ''], ['1,1,128,192,128', 'missing-barrier']]) {
    await figure.choose('broken', broken || 'none')
    await shape.fill(own)
    await figure.says(/^Warp 0 is at/)
    const [, , queries, keys, dim] = own.split(',')
    const words = await figure.words()
    assert.match(words, new RegExp(`${queries} queries, ${keys} keys, D = ${dim}`))
    const log = output_of(['ch07_better_pipelining', '--device', 'emulator', '--shape', own,
      ...broken ? ['--break', broken, '--schedule-seed', '7'] : [], '--events', '{json}'])
    const mma = steps_of(of_warp(log, 0), 'mma').length
    assert.match(words, new RegExp(`instructions and ${mma} mma each`))
    assert.equal(await figure.root.locator('[data-name^="hazard_"]').count(), log.hazards.length)
  }
  await shape.fill('1,1,64,192')
  await figure.says(/^shape 1,1,64,192: --shape 1,1,64,192: expected five numbers B,H,Lq,Lkv,D\. This is the recorded run\./)
  await shape.fill('')
  await figure.says(/^Warp 0 is at/)
  assert.deepEqual(page.complaints, [])
}))
