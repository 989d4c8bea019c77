// Compares figures that compute something themselves with the programs: merge, the lazy maximum,
// the formula of a swizzle, the sizes of tiles, and the model of copies.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { compile, layout_of, wavefronts_of } from '../figures/banks_formula.js'
import ladder from '../figures/ladder.js'
import { lazily, LIMIT, shuffles_of } from '../figures/lazy_maximum.js'
import { KERNELS } from '../figures/levels.js'
import { merged } from '../figures/merge.js'
import { scores_in } from '../figures/online_softmax.js'
import { schedule } from '../figures/pipeline.js'
import { output_of, ROOT } from '../figures/programs.mjs'
import { ROWS } from '../figures/reuse.js'
import { data_of } from './states.mjs'

const near = (one, other, where) =>
  assert.ok(Math.abs(one - other) <= 1e-6 * Math.max(1e-30, Math.abs(other)),
    `${where}: ${one}, not ${other}`)
const source = (path) => readFileSync(join(ROOT, path), 'utf8')

test('online softmax: what is taken for six scores', () => {
  assert.deepEqual(scores_in('1, 2 3,−4, 0.5, 6').x, [1, 2, 3, -4, 0.5, 6])
  for (const words of ['', '1, 2', '1,2,3,4,5,x', '1,2,3,4,5,NaN',
    '1,2,3,4,5,1e9']) assert.ok(scores_in(words).problem, words)
})

test('merge: any cut gives the state of all keys', () => {
  for (const [name, { cuts, whole }] of Object.entries(data_of('merge').presets)) {
    assert.equal(Object.keys(cuts).length, 5)
    for (const [cut, [a, b]] of Object.entries(cuts)) {
      const both = merged(a, b)
      for (const key of ['m', 'l', 'o']) near(both[key], whole[key], `${name}, ${cut}: ${key}`)
      near(both.o / both.l, whole.output, `${name}, ${cut}: output`)
    }
  }
})

test('lazy maximum: as many shuffles as chapter 08 executes', () => {
  assert.match(source('chapters/08_fewer_instructions/attention.hpp'),
    new RegExp(`MAX_GROWTH = ${LIMIT}\\.0f`))
  for (const [scale, maxima] of Object.entries(data_of('lazy_maximum').maxima)) {
    assert.ok(maxima.length === 32 && maxima.flat().length === 256
      && maxima.flat().every(Number.isFinite), scale)
    const { profile } = output_of(['ch08_fewer_instructions', '--device', 'emulator', '--shape',
      '1,1,32,512,128',
      '--input-scale', scale, '--profile', '--json', '{json}'])
    // The other three warps have no queries. All their scores are 0, so they raise m only in the
    // first tile.
    assert.equal(shuffles_of(lazily(maxima, LIMIT)) + 3 * 16, profile.shuffle_instructions,
      `scores times ${scale}`)
  }
})

test('banks: the reader’s formula costs what ch04_banks counts for the same order', () => {
  for (const { row_bytes, orders } of data_of('banks').widths) {
    for (const [order, { addresses, wavefronts }] of Object.entries(orders)) {
      wavefronts.forEach((cost, chunk) => assert.equal(wavefronts_of(addresses, chunk), cost,
        `${order}, ${row_bytes}, ${chunk}`))
    }
    assert.deepEqual(layout_of('chunk', row_bytes), orders.plain,
      `${row_bytes}: the chunk itself is the plain order`)
  }
  const swizzled = data_of('banks').widths.find(({ row_bytes }) => row_bytes === 128).orders.swizzled
  assert.deepEqual(layout_of('chunk ^ row', 128), swizzled)
  assert.deepEqual(layout_of('(chunk ^ row) & 7', 128), swizzled)
  assert.equal(compile('2 + 3 * chunk ^ row << 1 % 2', ['row', 'chunk'])({ row: 5, chunk: 4 }),
    (2 + 3 * 4) ^ (5 << (1 % 2)))
  for (const [words, problem] of [['', /expected a number/], ['chunk ^', /expected a number/],
    ['chunk row', /operator/],
    ['process', /row or chunk/], ['(chunk', /expected \)/], ['chunk + row', /goes to 8/],
      ['0', /both go to 0/], ['chunk / 0', /goes to/]]) {
    assert.match(layout_of(words, 128).problem, problem, words)
  }
})

test('levels and reuse: rows of a block, keys of a tile, as the sources have them', () => {
  for (const [chapter, { program, block_q, block_kv }] of Object.entries(KERNELS)) {
    const text = source(`chapters/${program.slice(2)}/attention.hpp`)
      + source(`chapters/${program.slice(2)}/main.cpp`)
    const defaults = /BLOCK_Q = (\d+), int BLOCK_KV = (?:HEAD_DIM == 64 \? \d+ : )?(\d+),\s+int NUM_WARPS = (\d+)/
      .exec(text)
    assert.deepEqual(defaults.slice(1).map(Number), [block_q, block_kv, 4], `chapter ${chapter}`)
    const reuse = ROWS[`ch${chapter}`]
    if (reuse) assert.deepEqual([reuse.rows, reuse.block], [block_q / 4, block_q], `chapter ${chapter}`)
  }
})

test('the model of copies: hidden if and only if it takes no longer than the tiles between', () => {
  for (const stages of [1, 2, 3]) {
    for (let copy = 0.25; copy <= 4; copy += 0.25) {
      const { products, copies, total, stall } = schedule(stages, copy, 50)
      products.forEach(([start, end], i) => {
        assert.ok(start >= copies[i][1] && end === start + 1 && start >= (products[i - 1]?.[1] ?? 0),
          'in order, with its tile there')
        if (i >= stages) assert.ok(copies[i][0] >= products[i - stages][1], 'no buffer is overwritten in use')
      })
      assert.equal(stall <= copy + 1e-9, copy <= stages - 1,
        `${stages} stages, a copy of ${copy}: ${stall} stalled`)
      assert.ok(total >= 50 + copy)
    }
  }
})

test('the ladder: every chapter of it exists, and its numbers are the measurements’', () => {
  const data = data_of('ladder'), { rows } = output_of(['docs/measurements/h100/one_run.csv'])
  for (const [shape] of ladder.controls(data)[0].options) {
    const [B, H, L, , D] = shape.split(',')
    const drawing = ladder.draw(data, { ...ladder.initial(data), shape }, 720)
    const links = [...drawing.matchAll(/href="([^"]+)"/g)].map(([, href]) => href)
    const shown = [...drawing.matchAll(/data-name="(\w+)"[^>]*>([^<]*)</g)]
    assert.equal(shown.length, links.length + 3, 'three peers')
    links.forEach((href) => assert.ok(source(`${href}README.md`).startsWith('# '), href))
    const measured = rows.filter((row) => row.race === 'ladder' && !row.causal && row.shape === [B, H, L, D].join(' '))
    assert.equal(measured.length, shown.length)
    for (const [, name, words] of shown) {
      const { value } = measured.find(({ kernel }) => kernel === name.replace(/^\d\d$/, 'ch$&'))
      assert.equal(words.replace(/^.* /, ''), value.toFixed(/^\d/.test(words) ? 1 : 0), name)
    }
  }
})
