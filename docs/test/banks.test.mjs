import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { output_of } from '../figures/programs.mjs'
import { figure_on, SITE, with_browser } from './browser.mjs'

test('banks: every width, column and remedy costs what ch04_banks says', () => with_browser(async (open) => {
  const { widths } = output_of(['ch04_banks', '--layout', '{json}'])
  const page = await open('/chapters/04_swizzling/')
  const figure = await figure_on(page, 'banks')
  for (const { row_bytes, orders } of widths) {
    await figure.slide('row_bytes', row_bytes)
    for (const column of new Set([0, row_bytes / 32 | 0, row_bytes / 16 - 1])) {
      await figure.slide('column', column)
      for (const [order, label] of [['swizzled', 'swizzled'], ['half_lines', 'XOR by half lines']]) {
        if (!orders[order]) continue
        await figure.choose('remedy', label)
        const shown = await figure.values()
        for (const panel of ['plain', 'padded', order]) {
          const cost = orders[panel].wavefronts[column]
          const where = `${panel}, ${row_bytes} bytes, chunk ${column}`
          assert.equal(parseInt(shown[`wavefronts_${panel}`]), cost, where)
          const hits = [...Array(8).keys()].map((slot) => +shown[`hits_${panel}_${slot}`])
          assert.equal(Math.max(...hits), cost, `the fullest bank, ${where}`)
        }
      }
    }
  }
  assert.deepEqual(page.complaints, [])
}))

test('banks: pointing, keys and a narrower row', () => with_browser(async (open) => {
  const page = await open('/chapters/04_swizzling/', { width: 390 })
  const figure = await figure_on(page, 'banks')
  await figure.point('plain:3,2')
  assert.match(await figure.words(),
    /row 3, chunk 2 is at address 416, banks 8 to 11, where rows 0, 1, 2, 4, 5, 6, 7 are too/)
  await figure.press('ArrowRight')
  assert.match(await figure.words(), /row 3, chunk 3 is at address 432/)
  await figure.press('ArrowDown')
  assert.match(await figure.words(), /row 4, chunk 3 is at address 560/)
  await figure.slide('row_bytes', 16)
  assert.match(await figure.words(), /Rows of 16 bytes, chunk 0/)
  assert.equal(parseInt(await figure.value('wavefronts_padded')), 2)
  await figure.forward('row_bytes')
  assert.match(await figure.words(), /Rows of 32 bytes/)
  assert.deepEqual(page.complaints, [])
}))

const skip = existsSync(join(SITE, 'ampere.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
test("banks: the kernels' own conflicts at the reader's shape, counted in the page", { skip }, () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open('/chapters/04_swizzling/', { width }), figure = await figure_on(page, 'banks')
    const shape = figure.root.locator('[data-control="shape"] input')
    for (const own of ['1,1,64,100,64', '1,2,64,64,128']) {
      await shape.fill(own)
      await figure.root.getByText(`Kernels at ${own}:`).waitFor()
      for (const [chapter, program] of [['03', 'ch03_basic_kernel'], ['04', 'ch04_swizzling']]) {
        const { profile } = output_of([program, '--device', 'emulator', '--shape', own, '--profile', '--json', '{json}'])
        const { shared_load_wavefronts: all, shared_load_wavefronts_ideal: ideal } = profile
        assert.equal(await figure.value(`kernel_${chapter}`), `chapter ${chapter}: ${all}, at best ${ideal}: × ${(all / ideal).toFixed(2)}`)
        assert.equal(all > ideal, chapter === '03', own)
      }
    }
    await shape.fill('1,1,64')
    await figure.says(/^shape 1,1,64: --shape 1,1,64: expected five numbers B,H,Lq,Lkv,D\. Rows of 128 bytes/)
    assert.deepEqual(page.complaints, [])
  }
}))
