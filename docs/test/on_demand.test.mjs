// The maximum on demand, chapter 16: what the picture says of each warp and tile against the log's other events
// and the rule of the rounds; and the page shows it.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/on_demand.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'

const logs = Object.fromEntries(Object.entries(figure.sources).map(([key, command]) => [key, output_of(command)]))
const data = figure.data(logs)
const TILES = 40, VOTES = [4, 8, 16, 24, 32]
const MMAS = 16 * 4  // of a tile of 128 keys and 64 columns, for one warp

test('a tile that is done again is one of mma, and no other has any', () => {
  for (const [scale, { warps }] of Object.entries(data)) {
    const again = warps.flat().filter(({ kind }) => kind === 'again').length
    const first = Math.min(...logs[scale].events.filter(({ kind }) => kind === 'wgmma').map(({ warp }) => warp))
    const mine = logs[scale].events.filter(({ kind, block, warp }) =>
      kind === 'mma' && block === 0 && warp >= first && warp < first + 4)
    assert.equal(mine.length, again * MMAS, `scores × ${scale}`)
    assert.deepEqual(logs[scale].hazards, [])
  }
  assert.ok(data[60].warps.flat().some(({ kind }) => kind === 'again'))
  assert.ok(data[1].warps.flat().every(({ kind }) => kind !== 'again'))
})

test('rounds: exact if a maximum moved in the one before, in any of the four warps', () => {
  for (const { warps, votes } of Object.values(data)) {
    assert.deepEqual(votes, VOTES)
    const borders = [1, ...VOTES, TILES]
    for (const tiles of warps) {
      assert.equal(tiles.length, TILES)
      assert.equal(tiles[0].kind, 'exact')
    }
    borders.slice(0, -1).forEach((from, i) => {
      const before = i ? warps.flatMap((tiles) => tiles.slice(borders[i - 1], from)) : []
      const exact = before.some(({ moved }) => moved)
      for (const tiles of warps)
        for (const { kind } of tiles.slice(from, borders[i + 1])) assert.equal(kind === 'exact', exact)
    })
  }
})

test('the words say what the boxes show', () => {
  for (const width of [WIDE, NARROW]) {
    const drawn = figure.draw(data, { tile: 27 }, width)
    assert.match(drawn, /warp 3 done again/)
    assert.match(figure.describe(data, { tile: 4 }), /they have voted before it/)
  }
})

test('on demand on the page: tiles', () => with_browser(async (open) => {
  for (const width of [1280, 390]) {
    const page = await open('/chapters/16_maximum_on_demand/', { width }), size = width < 500 ? NARROW : WIDE
    const shown = await figure_on(page, 'on_demand')
    for (const tile of [0, 27, 39]) {
      await shown.slide('tile', tile)
      assert.deepEqual(await shown.values(), numbers_in(figure.draw(data, { tile }, size)))
    }
    assert.deepEqual(page.complaints, [])
  }
}))
