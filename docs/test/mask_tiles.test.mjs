// Compares the tile map with the mask of each pair of query and key, and with the program's counts.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { NARROW, WIDE } from '../figures/draw.js'
import figure from '../figures/mask_tiles.js'
import { output_of } from '../figures/programs.mjs'
import { figure_on, page_with, with_browser } from './browser.mjs'
import { numbers_in } from './drawing.mjs'
import { data_of } from './states.mjs'

const QUERIES = 128, KEYS = 64  // per tile
const PACKED = [300, 1, 0, 500], STARTS = '0,300,301,301,801'
const LENGTHS = { equal: [[1024, 1024]], keys: [[512, 1024]], queries: [[1024, 576]], ragged: [[900, 1000]],
  packed: PACKED.map((length) => [length, length]) }
const SHAPES = { equal: '1024,1024', keys: '512,1024', queries: '1024,576', ragged: '900,1000', packed: '801,801' }
const WORDS = { full: [], causal: ['--causal'], window: ['--window', '256,0'] }
const LABELS = { full: 'no mask', causal: 'causal', window: 'window 256,0', equal: '1024 × 1024',
  keys: 'more keys: 512 × 1024', queries: 'more queries: 1024 × 576', ragged: 'ragged: 900 × 1000',
  packed: 'packed: 300, 1, 0, 500' }
const CASES = Object.keys(WORDS).flatMap((mask) => Object.keys(LENGTHS).map((lengths) => [mask, lengths]))
const numbers = (count) => [...Array(count).keys()]

// True if query i of Lq sees key j of Lkv, from the definition of each mask for a single pair.
const SEES = { full: () => true, causal: (i, j, Lq, Lkv) => !(j > i + Lkv - Lq),
  window: (i, j, Lq, Lkv) => j >= i + Lkv - Lq - 256 && j <= i + Lkv - Lq }

// Returns the expected kind of a tile. Pairs with keys that do not exist count as hidden.
function kind_of(mask, [Lq, Lkv], row, column) {
  let pairs = 0, seen = 0
  for (let i = row * QUERIES; i < Math.min(Lq, (row + 1) * QUERIES); i++) {
    for (let j = column * KEYS; j < (column + 1) * KEYS; j++) {
      pairs++
      if (j < Lkv && SEES[mask](i, j, Lq, Lkv)) seen++
    }
  }
  return seen === 0 ? 'skipped' : seen < pairs ? 'masked' : 'clear'
}
const tiles_of = (mask, lengths) => Object.fromEntries(LENGTHS[lengths].flatMap(([Lq, Lkv], sequence) =>
  numbers(Math.ceil(Lq / QUERIES)).flatMap((row) => numbers(Math.ceil(Lkv / KEYS)).map((column) =>
    [`${sequence},${row},${column}`, kind_of(mask, [Lq, Lkv], row, column)]))))

const count = (tiles, ...kinds) => Object.values(tiles).filter((kind) => kinds.includes(kind)).length
function wanted_numbers(tiles) {
  const all = Object.keys(tiles).length, skipped = count(tiles, 'skipped'), visits = {}
  for (const [key, kind] of Object.entries(tiles)) {
    const name = `visits_${key.replace(/,\d+$/, '').replace(',', '_')}`
    visits[name] = (visits[name] ?? 0) + (kind !== 'skipped')
  }
  return { visited: `${count(tiles, 'clear', 'masked')} visited`, masked: `${count(tiles, 'masked')} of them masked`,
    skipped: `${skipped} skipped`, saved: `${Math.round(skipped / all * 100)} %`,
    ...Object.fromEntries(Object.entries(visits).map(([name, number]) => [name, `${number}`])) }
}

// Returns the tiles of a drawing: { key: { x, y, width, height, kind, order } }.
function drawn_tiles(drawing) {
  const shown = numbers_in(drawing)
  return Object.fromEntries(
    [...drawing.matchAll(/<g data-focus="([^"]*)" transform="translate\((\S+) (\S+)\)">(.*?)<\/g>/g)]
      .map(([, key, x, y, inside]) => {
        const [, width, height] = /width="([^"]*)" height="([^"]*)"/.exec(inside).map(Number)
        const order = shown[`order_${key.replaceAll(',', '_')}`]
        const kind = order === undefined ? 'skipped' : inside.includes('"line-b"') ? 'masked' : 'clear'
        const fill = { skipped: 'cell', masked: 'soft-b', clear: 'soft-d' }[kind]
        assert.ok(inside.includes(`"${fill}"`), `${key} is ${kind}: ${inside}`)
        return [key, { x: +x, y: +y, width, height, kind, order: +order }]
      }))
}
const without_orders = (shown) =>
  Object.fromEntries(Object.entries(shown).filter(([name]) => !name.startsWith('order_')))

