// Chapter 22's roles are the producer, the warp that adds to dQ, the consumers with their products, and the
// buffers between them.
import { boxes, circle, el, flow_marks, flow_words, rect, round, svg, text, triangles, WIDE, wrapped } from './draw.js'
import { conflicts_of, reduce } from './backward_roles_log.js'
import { box_at, scale } from './roles.js'
import { step_at } from './roles_log.js'

const SHAPE = '1,1,256,128,128'
const BREAKS = { '': 'none', 'dq-overwritten': 'dq-overwritten', 'reduce-before-landed': 'reduce-before-landed' }
const LANES = ['producer', 'adding warp', 'consumer 0', 'consumer 1']
const SHORT_LANES = ['prod.', 'adds', 'cons. 0', 'cons. 1']
const ROW = 18, THIN = 14, BUFFER = 19
const COLORS = { Q: 'a', dO: 'c', dS: 'd', dQ: 'b' }
// A product has the color of the tile that it reads.
const READS = { S: 'Q', dK: 'Q', dP: 'dO', dV: 'dO', dQ: 'dS' }

const run_of = (data, { broken }) => data[broken]
// Returns the part of the timeline that is drawn, [first step, steps].
const part_of = ({ end }, step, width) => {
  const size = Math.ceil(end / (width >= WIDE ? 2 : 4))
  return [Math.floor(step / size) * size, size]
}

// ---- words ----
const named = (list) => list.map(({ product, tile }) => `${product}${tile}`).join(', ')
const in_flight = ({ products }, now) => products.filter(({ given, known }) => given <= now && now <= known)

function doing(run, lane, now) {
  const { steps } = run.lanes[lane], step = step_at(steps, now)
  if (!step) return 'has ended'
  const { kind, tile, half, buffer, product, names } = step, { name, matrix } = run.buffers[buffer] ?? {}
  const flight = in_flight(run.lanes[lane], now)
  const halves = run.buffers.filter(({ matrix }) => matrix === 'dQ')[half ?? lane - 2]
  const red = halves && conflicts_of(halves).some(([from, to]) => from <= now && now <= to)
  const own = halves?.fills.find((fill) => fill.tile === tile), early = own?.reads[0][0] <= own?.stored
  return {
    ask: () => `requests ${matrix}${tile}${matrix === 'Q' ? ' with its LSE and D' : ''}`,
    empty: () => `waits until ${name} is empty`,
    full: () => `waits for ${matrix}${tile}`,
    issue: () => `issues ${product}${tile}`,
    products: () => `waits for ${names.join(' and ')}`,
    P: () => `computes P${tile}`,
    dS: () => `computes dS${tile}`,
    store_dS: () => `stores its part of dS${tile}`,
    meet: () => 'waits for the other consumer',
    read: () => `waits until its half of dQ${tile} has been read`,
    store_dQ: () => early ? `stores dQ${tile}, perhaps too late`
      : red ? `stores dQ${tile} while dQ${tile - 1} may be read` : `stores its half of dQ${tile}`,
    store: () => 'stores dV and dK',
    stored: () => `waits until consumer ${half} has stored dQ${tile}`,
    add: () => `issues the addition of half ${half} of dQ${tile}${early ? ', not stored yet' : ''}`,
    engine: () => half === 'all' ? 'waits until all additions are complete' : `waits until half ${half} of dQ has been read`,
  }[kind]() + (flight.length ? `; in flight ${named(flight)}` : '')
}

// ---- drawing ----
const WAITS = ['empty', 'full', 'products', 'meet', 'read', 'stored', 'engine']
const CLASS = { issue: ['muted', 5], P: ['soft-d', 1], dS: ['soft-d', 1], store_dS: ['d', 3],
  store_dQ: ['b', 3], store: ['muted', 3], add: ['b', 1] }
const WORDS = { P: ({ tile }) => `P${tile}`, dS: ({ tile }) => `dS${tile}`, empty: ({ name }) => name,
  products: ({ names }) => names.join(' '), stored: ({ tile, half }) => `dQ${tile}, half ${half}`, meet: () => 'dS' }

