// Compares the figure of chapter 16's maximum on demand with the event log and the rule of the
// kernel, and for known scores with the scores.
import { without_second_votes } from '../figures/overlap_log.js'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure, { chosen_scores, JUMPS } from '../figures/on_demand.js'
import { cell, count_of, rounds_of, said_yes } from '../figures/on_demand_log.js'
import { output_of, ROOT } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources)
  .map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const TILES = 40, KEYS = 128, D = 64, WARPS = [0, 1, 2, 3], FIRST = 4  // warps 0 to 3 are the producer's
const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i)
const drawn = (state, width = WIDE) => numbers_in(figure.draw(data, state, width))

test('the rounds: they end at 4, 8, 16, 24, 32, and a moved maximum makes the next one exact', () => {
  for (const [name, run] of Object.entries(data)) {
    assert.equal(count_of(run), TILES, name)
    assert.deepEqual(run.votes, [4, 8, 16, 24, 32], name)
    assert.deepEqual(run.masked, name === 'jumps' ? [TILES - 1] : [], name)
    const rounds = rounds_of(run)
    assert.deepEqual(rounds, [[1, 4], [4, 8], [8, 16], [16, 24], [24, 32], [32, name === 'jumps' ? 39 : 40]], name)
    const moved = ([from, to]) => range(from, to).some((tile) => WARPS.some((warp) => cell(run, warp, tile).moved))
    rounds.forEach(([from, to], i) => {
      const exact = i > 0 && moved(rounds[i - 1])
      assert.equal(i > 0 && said_yes(run, from), exact, `${name}, round ${i}`)
      for (const tile of range(from, to)) {
        for (const warp of WARPS) assert.equal(cell(run, warp, tile).done === 'exact', exact, `${name}, tile ${tile}`)
      }
    })
    // The first tile raises every maximum from -inf. The masked tile is exact after either kind of
    // round.
    for (const warp of WARPS) {
      assert.deepEqual(cell(run, warp, 0), { done: 'exact', moved: true }, name)
      for (const tile of run.masked) assert.equal(cell(run, warp, tile).done, 'exact', name)
    }
  }
})

test('the log: what is done again is the whole product of the warp, and moves a maximum', () => {
  for (const [name, log] of Object.entries(logs)) {
    assert.deepEqual(log.hazards, [])
    for (const warp of WARPS) {
      const cells = range(0, TILES).map((tile) => cell(data[name], warp, tile))
      const again = cells.filter(({ done }) => done === 'again')
      assert.ok(again.every(({ moved }) => moved), name)
      assert.ok(cells.every(({ done, moved }) => done !== 'demand' || !moved), name)
      const mine = without_second_votes(log.events.filter((event) => event.block === 0 && event.warp === FIRST + warp))
      const count = (kind) => mine.filter((event) => event.kind === kind).length
      assert.equal(count('mma'), again.length * (D / 16) * (KEYS / 8), `${name}, warp ${warp}`)
      // one vote per tile, another for each recomputed tile, one on the finished O
      assert.equal(count('vote'), TILES + again.length + 1, `${name}, warp ${warp}`)
    }
  }
})

// Applies the rule to the scores: m changes where the maximum of a tile is computed and exceeds it
// by more than 2^8, and on demand where a lane's sum reaches 2^50. A lane has columns 2i and 2i + 1
// of each 8 columns of a row.
test('where the scores are known: which warp does which tile again, and where maxima move', () => {
  const scores = chosen_scores(), m = Array(64).fill(-Infinity), LOG2E = Math.LOG2E
  for (const [tile, query, score] of JUMPS) assert.equal(scores[tile * KEYS + 50][query], score)
  const expected = WARPS.map(() => '')
  let exact = true, moved = false
  for (const tile of range(0, TILES)) {
    if (data.jumps.votes.includes(tile)) [exact, moved] = [moved, false]
    if (tile === 1) [exact, moved] = [false, false]
    if (tile === TILES - 1) exact = true
    const rows = scores.slice(tile * KEYS, (tile + 1) * KEYS)
    for (const warp of WARPS) {
      const queries = range(16 * warp, 16 * warp + 16), best = (query) => Math.max(...rows.map((row) => row[query]))
      const grew = queries.some((query) => !((best(query) - m[query]) * LOG2E <= 8))
      const sum = (query, lane) => rows.reduce((all, row, key) =>
        all + (key % 8 >> 1 === lane ? 2 ** ((row[query] - m[query]) * LOG2E) : 0), 0)
      const again = !exact && queries.some((query) => range(0, 4).some((lane) => sum(query, lane) >= 2 ** 50))
      const raised = (exact || again) && grew
      if (raised) queries.forEach((query) => { m[query] = Math.max(m[query], best(query)) })
      moved ||= raised
      const letter = exact ? 'x' : again ? 'a' : 'd'
      expected[warp] += raised ? letter.toUpperCase() : letter
    }
  }
  assert.deepEqual(data.jumps.warps, expected)
})

test('what the figure tells one kind of tile by stands so in the source', () => {
  const source = readFileSync(join(ROOT, 'chapters/16_maximum_on_demand/attention.hpp'), 'utf8')
  const in_order = (from, ...calls) => calls.reduce((at, call) => {
    const next = source.indexOf(call, at)
    assert.ok(next >= at && at >= 0, call)
    return next
  }, source.indexOf(from))
  in_order('const auto step_exact', 'wgmma_wait<1>(S_rmem', 'softmax(n', 'finish_output(n - 1)', 'scale_rows')
  in_order('const auto step_on_demand', 'wgmma_wait<1>(S_rmem', 'finish_output(n - 1)', 'warp_any(too_large)',
    'scores_again')
  in_order('[anchor: main_loop]', 'n < 4 ? 4 : (n / 8 + 1) * 8', 'barrier_red_or')
})

test('the words: each tile, against the letters', () => {
  for (const run of Object.keys(data)) {
    for (const tile of range(0, TILES)) {
      const words = figure.describe(data, { run, tile }).split('\n')[0], letters = data[run].warps.map((all) => all[tile])
      assert.equal(/^Tile \d+, .*: (on demand|exact|masked, exact|the first)/.exec(words)?.[1], tile === 0 ? 'the first'
        : data[run].masked.includes(tile) ? 'masked, exact' : /x/i.test(letters[0]) ? 'exact' : 'on demand', words)
      const named = /done again by (.*)\./.exec(words)?.[1] ?? ''
      const again = letters.flatMap((letter, warp) => letter === 'A' ? [warp] : [])
      const read = named === 'all four warps' ? WARPS : [...named.matchAll(/\d/g)].map(([digit]) => +digit)
      assert.deepEqual(read, again, words)
    }
  }
})

test('on_demand on the page: runs, tiles', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open(page_with('16_maximum_on_demand', 'on_demand'), { width }), size = width < 500 ? NARROW : WIDE
    const shown = await figure_on(page, 'on_demand')
    assert.deepEqual(await shown.values(), drawn({ run: 'jumps', tile: 18 }, size))
    assert.match(await shown.words(), /Tile 18, .*done again by warp 1/)
    await shown.choose('run', '× 60')
    await shown.slide('tile', 2)
    assert.deepEqual(await shown.values(), drawn({ run: 'larger', tile: 2 }, size))
    assert.match(await shown.words(), /Tile 2, .*done again by all four warps/)
    assert.deepEqual(page.complaints, [])
  }
}))
