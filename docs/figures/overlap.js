// Chapter 15's overlap, with the work of a consumer's warps and the work that they started on the tensor cores,
// compared with chapter 14's, and two consumers that take turns.
import { boxes, el, flow_marks, flow_words, rect, round, svg, text, triangles, WIDE, wrapped } from './draw.js'
import { length_of, reduce } from './overlap_log.js'
import { box_at, scale } from './roles.js'
import { step_at } from './roles_log.js'

const SHAPE = '1,1,128,512,128', OPTIONS = ['--device', 'emulator', '--consumers', '2', '--shape', SHAPE]
const VIEWS = { overlap: 'chapter 14 and 15', turns: '15 with turns' }
const ROW = 19, THIN = 14, LANE = ROW + 2 * (THIN + 3) + 24

// The lanes of a view: [run, consumer, its name].
const LANES = {
  overlap: [['ch14', 0, 'Chapter 14'], ['ch15', 0, 'Chapter 15']],
  turns: [['turns', 0, 'Consumer 0'], ['turns', 1, 'Consumer 1']],
}
const lanes_of = (data, view) => LANES[view].map(([run, consumer, name]) => ({ ...data[run].lanes[consumer], name }))
const end_of = (data, view) => Math.max(...LANES[view].map(([run]) => length_of(data[run])))

// ---- words ----
function doing({ steps }, now) {
  const step = step_at(steps, now)
  if (!step) return now > steps.at(-1).to ? 'has ended' : 'has not begun'
  const { kind, product, tile } = step
  return { start: 'gives the first turn', turn: 'waits for its turn', issue: `gives ${product}${tile}`,
    wait: `waits for ${product}${tile}`, maximum: `row maximum of tile ${tile}`,
    exponentials: `exponentials of tile ${tile}${product ? `, and gives ${product}${tile} by 16 keys` : ''}`,
    pack: `packs P${tile}`, store: 'stores its rows of O' }[kind]
}
const named = (list) => list.map(({ product, tile }) => `${product}${tile}`).join(', ') || 'nothing'
const in_flight = ({ products }, now) => products.filter(({ given, known }) => given <= now && now <= known)
const running = ({ products }, now) => products.filter(({ runs }) => runs.some(([from, to]) => from <= now && now <= to))

// ---- drawing ----
const CLASS = { start: ['f', 6], turn: ['cell', 1], issue: ['muted', 4], wait: ['cell', 1], maximum: ['d', 5],
  exponentials: ['soft-d', 1], pack: ['d', 2], store: ['muted', 7] }

function draw_lane({ x, unit, right, wide }, { steps, products, name }, y) {
  const middle = (from, to) => (x(from) + x(to + 1)) / 2
  const of = (kind) => steps.filter((step) => step.kind === kind)
  const word = (from, to, words, top, more) => unit * (to - from + 1) < 6.4 * words.length + 2 ? ''
    : text(round(middle(from, to)), top, words, { class: 'small middle', ...more })
  const joined = (list) => list.reduce((all, step) => all.at(-1)?.to === step.from - 1
    ? [...all.slice(0, -1), { ...all.at(-1), to: step.to }] : [...all, step], [])
  const rows = { S: y + ROW + 3, O: y + ROW + 3 + THIN + 3 }
  return [
    text(4, y - 5, name, { class: 'small strong' }),
    text(4, y + 14, 'warps', { class: 'small' }),
    rect(x(0), y, right - x(0), ROW, { class: 'soft' }),
    Object.entries(CLASS).map(([kind, [color, inset]]) =>
      boxes(joined(of(kind)).map((step) => box_at(step, x, unit, y, ROW, inset)), { class: color })),
    joined(of('exponentials')).map(({ from, to, tile }) => word(from, to, wide ? `exp ${tile}` : `${tile}`, y + 13.5)),
    [...of('wait'), ...of('turn')].map(({ from, to, kind, product, tile }) =>
      word(from, to, kind === 'turn' ? 'turn' : `${product}${tile}`, y + 13.5, { class: 'small middle muted' })),
    triangles(steps.filter(({ passes }) => passes).map(({ to }) => [x(to + 1), y + ROW - 2]), { class: 'e' }),
    Object.entries(rows).map(([row, top]) => [
      text(4, top + 10.5, wide ? `tensor: ${row}` : row, { class: 'small' }),
      rect(x(0), top, right - x(0), THIN, { class: 'soft' }),
      products.filter(({ product }) => product === row).map(({ tile, given, known, runs }) => {
        const color = row === 'S' ? 'b' : 'c'
        return el('g', {}, [
          boxes(runs.map(([from, to]) => box_at({ from, to }, x, unit, top, THIN, 0)), { class: `soft-${color}` }),
          rect(x(given), top + 0.5, x(known + 1) - x(given), THIN - 1,
            { class: `line-${color}`, 'stroke-dasharray': '3 2' }),
          word(runs[0][0], runs.at(-1)[1], `${row}${tile}`, top + 10.5)])
      })])]
}