// True if the point is inside the polygon.
const inside = (corners, [x, y]) => corners.reduce((odd, [x1, y1], n) => {
  const [x0, y0] = corners.at(n - 1)
  return (y0 > y) !== (y1 > y) && x < x0 + (x1 - x0) * (y - y0) / (y1 - y0) ? !odd : odd
}, false)

const state_of = (mask, lengths) => figure.settle(data_of('mask_tiles'),
  { ...figure.initial(data_of('mask_tiles')), mask, lengths })
const draw = (mask, lengths, width) => figure.draw(data_of('mask_tiles'), state_of(mask, lengths), width)

test('mask_tiles: a tile is visited if a query sees a key in it, and masked if one does not', () => {
  for (const [mask, lengths] of CASES) {
    const tiles = tiles_of(mask, lengths), where = `${mask}, ${lengths}`
    for (const width of [WIDE, NARROW]) {
      const drawing = draw(mask, lengths, width), drawn = drawn_tiles(drawing)
      const kinds = Object.entries(drawn).map(([key, { kind }]) => [key, kind])
      assert.deepEqual(Object.fromEntries(kinds), tiles, where)
      assert.deepEqual(without_orders(numbers_in(drawing)), wanted_numbers(tiles), where)
      const rows = new Set(Object.keys(tiles).map((key) => key.replace(/,\d+$/, '')))
      for (const row of rows) {
        const cells = Object.entries(drawn).filter(([key]) => key.startsWith(`${row},`)).map(([, cell]) => cell)
        const visited = cells.filter(({ kind }) => kind !== 'skipped').sort((a, b) => a.order - b.order)
        assert.deepEqual(visited.map(({ order }) => order), numbers(visited.length).map((n) => n + 1),
          `${where}: row ${row}`)
        const first_masked = visited.findIndex(({ kind }) => kind === 'masked')
        assert.ok(first_masked < 0 || visited.slice(first_masked).every(({ kind }) => kind === 'masked'),
          `${where}: row ${row}: clear tiles come first`)
      }
    }
  }
})

test('mask_tiles: the line parts the pairs that are seen from those that are not', () => {
  for (const [mask, lengths] of CASES) {
    for (const width of [WIDE, NARROW]) {
      const drawing = draw(mask, lengths, width), drawn = drawn_tiles(drawing)
      const edges = [...drawing.matchAll(/<path d="M([^"]*)"/g)]
        .map(([, d]) => d.split('L').map((corner) => corner.split(' ').map(Number)))
      let pairs = 0
      const sequences = LENGTHS[lengths].map((both, sequence) => [sequence, ...both]).filter(([, Lq]) => Lq > 0)
      assert.equal(edges.length, sequences.length)
      sequences.forEach(([sequence, Lq, Lkv], place) => {
        const { x, y, width: across, height: down } = drawn[`${sequence},0,0`]
        const rows = Math.ceil(Lq / QUERIES) * QUERIES, columns = Math.ceil(Lkv / KEYS) * KEYS
        for (let i = 0; i < rows; i += i < Lq - 1 && i + 37 >= Lq ? Lq - 1 - i : 37) {
          for (let j = 0; j < columns; j++) {
            const seen = i < Lq && j < Lkv && SEES[mask](i, j, Lq, Lkv)
            const point = [x + (j + 0.5) * across / KEYS, y + (i + 0.5) * down / QUERIES]
            assert.equal(inside(edges[place], point), seen, `${mask}, ${lengths}, ${width}: query ${i}, key ${j}`)
            pairs++
          }
        }
      })
      assert.ok(pairs > 10_000, `${pairs} pairs`)
    }
  }
})

