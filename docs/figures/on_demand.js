// Chapter 16's maximum on demand, with the warp that computed the maximum of a tile first, the warp that
// recomputed a tile, and the results of the votes between the rounds.
import { boxes, flow_marks, group, line, lines, path, rect, svg, text, triangles, WIDE, wrapped } from './draw.js'
import { cell, count_of, reduce, rounds_of, said_yes } from './on_demand_log.js'

const QUERIES = 64, KEYS = { ordinary: 5120, large: 5120, larger: 5120, jumps: 5032 }  // the last tile of 5032 is masked
const OPTIONS = ['--device', 'emulator', '--consumers', '2', '--events', '{json}']
const random = (scale) => ['ch16_maximum_on_demand', ...OPTIONS, '--shape', `1,1,${QUERIES},${KEYS.ordinary},64`,
  '--seed', '1', '--input-scale', scale]
const LEFT = 50, ROW = 11, PANEL = 4 * ROW + 46, HEAD = 20

// Constructed scores: Q is 8 times the identity and the scale is 1/8, so key j has the scores of
// all queries. They are between -2 and 2, except for these: [tile, query, score].
export const JUMPS = [[2, 37, 48], [5, 6, 12], [18, 20, 48], [21, 58, 48]]
const numbers = (seed) => () => ((seed = Math.imul(seed, 1103515245) + 12345) >>> 16) % 33 / 8 - 2
const matrix = (rows, of) => Array.from({ length: rows }, (_, row) => Array.from({ length: 64 }, (_, i) => of(row, i)))
const Q = () => matrix(QUERIES, (row, i) => row === i ? 8 : 0)
export function chosen_scores() {
  const next = numbers(16), K = matrix(KEYS.jumps, next)
  for (const [tile, query, score] of JUMPS) K[tile * 128 + 50][query] = score
  return K
}
const V = () => matrix(KEYS.jumps, numbers(61))

const RUNS = {
  ordinary: 'scores as they are',
  large: 'scores × 17',
  larger: 'scores × 60',
  jumps: 'scores from −2 to 2, four larger',
}
const NAMES = Object.keys(RUNS)

// ---- words ----
const warps_where = (run, tile, holds) => run.warps.flatMap((_, warp) => holds(cell(run, warp, tile)) ? [warp] : [])
const list = (warps) => warps.length === 4 ? 'all four warps' : `warp${warps.length > 1 ? 's' : ''} ${warps.join(', ')
  .replace(/, (\d)$/, ' and $1')}`

function what_happened(run, tile) {
  const moved = warps_where(run, tile, (one) => one.moved), again = warps_where(run, tile, ({ done }) => done === 'again')
  const exact = cell(run, 0, tile).done === 'exact'
  if (tile === 0) return 'the first: no maximum is at hand, all look first'
  if (exact) {
    return (run.masked.includes(tile) ? 'masked, exact' : 'exact')
      + (moved.length ? `: in ${list(moved)} a maximum moved` : ': no maximum moved')
  }
  return again.length ? `on demand; done again by ${list(again)}` : 'on demand; all sums are small enough'
}

function summary(run) {
  const tiles = count_of(run), all = Array.from({ length: tiles }, (_, tile) => tile)
  const on_demand = all.filter((tile) => cell(run, 0, tile).done !== 'exact')
  const again = all.reduce((sum, tile) => sum + warps_where(run, tile, ({ done }) => done === 'again').length, 0)
  return `${on_demand.length} of ${tiles} tiles on demand; done again ${!again ? 'never'
    : `${again === 1 ? 'once' : `${again} times`} by a warp`}`
}

// ---- drawing ----
const unit_of = (tiles, width) => (width - 6 - LEFT) / tiles

function draw_run({ run, name, width, tile }, y) {
  const tiles = count_of(run), unit = unit_of(tiles, width), x = (at) => LEFT + at * unit, top = y + 29
  const cells = run.warps.flatMap((_, warp) => Array.from({ length: tiles }, (_, at) =>
    ({ ...cell(run, warp, at), box: [x(at) + 0.5, top + warp * ROW + 0.5, unit - 1, ROW - 1] })))
  const of = (holds) => cells.filter(holds).map(({ box }) => box)
  const bottom = top + 4 * ROW
  return [
    text(4, y + 10, RUNS[name], { class: 'small strong' }),
    run.warps.map((_, warp) => text(4, top + warp * ROW + 9, `warp ${warp}`, { class: 'small' })),
    rect(x(0), top, x(tiles) - x(0), 4 * ROW, { class: 'soft' }),
    boxes(of(({ done }) => done === 'demand').map(([left, at, w, h]) => [left, at + 3, w, h - 6]), { class: 'c' }),
    boxes(of(({ done }) => done === 'exact'), { class: 'soft-a' }),
    boxes(of(({ done }) => done === 'again'), { class: 'soft-b' }),
    triangles(of(({ moved, done }) => moved && done === 'exact').map(([left, at, w]) => [left + w / 2, at + 1.5]),
      { class: 'a' }),
    triangles(of(({ done }) => done === 'again').map(([left, at, w]) => [left + w / 2, at + 1.5]), { class: 'b' }),
    run.masked.map((at) => rect(x(at) + 1, top + 0.5, unit - 2, 4 * ROW - 1,
      { class: 'line-muted', 'stroke-dasharray': '3 2' })),
    lines(rounds_of(run).map(([first]) => [[x(first), top - 3], [x(first), bottom + 2]]), { class: 'axis' }),
    run.votes.map((vote) => [
      line(x(vote), top - 4, x(vote), bottom + 2, { class: 'line-f' }),
      text(x(vote), top - 6, said_yes(run, vote) ? 'yes' : 'no',
        { class: 'small middle', name: `${name}_vote_${vote}` })]),
    [0, ...run.votes].map((at) => text(x(at) + unit / 2, bottom + 11, at, { class: 'small middle muted' })),
    tile < tiles ? rect(x(tile), top - 2, unit, 4 * ROW + 4, { class: 'on', fill: 'none' }) : ''].flat()
}