function draw_legend(view, width, y) {
  const box = (name, top = 1, height = 12) => rect(0, top, 14, height, { class: name })
  return flow_marks([
    [20, 'gives a product', box('muted', 4, 6)],
    [20, view === 'turns' ? 'waits, for what' : 'waits, for which product', box('cell')],
    [20, 'row maximum', box('d', 4, 6)],
    [20, 'exponentials', box('soft-d')],
    [20, 'packs P', box('d', 2, 11)],
    ...view === 'turns' ? [[18, 'gives the next turn', triangles([[6, 4]], { class: 'e' })]] : [],
    [20, 'S = Q Kᵀ is computed', box('soft-b')],
    [20, 'O += P V is computed', box('soft-c')],
    [32, 'given, and not yet waited for', rect(0, 2, 26, 10, { class: 'line-c', 'stroke-dasharray': '3 2' })],
  ], width, y)
}

export default {
  title: 'Overlap: what the warps do, and what the tensor cores have been given',
  sources: {
    ch14: ['ch14_warp_specialization', ...OPTIONS, '--events', '{json}'],
    ch15: ['ch15_overlap', ...OPTIONS, '--events', '{json}'],
    turns: ['ch15_overlap', ...OPTIONS, '--ping-pong', '1', '--events', '{json}'],
  },
  data: ({ ch14, ch15, turns }) => ({ ch14: reduce(ch14, 1), ch15: reduce(ch15, 1), turns: reduce(turns, 2) }),
  stills: {
    'chapters/15_overlap/figures/overlap.svg': {},
    'chapters/15_overlap/figures/ping_pong.svg': { view: 'turns', step: 69 },
  },
  initial: () => ({ view: 'overlap', step: 36 }),

  controls: (data, { view }) => [
    { key: 'view', type: 'choice', label: 'of', options: Object.entries(VIEWS) },
    { key: 'step', type: 'step', label: 'step', min: 0, max: end_of(data, view) - 1, play: 250 },
  ],
  settle: (data, state) => ({ ...state, step: Math.min(state.step, end_of(data, state.view) - 1) }),
  drag(data, state, { x }, width) {
    const end = end_of(data, state.view), step = scale(end, width).back(x)
    return { ...state, step: Math.max(0, Math.min(end - 1, step)) }
  },

  draw(data, { view, step }, width) {
    const lanes = lanes_of(data, view), end = end_of(data, view), wide = width >= WIDE, { x, unit } = scale(end, width)
    const heading = flow_words([[view === 'turns' ? 'Chapter 15 with turns' : 'One consumer alone', { class: 'strong' }],
      ['512 keys: 4 tiles of 128', { class: 'muted' }]], width, 14)
    const top = heading.bottom + 18, y_of = (lane) => top + lane * LANE, bottom = y_of(lanes.length) - 18
    const now = lanes.flatMap((lane, i) => [
      [`doing_${i}`, `${lane.name}: ${doing(lane, step)}`],
      [`flight_${i}`, `in flight ${named(in_flight(lane, step))}; computed now ${named(running(lane, step))}`]])
    const legend = draw_legend(view, width, bottom + 14 * now.length + 14)
    return svg(width, legend.bottom + 12, [
      heading.drawn,
      lanes.map((lane, i) => draw_lane({ x, unit, wide, right: x(end) }, lane, y_of(i))),
      rect(x(step), top - 3, unit, bottom - top + 1, { class: 'line-f' }),
      now.map(([name, words], i) => text(4, bottom + 14 + 14 * i, wrapped(words, width, 9)[0], { class: 'small', name })),
      legend.drawn])
  },

  describe(data, { view, step }) {
    const said = lanes_of(data, view).map((lane) => `${lane.name}: ${doing(lane, step)}; in flight `
      + `${named(in_flight(lane, step))}, of which the tensor cores compute ${named(running(lane, step))}`)
    return `Step ${step}: ${said.join('. ')}.`
      + '\nThe order of the emulator’s event log, not time. A wgmma is drawn as long as the exponentials of 16 keys, '
      + 'and tiles are taken to be there; on a card nothing of this is exact. '
      + 'The tensor cores take what they are given one after the other. A lane is the first warp of its warpgroup.'
  },
}