test('mask_tiles: the program counts the same tiles', () => {
  for (const [mask, lengths] of CASES) {
    const packed = lengths === 'packed' ? ['--cu-seqlens-q', STARTS, '--cu-seqlens-k', STARTS] : []
    const { profile, check } = output_of(['ch09_masks_and_shapes', '--device', 'emulator', '--shape',
      `1,1,${SHAPES[lengths]},128`, ...WORDS[mask], ...packed, '--profile', '--json', '{json}'])
    const tiles = tiles_of(mask, lengths), where = `${mask}, ${lengths}`
    assert.equal(check.passed, true, where)
    assert.equal(profile.tiles_visited, count(tiles, 'clear', 'masked'), where)
    assert.equal(profile.tiles_masked, count(tiles, 'masked'), where)
    assert.equal(profile.tiles_skipped, count(tiles, 'skipped'), where)
  }
})

test('mask_tiles: what is said of a tile', () => {
  const data = data_of('mask_tiles')
  const said = (mask, lengths, focus) =>
    figure.describe(data, figure.settle(data, { ...state_of(mask, lengths), focus }))
  assert.match(said('causal', 'equal', '0,7,14'), new RegExp('^Causal, 1024 × 1024: of 128 tiles 72 are visited, '
    + '16 of them masked, and 56 skipped, which saves 44 % of the work\\. Queries 896 to 1023, keys 896 to 959: '
    + 'visit 15 of 16, masked; query 896 sees keys 0 to 896, query 1023 sees keys 0 to 1023\\.\n'
    + 'Tiles that each block visits: block 0: clear 0 to 13, masked 14 to 15; .*; block 7: masked 0 to 1\\. '))
  assert.match(said('causal', 'equal'), /which saves 44 % of the work\.\nTiles that each block/)
  assert.match(said('causal', 'queries', '0,0,0'),
    /keys 0 to 63: skipped; query 0 sees no key, query 127 sees no key\./)
  assert.match(said('causal', 'queries', '0,3,0'),
    /visit 1 of 1, masked; query 384 sees no key, query 511 sees keys 0 to 63\./)
  assert.match(said('window', 'equal', '0,7,10'), /visit 5 of 6, masked; query 896 sees keys 640 to 896, /)
  assert.match(said('full', 'packed', '1,0,0'),
    /Sequence 1, queries 0 to 0, keys 0 to 0: visit 1 of 1, masked; query 0 sees keys 0 to 0\./)
  assert.match(said('full', 'ragged', '0,7,15'),
    /Queries 896 to 899, keys 960 to 999: visit 16 of 16, masked; /)
  assert.equal(figure.settle(data, { ...state_of('full', 'packed'), focus: '2,0,0' }).focus, '3,0,0')
})

test('mask_tiles: on its page, every choice shows its tiles', () => with_browser(async (open) => {
  const page = await open(page_with('09_masks_and_shapes', 'tile_map'))
  const figure = await figure_on(page, 'mask_tiles', 'tile_map')
  for (const [mask, lengths] of CASES) {
    await figure.choose('mask', LABELS[mask])
    await figure.choose('lengths', LABELS[lengths])
    const wanted = wanted_numbers(tiles_of(mask, lengths))
    assert.deepEqual(without_orders(await figure.values()), wanted, `${mask}, ${lengths}`)
  }
  assert.deepEqual(page.complaints, [])
}))

test('mask_tiles: pointing and keys; the window is there too', () => with_browser(async (open) => {
  const page = await open(page_with('09_masks_and_shapes', 'tile_map'), { width: 390 })
  const figure = await figure_on(page, 'mask_tiles', 'tile_map')
  await figure.point('0,5,3')
  assert.match(await figure.words(), /Queries 640 to 767, keys 192 to 255: visit 4 of 12, clear; /)
  await figure.press('ArrowDown')
  assert.match(await figure.words(), /Queries 768 to 895, keys 192 to 255: visit 4 of 14, clear; /)
  await figure.press('ArrowRight')
  assert.match(await figure.words(), /Queries 768 to 895, keys 256 to 319: visit 5 of 14, clear; /)
  const window = await figure_on(page, 'mask_tiles', 'window')
  assert.equal(await window.value('visited'), '42 visited')
  assert.equal(await window.value('masked'), '28 of them masked')
  assert.equal(await window.value('skipped'), '86 skipped')
  await window.point('0,7,10')
  assert.match(await window.words(), /keys 640 to 703: visit 5 of 6, masked; query 896 sees keys 640 to 896, /)
  assert.deepEqual(page.complaints, [])
}))