function draw_lane({ run, seen, x, unit, right, wide }, lane, y) {
  const steps = seen(run.lanes[lane].steps).map((step) => ({ ...step, name: run.buffers[step.buffer]?.name }))
  const of = (...kinds) => steps.filter(({ kind }) => kinds.includes(kind)), top = y + ROW + 3
  const word = ({ from, to }, words, bottom, more) => unit * (to - from + 1) < 6.4 * words.length + 2 ? ''
    : text(round((x(from) + x(to + 1)) / 2), bottom, words, { class: 'small middle', ...more })
  const products = seen(run.lanes[lane].products)
  return [
    text(4, y + 13, (wide ? LANES : SHORT_LANES)[lane], { class: 'small' }),
    rect(x.left, y, right - x.left, ROW, { class: 'soft' }),
    ['Q', 'dO'].map((matrix) => boxes(of('ask').filter(({ buffer }) => run.buffers[buffer].matrix === matrix)
      .map((step) => box_at(step, x, unit, y, ROW)), { class: COLORS[matrix] })),
    boxes(of(...WAITS).map((step) => box_at(step, x, unit, y, ROW)), { class: 'cell' }),
    Object.entries(CLASS).map(([kind, [color, inset]]) =>
      boxes(of(kind).map((step) => box_at(step, x, unit, y, ROW, inset)), { class: color })),
    steps.map((step) => WORDS[step.kind] ? word(step, WORDS[step.kind](step), y + 13,
      { class: `small middle${WAITS.includes(step.kind) ? ' muted' : ''}` }) : ''),
    triangles(steps.filter(({ frees, stored, arrives }) => (frees ?? stored ?? arrives) !== undefined)
      .map(({ to }) => [x(to + 1), y + ROW - 3]), { class: 'muted' }),
    lane < 2 ? '' : [
      text(4, top + 10.5, wide ? 'tensor cores' : 'tensor', { class: 'small' }),
      rect(x.left, top, right - x.left, THIN, { class: 'soft' }),
      Object.keys(READS).map((product) => boxes(products.filter((each) => each.product === product)
        .map((each) => box_at(each, x, unit, top, THIN, 0)), { class: `soft-${COLORS[READS[product]]}` })),
      products.map((each) => word(each, `${each.product}${each.tile}`, top + 10.5))],
  ]
}

// Draws a buffer with its tiles, and below them the times in which they are read.
function draw_buffer({ run, state, seen, x, unit, right, wide }, buffer, y) {
  const { name, matrix, fills } = run.buffers[buffer], color = COLORS[matrix]
  const spans = (list) => seen(list.map(([from, to]) => ({ from, to })))
  const conflicts = spans(conflicts_of(run.buffers[buffer]))
  return [
    text(4, y + 12, wide ? name : name.replace('dQ ', ''), { class: `small strong ${color}` }),
    rect(x.left, y, right - x.left, BUFFER - 3, { class: 'soft' }),
    seen(fills.map((fill, index) => ({ ...fill, index }))).map(({ from, to, tile, reads, index }) => {
      const key = `fill:${buffer}:${index}`, wide_enough = unit * (to - from + 1) > 20
      const box = [x(from), y, unit * (to - from + 1), BUFFER - 3]
      return el('g', { 'data-focus': key }, [
        rect(...box, { class: `soft-${color}` }),
        boxes(spans(reads).map((span) => box_at(span, x, unit, y + 11, 5, 0)), { class: color }),
        rect(box[0], y + 1, box[2], BUFFER - 5, { class: `line-${state.focus === key ? 'f' : color}`,
          'stroke-dasharray': state.focus === key ? null : '3 2' }),
        wide_enough ? text(x(from) + 3, y + 10.5, `${matrix}${tile}`, { class: 'small strong' }) : ''])
    }),
    boxes(conflicts.map((span) => box_at(span, x, unit, y + 11, 5, 0)), { class: 'e' })]
}

function draw_legend(broken, width, y) {
  const box = (name, top = 1, height = 12) => rect(0, top, 14, height, { class: name })
  return flow_marks([
    [20, 'requests Q, LSE, D', box('a')], [20, 'requests dO', box('c')],
    [20, 'waits', box('cell')],
    [20, 'issues a product', box('muted', 4, 6)],
    [20, 'computes P or dS', box('soft-d')],
    [20, 'stores dS', box('d', 2, 10)],
    [20, 'stores dQ, adds dQ', box('b', 2, 10)],
    [18, 'arrives', triangles([[6, 4]], { class: 'muted' })],
    [32, 'buffer taken', rect(0, 2, 26, 10, { class: 'line-a', 'stroke-dasharray': '3 2' })],
    [20, 'is read', box('a', 6, 5)],
    ...broken ? [[20, 'read too early or too late', box('e', 6, 5)]] : [],
  ], width, y)
}

