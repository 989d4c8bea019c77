// Weights that fit e4m3, chapter 17, with the warps that computed the maximum first, those that computed
// exponentials without it, and where weights were scaled down afterwards.
import { boxes, flow_marks, group, rect, svg, text, triangles, WIDE, wrapped } from './draw.js'
import { MEANING, reduce } from './fp8_weights_log.js'

const QUERIES = 64, KEYS = 5120, TILE = 128
const run_of = (scale) => ['ch23_fp8', '--device', 'emulator', '--shape', `1,1,${QUERIES},${KEYS},64`, '--seed', '1',
  '--input-scale', scale, '--events', '{json}']
const RUNS = { ordinary: 'scores as they are', large: 'scores × 4', larger: 'scores × 6.25' }
const NAMES = Object.keys(RUNS), TILES = KEYS / TILE

// ---- the reader's input scale, run in the page ----
const live = (data, { scale }) => !scale.trim() || data.live?.key === scale.trim() ? null : { key: scale.trim(),
  request: { chapter: 23, shape: [1, 1, QUERIES, KEYS, 64], seed: 1, input_scale: scale.trim(), events: 1e6 } }
const heard = (data, { key }, answer) => ({ ...data,
  live: { key, ...answer.error ? { problem: answer.error } : { run: reduce(answer) } } })

// Returns [name, letters] by run. `problem`: the reason why the reader's run does not exist.
function shown(data, { scale }) {
  const runs = Object.fromEntries(NAMES.map((name) => [name, [RUNS[name], data[name]]])), key = scale.trim().slice(0, 20)
  if (!key) return { runs }
  const { run, problem } = live(data, { scale }) ? { problem: 'not run yet' } : data.live
  return run ? { runs: { ...runs, own: [`Q and K × ${key}`, run] } } : { runs, problem: `Q and K × ${key}: ${problem}` }
}
const LEFT = 50, ROW = 11, PANEL = 4 * ROW + 34, HEAD = 20

// ---- words ----
const warps_that = (run, tile, what) => run.flatMap((letters, warp) => MEANING[letters[tile]] === what ? [warp] : [])
const list = (warps) => warps.length === 4 ? 'all four warps' : `warp${warps.length > 1 ? 's' : ''} ${warps.join(', ')
  .replace(/, (\d)$/, ' and $1')}`
const DID = { raised: 'looked first, and the maximum moved', looked: 'looked first, and no maximum moved',
  blind: 'exponentiated blindly, and all weights fit', lowered: 'had a sum too large, and made weights smaller' }
const what_happened = (run, tile) => Object.entries(DID).map(([what, words]) => [warps_that(run, tile, what), words])
  .filter(([warps]) => warps.length).map(([warps, words]) => `${list(warps)} ${words}`).join('; ')
const count = (run, what) => run.join('').split('').filter((letter) => MEANING[letter] === what).length
const summary = (run) => `of ${4 * TILES} tiles of a warp: ${count(run, 'blind')} blindly, ${count(run, 'lowered')
} made smaller, ${count(run, 'raised') + count(run, 'looked')} looked first`

function told(data, state) {
  const [label, run] = shown(data, state).runs[state.run]
  return `Tile ${state.tile}, ${label}: ${what_happened(run, state.tile)}`
}

// ---- drawing ----
const unit_of = (width) => (width - 6 - LEFT) / TILES

function draw_run([label, run], width, tile, y) {
  const unit = unit_of(width), x = (at) => LEFT + at * unit, top = y + 16
  const of = (...what) => run.flatMap((letters, warp) => [...letters].flatMap((letter, at) =>
    what.includes(MEANING[letter]) ? [[x(at) + 0.5, top + warp * ROW + 0.5, unit - 1, ROW - 1]] : []))
  const marks = (list) => list.map(([left, at, w]) => [left + w / 2, at + 1.5])
  return [
    text(4, y + 10, label, { class: 'small strong' }),
    run.map((_, warp) => text(4, top + warp * ROW + 9, `warp ${warp}`, { class: 'small' })),
    rect(x(0), top, x(TILES) - x(0), 4 * ROW, { class: 'soft' }),
    boxes(of('blind').map(([left, at, w, h]) => [left, at + 3, w, h - 6]), { class: 'c' }),
    boxes(of('looked', 'raised'), { class: 'soft-a' }),
    boxes(of('lowered'), { class: 'soft-b' }),
    triangles(marks(of('raised')), { class: 'a' }),
    triangles(marks(of('lowered')), { class: 'b' }),
    [0, 8, 16, 24, 32].map((at) => text(x(at) + unit / 2, top + 4 * ROW + 11, at, { class: 'small middle muted' })),
    tile < TILES ? rect(x(tile), top - 2, unit, 4 * ROW + 4, { class: 'on', fill: 'none' }) : '']
}

