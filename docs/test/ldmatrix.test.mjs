import assert from 'node:assert/strict'
import { test } from 'node:test'

import figure from '../figures/ldmatrix.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const layout = output_of(['ch03_layout', '--layout', '{json}'])
const { loads } = layout
const show = (cell) => `(${cell.join(', ')})`
const place = ({ addresses }, [giver, position]) => [addresses[giver][0], addresses[giver][1] + position]

function check(shown, load, lane) {
  const address = load.addresses[lane]
  assert.equal(shown.address, address ? show(address) : 'nowhere: not used')
  load.receives[lane].forEach((halves, register) => {
    halves.forEach((half, i) => assert.equal(shown[`r${register}_${i}`], show(place(load, half)),
      `${load.name}, lane ${lane}, r${register}`))
    const [name, mma] = load.becomes[register]
    assert.match(shown[`r${register}_becomes`], new RegExp(`^= ${name}(, ${['first', 'second'][mma]} mma)?$`))
  })
  assert.equal(Object.keys(shown).filter((key) => /^r\d_\d$/.test(key)).length, 2 * load.matrices)
}

test('ldmatrix: every lane of every load points and receives as ch03_layout says', () => {
  const data = figure.data({ layout })
  for (const load of loads) {
    for (let lane = 0; lane < layout.lanes; ++lane) {
      check(numbers_in(figure.draw(data, { load: load.name, lane }, lane % 2 ? 720 : 360)), load, lane)
    }
  }
})

test('ldmatrix: x2 beside x4, with what chapters 05 and 06 count', () => {
  const outputs = Object.fromEntries(Object.entries(figure.sources)
    .map(([key, command]) => [key, output_of(command)]))
  const numbers = numbers_in(figure.draw(figure.data(outputs), { load: 'both', lane: 9 }, 720))
  for (const [name, chapter] of [['x2', '05'], ['x4', '06']]) {
    const { ldmatrix_instructions: loads, mma_instructions: products } = outputs[chapter].profile
    assert.equal(numbers[`count_${name}`], `chapter ${chapter}: ${loads} ldmatrix for ${products} mma`)
    assert.equal(numbers[`ratio_${name}`], `${(products / loads).toFixed(2)} mma for each ldmatrix`)
  }
})

test('ldmatrix: what the page shows of each load', () => with_browser(async (open) => {
  const page = await open(page_with('03_basic_kernel', 'ldmatrix'))
  const shown = await figure_on(page, 'ldmatrix')
  for (const load of loads) {
    await shown.choose('load', load.name)
    for (const lane of [6, 27]) {
      await shown.slide('lane', lane)
      check(await shown.values(), load, lane)
    }
    assert.equal(await shown.root.locator('.fa-canvas [data-focus^="row:"]').count(), 8 * load.matrices)
    assert.equal(await shown.root.locator('.fa-canvas [data-focus^="element:"]').count(), 64 * load.matrices)
  }
  for (const [place, load] of [[1, /^ldmatrix\.x2;/], [2, /^ldmatrix\.x2\.trans;/]]) {
    const other = await figure_on(page, 'ldmatrix', place)
    assert.match(await other.words(), load, `figure ${place + 1} starts as its picture`)
  }
  assert.deepEqual(page.complaints, [])
}))

test('ldmatrix: pointing and keys, and chapter 06 starts with its x4', () => with_browser(async (open) => {
  const page = await open('/chapters/06_ldmatrix_x4/', { width: 390 })
  const shown = await figure_on(page, 'ldmatrix')
  assert.match(await shown.words(),
    /^ldmatrix\.x4; .* Lane 17 points to row 9, column 0: row 1 of matrix 2\./)
  await shown.point('row:20')
  assert.equal(await shown.value('address'), '(12, 0)')
  await shown.press('ArrowRight')
  assert.equal(await shown.value('address'), '(12, 8)')
  await shown.choose('load', 'V x2.trans')
  await shown.point('element:4,5')
  assert.match(await shown.words(),
    /^Row 4, column 5: lane 4 points to its row, lane 22 has it in r0, low half\./)
  await shown.press('ArrowDown')
  assert.match(await shown.words(),
    /^Row 5, column 5: lane 5 points to its row, lane 22 has it in r0, high half\./)
  assert.deepEqual(page.complaints, [])
}))