function draw_legend(width, y) {
  const cell_of = (name, ...more) => group(0, 0, [rect(0, 0, 14, 14, { class: 'soft' }), more.length ? more
    : rect(0, 1, 14, 12, { class: name })])
  return flow_marks([
    [20, 'exact: looked for the maximum first', cell_of('soft-a')],
    [20, 'the same, and the maximum moved', cell_of('', rect(0, 1, 14, 12, { class: 'soft-a' }),
      triangles([[7, 4]], { class: 'a' }))],
    [20, 'on demand: did not look', cell_of('', rect(0, 5, 14, 4, { class: 'c' }))],
    [20, 'done again: a sum was too large', cell_of('', rect(0, 1, 14, 12, { class: 'soft-b' }),
      triangles([[7, 4]], { class: 'b' }))],
    [20, 'masked', rect(1, 1, 12, 12, { class: 'line-muted', 'stroke-dasharray': '3 2' })],
    [20, 'vote: did a maximum move in the round before?', path([[7, 0], [7, 14]], { class: 'line-f' })],
  ], width, y)
}

export default {
  title: 'The maximum on demand: which warp looked first, which tiles were done again',
  sources: {
    ordinary: random('1'),
    large: random('17'),
    larger: random('60'),
    jumps: ['ch16_maximum_on_demand', ...OPTIONS, '--q', Q, '--k', chosen_scores, '--v', V],
  },
  data: (logs) => Object.fromEntries(NAMES.map((name) => [name, reduce(logs[name], KEYS[name])])),
  stills: { 'chapters/16_maximum_on_demand/figures/on_demand.svg': {} },
  initial: () => ({ run: 'jumps', tile: 18 }),

  controls: (data, { run }) => [
    { key: 'run', type: 'choice', label: 'of', options: [['ordinary', '× 1'], ['large', '× 17'],
      ['larger', '× 60'], ['jumps', 'four larger']] },
    { key: 'tile', type: 'step', label: 'tile', min: 0, max: count_of(data[run]) - 1, play: 400 },
  ],
  drag(data, state, { x, y }, width) {
    const run = NAMES[Math.max(0, Math.min(NAMES.length - 1, Math.floor((y - HEAD) / PANEL)))]
    const tiles = count_of(data[run]), tile = Math.floor((x - LEFT) / unit_of(tiles, width))
    return { ...state, run, tile: Math.max(0, Math.min(tiles - 1, tile)) }
  },

  draw(data, { run, tile }, width) {
    const after = HEAD + NAMES.length * PANEL, wide = width >= WIDE
    const words = wrapped(`Tile ${tile}, ${RUNS[run]}: ${what_happened(data[run], tile)}`, width, 9)
    const legend = draw_legend(width, after + 14 * words.length + 12)
    return svg(width, legend.bottom + 12, [
      text(4, 12, wide ? 'The four warps of a consumer, 16 queries each; tiles of 128 keys from left to right'
        : 'Four warps; tiles of 128 keys', { class: 'small muted' }),
      NAMES.map((name, i) => [
        draw_run({ run: data[name], name, width, tile: name === run ? tile : Infinity }, HEAD + i * PANEL),
        wide ? text(width - 6, HEAD + i * PANEL + 10, summary(data[name]),
          { class: 'small end muted', name: `${name}_summary` }) : '']),
      words.map((row, i) => text(4, after + 10 + 14 * i, row, { class: 'small', name: `tile_${i}` })),
      legend.drawn])
  },

  describe(data, { run, tile }) {
    return `Tile ${tile}, ${RUNS[run]}: ${what_happened(data[run], tile)}.\n`
      + NAMES.map((name) => `${RUNS[name]}: ${summary(data[name])}; votes ${data[name].votes
        .map((vote) => `before tile ${vote} ${said_yes(data[name], vote) ? 'yes' : 'no'}`).join(', ')}.`).join(' ')
        .replace(/(^|\. )([a-z])/g, (words) => words.toUpperCase())
      + ' From the emulator’s event log: in an exact tile the warp votes on its maxima in front of the wait for O, on '
      + 'demand it votes on its sums behind it, and what is done again is computed by mma. The four larger scores: '
      + JUMPS.map(([at, query, score]) => `${score} of query ${query} in tile ${at}`).join(', ') + '.'
  },
}