function draw_legend(width, y) {
  const cell_of = (...more) => group(0, 0, [rect(0, 0, 14, 14, { class: 'soft' }), more])
  return flow_marks([
    [20, 'blindly: the maximum at hand serves', cell_of(rect(0, 5, 14, 4, { class: 'c' }))],
    [20, 'a sum too large: weights made smaller', cell_of(rect(0, 1, 14, 12, { class: 'soft-b' }),
      triangles([[7, 4]], { class: 'b' }))],
    [20, 'looked for the maximum first', cell_of(rect(0, 1, 14, 12, { class: 'soft-a' }))],
    [20, 'the same, and it moved', cell_of(rect(0, 1, 14, 12, { class: 'soft-a' }),
      triangles([[7, 4]], { class: 'a' }))],
  ], width, y)
}

export default {
  title: 'Weights that fit 8 bits: who looked first, and what was made smaller',
  sources: { ordinary: run_of('1'), large: run_of('2'), larger: run_of('2.5') },
  data: (logs) => Object.fromEntries(NAMES.map((name) => [name, reduce(logs[name])])),
  stills: { 'chapters/23_fp8/figures/fp8_weights.svg': {} },
  initial: () => ({ run: 'large', tile: 1, scale: '' }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'run', type: 'choice', label: 'of', options: [['ordinary', '× 1'], ['large', '× 4'], ['larger', '× 6.25'],
      ...shown(data, state).runs.own ? [['own', 'your own']] : []] },
    { key: 'scale', type: 'line', label: 'another run: Q and K times' },
    { key: 'tile', type: 'step', label: 'tile', min: 0, max: TILES - 1, play: 400 },
  ],
  settle: (data, state) => shown(data, state).runs[state.run] ? state : { ...state, run: 'large' },
  drag(data, state, { x, y }, width) {
    const names = Object.keys(shown(data, state).runs)
    const run = names[Math.max(0, Math.min(names.length - 1, Math.floor((y - HEAD) / PANEL)))]
    return { ...state, run, tile: Math.max(0, Math.min(TILES - 1, Math.floor((x - LEFT) / unit_of(width)))) }
  },

  draw(data, state, width) {
    const { run, tile } = state, all = Object.entries(shown(data, state).runs)
    const after = HEAD + all.length * PANEL, wide = width >= WIDE
    const words = wrapped(told(data, state), width - 8, 10)
    const legend = draw_legend(width, after + 14 * words.length + 12)
    return svg(width, legend.bottom + 12, [
      text(4, 12, wide ? 'The four warps of a consumer, 16 queries each; tiles of 128 keys from left to right'
        : 'Four warps; tiles of 128 keys', { class: 'small muted' }),
      all.map(([name, one], i) => [
        draw_run(one, width, name === run ? tile : Infinity, HEAD + i * PANEL),
        wide ? text(width - 6, HEAD + i * PANEL + 10, summary(one[1]),
          { class: 'small end muted', name: `${name}_summary` }) : '']),
      words.map((row, i) => text(4, after + 10 + 14 * i, row, { class: 'small', name: `tile_${i}` })),
      legend.drawn])
  },

  describe(data, state) {
    const { runs, problem } = shown(data, state)
    return `${problem ? `${problem}. ` : ''}${told(data, state)}.\n`
      + Object.values(runs).map(([label, run]) => `${label}: ${summary(run)}.`).join(' ')
        .replace(/(^|\. )([a-z])/g, (words) => words.toUpperCase())
      + ' From the emulator’s event log: a warp that looks first votes in front of the wait for O; all vote behind it, '
      + 'on the sums; whose quads shuffle then has made weights smaller.'
  },
}
