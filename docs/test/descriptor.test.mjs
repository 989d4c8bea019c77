// Tests chapter 13's descriptors: the bits against the log, the chunks that are read against the
// formulas of the kernel, and the chunks that the broken kernel reads against the program's result.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import figure from '../figures/descriptor.js'
import { is_right, reads_of } from '../figures/descriptor_log.js'
import { NARROW, WIDE } from '../figures/draw.js'
import { BIN, output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources)
  .map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const operands = (log, major) => log.events.filter(({ kind, warp, b }) => kind === 'wgmma' && warp === 0 && b)
  .map(({ b }) => b).filter((b) => b.major === major)
const LISTS = { K: operands(logs.intact, 'k'), V: operands(logs.intact, 'mn'),
  broken: operands(logs.broken, 'mn') }
const drawn = (operand, step, more = {}, width = WIDE) =>
  numbers_in(figure.draw(data, { operand, step, ...more }, width))

test('the bits and what they say are those of the log', () => {
  for (const [operand, list] of Object.entries(LISTS)) {
    assert.equal(list.length, 8)
    list.forEach(({ descriptor, shared_address }, step) => {
      for (const width of [WIDE, NARROW]) {
        const numbers = drawn(operand, step, {}, width)
        assert.equal(numbers.descriptor, descriptor)
        const bits = ['swizzle', 'stride', 'leading', 'start'].map((name) => numbers[`bits_${name}`]).join('')
        assert.equal(BigInt(`0b${bits}`), BigInt(descriptor), `${operand}, ${step}`)
        const offset = shared_address - list[0].shared_address
        assert.match(numbers.start, new RegExp(`${operand[0] === 'K' ? 'K' : 'V'} \\+ ${offset}$`))
      }
    })
  }
  const { leading, stride, swizzle } = drawn('V', 0)
  assert.deepEqual([leading, stride, swizzle], ['16 × 1024: 16384 bytes to the next 64 columns',
    '16 × 64: 1024 bytes to the next 8 lines', '1: lines of 128 bytes, chunks by row % 8'])
  assert.equal(drawn('broken', 0).leading, '16 × 1: 16 bytes to the next 64 columns')
})

test('all eight wgmma read the tile once: 16 columns of K, 16 keys of V', () => {
  for (const operand of ['K', 'V']) {
    const all = LISTS[operand].flatMap((_, step) =>
      reads_of(data[operand], step).map((read) => ({ ...read, step })))
    assert.equal(new Set(all.map(({ panel, row, place }) => `${panel},${row},${place}`)).size, 2 * 128 * 8)
    assert.equal(all.length, 2 * 128 * 8)
    for (const { panel, row, place, chunk, step, for: wanted } of all) {
      const column = 64 * panel + 8 * chunk
      assert.equal(Math.floor((operand === 'K' ? column : row) / 16), step)
      assert.equal(place, chunk ^ row & 7)
      assert.deepEqual(wanted, [row, panel, chunk])
    }
  }
  const numbers = drawn('K', 2, { focus: 'group:0:3' })  // rows 24 to 31
  assert.equal(numbers.reads_0, 'wgmma 3 of 8 reads columns 32 to 47 of all 128 keys')
  assert.deepEqual([0, 1, 2, 3, 4, 5, 6, 7].map((place) => numbers[`chunk_5_${place}`]).join(''), '54761032')
})

// Writes V with equal rows, given the values of its columns, as a .npy file of float32, [128, 128].
function save(file, columns) {
  const words = "{'descr': '<f4', 'fortran_order': False, 'shape': (128, 128), }"
  const head = Buffer.alloc(128, ' ')
  head.write('\x93NUMPY\x01\x00', 'latin1')
  head.writeUInt16LE(118, 8)
  head.write(words, 10)
  head.write('\n', 127)
  const rows = Float32Array.from({ length: 128 * 128 }, (_, i) => columns[i % 128])
  writeFileSync(file, Buffer.concat([head, Buffer.from(rows.buffer)]))
}

test('the broken descriptor: where V has the same in both places, the program’s result is right', () => {
  // Results for a chunk of columns: those of the same number must be equal, and all others
  // different.
  const like = Array.from({ length: 16 }, (_, chunk) => chunk)
  const root = (chunk) => like[chunk] === chunk ? chunk : root(like[chunk])
  LISTS.broken.forEach((_, step) => {
    for (const { panel, chunk, for: [, to, at] } of reads_of(data.broken, step)) {
      like[root(8 * to + at)] = root(8 * panel + chunk)
    }
  })
  const value = (column) => (root(column >> 3) * 29 + (column & 7) * 11) % 64 / 16 - 2
  const alike = Array.from({ length: 128 }, (_, column) => value(column))
  assert.ok(new Set(like.map((_, chunk) => root(chunk))).size >= 7, 'not all alike')
  const folder = mkdtempSync(join(tmpdir(), 'descriptor-')), file = join(folder, 'v.npy')
  const other = join(folder, 'qk.npy')
  const exit = (columns, ...words) => {
    save(file, columns)
    return spawnSync(join(BIN, 'ch13_wgmma'),
      ['--device', 'emulator', '--q', other, '--k', other, '--v', file, ...words]).status
  }
  try {
    save(other, alike.map((x) => x / 4))
    assert.equal(exit(alike), 0)
    assert.equal(exit(alike, '--break', 'k-descriptor-for-v'), 0, 'the picture says where each column comes from')
    for (const column of [40, 100, 127]) {
      const changed = alike.with(column, alike[column] + 1)
      assert.equal(exit(changed), 0)
      assert.equal(exit(changed, '--break', 'k-descriptor-for-v'), 1, `column ${column}`)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
  const wrong = reads_of(data.broken, 2).filter((read) => !is_right(read))
  assert.equal(wrong.length, 128, 'the second half of all reads')
  const said = 'for columns 64 to 119 it finds columns 8 to 63, for 120 to 127 chunk 0 of the next line'
  assert.equal(drawn('broken', 2).reads_1, said)
  assert.equal(drawn('V', 2).reads_1, undefined)
})

test('descriptors on the page: operands, steps, pointing', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('13_wgmma', 'descriptor_k'), { width })
    const shown = await figure_on(page, 'descriptor')
    for (const step of [0, 5, 7]) {
      await shown.slide('step', step)
      assert.equal((await shown.values()).descriptor, LISTS.K[step].descriptor)
    }
    await shown.point('group:0:4')  // back to the first step there
    assert.match(await shown.words(),
      /wgmma 1 of 8 reads columns 0 to 15 .* rows 32 to 39 in panel 0 it reads chunks 0, 1\./)
    await shown.choose('operand', 'V')
    assert.equal((await shown.values()).descriptor, LISTS.V[0].descriptor)
    await shown.choose('operand', 'V, k-descriptor-for-v')
    await shown.slide('step', 7)
    await shown.point('group:1:0')
    assert.match(await shown.words(), /rows 0 to 7 in panel 1 it reads chunk 0\./, 'the line behind the last')
    assert.deepEqual(page.complaints, [])
  }
}))
