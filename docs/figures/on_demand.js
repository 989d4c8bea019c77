// Chapter 16's maximum on demand: how the four warps of a warpgroup came to the weights of each tile of keys,
// with scores that are ordinary, sharp, and very sharp.
import { boxes, flow_marks, flow_words, line, rect, round, svg, text, wrapped } from './draw.js'
import { reduce } from './on_demand_log.js'

const OPTIONS = ['--device', 'emulator', '--consumers', '2', '--shape', '1,1,64,5120,64', '--seed', '1']
const RUNS = { 1: 'scores as they are', 17: 'scores × 17', 60: 'scores × 60' }
const ROW = 13, GAP = 2, LANE = 4 * (ROW + GAP) + 30, LEFT = 4

const name_of = ({ kind, moved }) => kind === 'again' ? 'done again' : kind === 'on demand' ? kind
  : moved ? 'exact, m moves' : 'exact'
const CLASS = { 'on demand': 'soft-b', 'done again': 'e', exact: 'soft-d', 'exact, m moves': 'd' }
const tiles_in = (data) => data[1].warps[0].length
const unit_of = (data, width) => (width - 2 * LEFT) / tiles_in(data)

function in_words({ warps, votes }, tile) {
  const doing = warps.map((tiles) => name_of(tiles[tile]))
  const same = new Set(doing).size === 1
  return `tile ${tile}: ${same ? `all four ${doing[0]}` : doing.map((word, i) => `warp ${i} ${word}`).join(', ')}`
    + (votes.includes(tile) ? '; they have voted before it' : '')
}

function draw_run({ warps, votes }, unit, y) {
  const x = (tile) => LEFT + tile * unit
  return [
    Object.entries(CLASS).map(([name, color]) => boxes(warps.flatMap((tiles, warp) => tiles.flatMap((tile, i) =>
      name_of(tile) !== name ? []
        : [[round(x(i) + 0.5), y + warp * (ROW + GAP), round(unit - 1), ROW]])), { class: color })),
    votes.map((tile) => line(round(x(tile)), y - 3, round(x(tile)), y + 4 * (ROW + GAP) + 1, { class: 'line-f' })),
  ]
}

export default {
  title: 'The maximum on demand: what each warp did with each tile of keys',
  sources: Object.fromEntries(Object.keys(RUNS).map((scale) =>
    [scale, ['ch16_maximum_on_demand', ...OPTIONS, '--input-scale', scale, '--events', '{json}']])),
  data: (logs) => Object.fromEntries(Object.entries(logs).map(([scale, log]) => [scale, reduce(log)])),
  stills: { 'chapters/16_maximum_on_demand/figures/on_demand.svg': {} },
  initial: () => ({ tile: 27 }),

  controls: (data) => [{ key: 'tile', type: 'step', label: 'tile', min: 0, max: tiles_in(data) - 1, play: 300 }],
  drag(data, state, { x }, width) {
    const tile = Math.floor((x - LEFT) / unit_of(data, width))
    return { ...state, tile: Math.max(0, Math.min(tiles_in(data) - 1, tile)) }
  },

  draw(data, { tile }, width) {
    const unit = unit_of(data, width), runs = Object.entries(RUNS)
    const heading = flow_words([['64 queries, 5120 keys', { class: 'strong' }],
      ['40 tiles of 128, a row for each of four warps', { class: 'muted' }]], width, 14)
    let y = heading.bottom + 20
    const lanes = runs.map(([scale, words]) => {
      const said = wrapped(in_words(data[scale], tile), width, 9)
      const drawn = [text(LEFT, y, words, { class: 'small strong' }), draw_run(data[scale], unit, y + 8),
        said.map((row, i) => text(LEFT, y + 8 + 4 * (ROW + GAP) + 12 + 13 * i, row, { class: 'small', name: `said_${scale}_${i}` }))]
      y += LANE + 13 * said.length
      return drawn
    })
    const bottom = y - 12, box = (name) => rect(0, 1, 14, 12, { class: name })
    const legend = flow_marks([...Object.entries(CLASS).map(([name, color]) => [20, name, box(color)]),
      [14, 'the four vote', line(4, 0, 4, 14, { class: 'line-f' })]], width, bottom + 8)
    return svg(width, legend.bottom + 12, [heading.drawn, lanes,
      rect(round(LEFT + tile * unit), heading.bottom + 8, round(unit), bottom - heading.bottom - 14, { class: 'line-f', 'stroke-dasharray': '3 2' }),
      legend.drawn])
  },

  describe(data, { tile }) {
    return Object.entries(RUNS).map(([scale, words]) => `${words}, ${in_words(data[scale], tile)}.`).join(' ')
      + '\nFrom the emulator’s event log. Exact: the warp looked for the maximum first; m moves where it grew by more '
      + 'than 2⁸. On demand: it did not look. Done again: the sums were too large.'
  },
}
