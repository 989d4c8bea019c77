import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import { output_of } from '../figures/programs.mjs'
import profile from '../figures/profile.js'
import { figure_on, page_with, SITE, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const CHAPTERS = ['03', '04', '05', '06', '07', '08']

// Returns { time: '2.508', total: '26.13', mio_throttle: '12.14', … } as tables.py prints it for a
// chapter.
function printed_of(chapter) {
  const lines = output_of(['docs/measurements/tables.py', 'profile', chapter]).split('\n')
  const last = (words) => lines.find((line) => line.includes(words)).split(/ +/).at(-1)
  const stalls = lines.flatMap((line) => /\((\w+)\)  /.exec(line)?.[1] ?? [])
  return { time: last('time under the profiler'), total: last('warp-cycles for each'),
    stalls: Object.fromEntries(stalls.map((stall) => [stall, last(`(${stall})`)])) }
}
const printed = Object.fromEntries(CHAPTERS.map((chapter) => [chapter, printed_of(chapter)]))

function compare(numbers, chapter) {
  for (const [stall, value] of Object.entries(printed[chapter].stalls)) {
    assert.equal(numbers[`cycles_${stall}`], value, `${stall} of chapter ${chapter}`)
  }
  const all = (what) => Object.entries(numbers).filter(([name]) => name.startsWith(what))
    .reduce((sum, [, value]) => sum + parseFloat(value), 0)
  assert.ok(Math.abs(all('cycles_') - printed[chapter].total) < 0.04, 'the parts are the whole')
  assert.ok(Math.abs(all('ms_') - printed[chapter].time) < 0.004, 'the parts are the whole time')
  assert.ok(Math.abs(all('percent_') - 100) < 4)
}

test('profile: the numbers of the tables, every chapter', () => {
  const data = profile.data({ profile: output_of(profile.sources.profile) })
  for (const { stalls } of Object.values(printed)) assert.equal(Object.keys(stalls).length, 6)
  for (const width of [WIDE, NARROW]) {
    for (const chapter of CHAPTERS) {
      const drawing = profile.draw(data, { from: 'ch03', focus: `ch${chapter}:wait`, shape: '' }, width)
      const numbers = numbers_in(drawing)
      compare(numbers, chapter)
      for (const one of CHAPTERS) assert.equal(numbers[`time_ch${one}`], `${printed[one].time} ms`)
    }
  }
})

test('profile: pointing, keys and the zoom on the site', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('08_fewer_instructions', 'profile'), { width })
    const figure = await figure_on(page, 'profile')
    await figure.point('ch04:long_scoreboard')
    compare(await figure.values(), '04')
    const { stalls, total } = printed['04']
    assert.match(await figure.words(),
      new RegExp(`^Chapter 04, global memory: copies: ${stalls.long_scoreboard} of the ${total} clocks`))
    await figure.press('ArrowDown')
    assert.match(await figure.words(), /^Chapter 05/)
    compare(await figure.values(), '05')
    await figure.choose('from', '03 to 08')
    await figure.point('ch03:mio_throttle')
    compare(await figure.values(), '03')
    await figure.choose('from', '04 to 08')
    assert.match(await figure.words(), /^Chapter 04/)
    assert.deepEqual(page.complaints, [])
  }
}))

const skip = existsSync(join(SITE, 'ampere.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("profile: counters of the reader's own shape", { skip }, () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('08_fewer_instructions', 'profile'), { width }), figure = await figure_on(page, 'profile')
    const shape = figure.root.locator('[data-control="shape"] input')
    for (const [own, chapter, program] of [['1,1,128,192,64', '08', 'ch08_fewer_instructions'], ['1,1,64,100,128', '05', 'ch05_pipelining']]) {
      await shape.fill(own)
      await figure.point(`ch${chapter}:wait`)
      await figure.says(new RegExp(`^The emulator counts at ${own}: mma \\d+, .*\\. Chapter ${chapter}`))
      const { profile } = output_of([program, '--device', 'emulator', '--shape', own, '--profile', '--json', '{json}'])
      const counts = Object.entries(await figure.values()).filter(([name]) => /^(count|before)_/.test(name))
      assert.equal(counts.length, 14)
      for (const [name, value] of counts) {
        const [, what, key] = /^(count|before)_(.*)$/.exec(name)
        assert.equal(+value, (what === 'count' ? profile : profile.previous)[key], name)
      }
    }
    await shape.fill('1,1,64')
    await figure.says(/^Shape 1,1,64: --shape 1,1,64: expected five numbers B,H,Lq,Lkv,D\. Chapter 05/)
    compare(await figure.values(), '05')
    assert.deepEqual(page.complaints, [])
  }
}))