export default {
  title: 'Roles in the backward pass: a producer, an adding warp, two consumers',
  sources: Object.fromEntries(Object.keys(BREAKS).map((broken) => [broken, ['ch22_backward_on_hopper',
    '--device', 'emulator', '--shape', SHAPE, ...(broken ? ['--break', broken] : []), '--events', '{json}']])),
  data: (logs) => Object.fromEntries(Object.entries(logs).map(([broken, log]) => [broken, reduce(log)])),
  stills: {
    'chapters/22_backward_on_hopper/figures/backward_roles.svg': {},
    'chapters/22_backward_on_hopper/figures/adding_dq.svg': { step: 35 },
    'chapters/22_backward_on_hopper/figures/dq_overwritten.svg': { broken: 'dq-overwritten', step: 57 },
  },
  initial: () => ({ broken: '', step: 15 }),

  controls: (data, state) => [
    { key: 'broken', type: 'choice', label: 'break', options: Object.entries(BREAKS) },
    { key: 'step', type: 'step', label: 'step', min: 0, max: run_of(data, state).end - 1, play: 250 },
  ],
  settle: (data, state) => ({ ...state, step: Math.min(state.step, run_of(data, state).end - 1) }),
  drag(data, state, { x }, width) {
    const run = run_of(data, state), [first, size] = part_of(run, state.step, width)
    const last = Math.min(first + size, run.end) - 1
    return { ...state, step: Math.max(first, Math.min(last, first + scale(size, width).back(x))) }
  },

  draw(data, state, width) {
    const run = run_of(data, state), wide = width >= WIDE, [first, size] = part_of(run, state.step, width)
    const { left, unit, x: at } = scale(size, width), last = first + size - 1, [hazard] = run.hazards
    const x = Object.assign((now) => at(now - first), { left })
    const seen = (list) => list.filter(({ from, to }) => from <= to && from <= last && to >= first)
      .map((each) => ({ ...each, from: Math.max(each.from, first), to: Math.min(each.to, last) }))
    const view = { run, state, seen, x, unit, wide, right: x(last + 1) }
    const heading = flow_words([
      [state.broken ? `Broken: ${state.broken}` : 'Chapter 22', { class: 'strong' }],
      hazard ? [`${hazard.kind}, ${hazard.accesses} times`, { class: 'e strong', name: 'hazard' }]
        : ['4 tiles of 64 queries', { class: 'muted' }],
      [`steps ${first} to ${Math.min(last, run.end - 1)} of ${run.end}`, { class: 'muted' }]], width, 14)
    const top = heading.bottom + 4
    const y_of = (lane) => top + lane * (ROW + 5) + Math.max(lane - 2, 0) * (THIN + 5)
    const buffers = y_of(4) + 2, bottom = buffers + run.buffers.length * BUFFER
    const now = LANES.map((name, lane) =>
      wrapped(`${wide ? name : SHORT_LANES[lane]}: ${doing(run, lane, state.step)}`, width, 9)[0])
    const legend = draw_legend(state.broken, width, bottom + 14 * now.length + 8)
    return svg(width, legend.bottom + 12, [
      heading.drawn,
      LANES.map((_, lane) => draw_lane(view, lane, y_of(lane))),
      run.buffers.map((_, buffer) => draw_buffer(view, buffer, buffers + buffer * BUFFER)),
      rect(x(state.step), top - 3, unit, bottom - top + 1, { class: 'line-f' }),
      run.hazards.flatMap((each) => each.at).flatMap(([lane, step]) => seen([run.lanes[lane].steps[step]])
        .map(({ from, to }) => circle((x(from) + x(to + 1)) / 2, y_of(lane) + ROW / 2, 9, { class: 'line-e' }))),
      now.map((words, lane) => text(4, bottom + 12 + 14 * lane, words, { class: 'small', name: `doing_${lane}` })),
      legend.drawn])
  },

  describe(data, state) {
    const run = run_of(data, state), [, buffer, index] = state.focus?.match(/^fill:(\d+):(\d+)$/) ?? []
    const { name, matrix, fills } = run.buffers[buffer] ?? {}, fill = fills?.[index]
    const about = !fill ? [] : [`${matrix}${fill.tile} takes ${name} from step ${fill.from} to ${fill.to}. It is read by `
      + `${fill.reads.map(([from, to, reader]) => `${reader} in steps ${from} to ${to}`).join(', ')}.`]
    const found = run.hazards.map(({ text }) => `Found: ${text}.`)
    return [`Step ${state.step}: ${LANES.map((lane, i) => `${lane} ${doing(run, i, state.step)}`).join('; ')}.`,
      ...about, ...found].join(' ')
      + '\nThe picture shows the order of the emulator’s event log. It does not show time: each step is drawn as early as '
      + 'the steps that it waits for allow, and the lengths are chosen. The tensor cores execute the products of both '
      + 'consumers one after the other, in the order of issue. A wait that is over at once is not drawn. K and V, which '
      + 'stay in shared memory, are not drawn either. The copy engine reads half of dQ until the adding warp’s wait for it '
      + 'is over, which is as late as the program allows. A lane is one warp of its role.'
  },
}
