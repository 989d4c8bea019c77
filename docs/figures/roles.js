// Chapter 14's roles, with the steps of the producer and the consumers, and the buffers between them.
import { boxes, circle, COLOR, el, flow_marks, flow_words, rect, round, svg, text, triangles, WIDE, wrapped }
  from './draw.js'
import { arrivals_of, buffers_of, fills_of, length_of, reduce, state_of, step_at } from './roles_log.js'

const SHAPE = '1,1,192,448,128'
const BREAKS = { '': 'none', 'empty-count': 'empty-count', 'no-empty-wait': 'no-empty-wait' }
const LANES = ['producer', 'consumer 0', 'consumer 1', 'consumer 2']
const SHORT_LANES = ['prod.', 'cons. 0', 'cons. 1', 'cons. 2']
const LANE = 27, BUFFER = 25, ROW = 19

const run_of = (data, { broken }) => data.runs[broken]
// Returns the scale of a drawing of `steps` steps, which is the left margin, the width of a step, and x of a
// moment and the reverse.
export function scale(steps, width) {
  const left = width >= WIDE ? 76 : 50, unit = (width - 4 - left) / steps
  return { left, unit, x: (now) => left + now * unit, back: (at) => Math.floor((at - left) / unit) }
}

// All buffers but Q's, which is filled only once.
const kv_buffers = ({ buffers }) => buffers.flatMap(({ empty }, buffer) => empty === undefined ? [] : [buffer])

// ---- words ----
const tile_of = (data, { buffer, tile }) => `${data.buffers[buffer].matrix} tile ${tile}`
const lies_there = (run, { buffer, from }) => fills_of(run, buffer).findLast(({ asked }) => asked < from).tile
const wrong = (run, step) => ['S', 'O'].includes(step.kind) && lies_there(run, step) !== step.tile

function doing(data, run, steps, now) {
  const step = step_at(steps, now)
  if (!step) return now > steps.at(-1).to ? 'has ended' : 'has not come further yet'
  const { kind, buffer, phase, parity, is_empty, to } = step, name = data.buffers[buffer]?.name
  const is_wrong = wrong(run, step) ? `, but K tile ${lies_there(run, step)} lies there` : ''
  return {
    start: () => 'block_sync: the mbarriers are there',
    registers: () => 'setmaxnreg: registers change hands',
    ask: () => `asks for ${name === 'Q' ? 'Q' : tile_of(data, step)}`,
    wait: () => `${now < to ? 'waits' : 'has waited'} for ${name} ${is_empty ? 'empty' : 'full'}, `
      + (phase < 0 ? `before phase 0, parity ${parity}` : `phase ${phase}, parity ${parity}`),
    S: () => `S = Q Kᵀ with ${tile_of(data, step)}${is_wrong}`,
    softmax: () => 'row maximum, must O be rescaled?',
    O: () => `P = exp(S − m), O += P V with ${tile_of(data, step)}${is_wrong.replace('K', 'V')}`,
    store: () => 'stores its rows of O',
  }[kind]()
}

// ---- drawing ----
export const box_at = ({ from, to }, x, unit, y, height, inset = 1) =>
  [x(from) + 0.5, y + inset, (to - from + 1) * unit - 1, height - 2 * inset]

function draw_lane({ data, run, x, unit, wide, right }, steps, lane, y) {
  const box = (step, inset) => box_at(step, x, unit, y, ROW, inset)
  const of = (kinds) => steps.filter(({ kind }) => kinds.includes(kind))
  const products = of(['S', 'O']), bad = products.filter((step) => wrong(run, step))
  const middle = ({ from, to }) => (x(from) + x(to + 1)) / 2
  return [
    text(4, y + 14, (wide ? LANES : SHORT_LANES)[lane], { class: 'small strong' }),
    rect(x(0), y, right - x(0), ROW, { class: 'soft' }),
    of(['ask']).map((step) => rect(...box(step), { class: COLOR[data.buffers[step.buffer].matrix] })),
    boxes(of(['start']).map((step) => box(step, 7)), { class: 'muted' }),
    boxes(of(['registers']).map((step) => box(step, 4)), { class: 'f' }),
    boxes(of(['store']).map((step) => box(step, 7)), { class: 'muted' }),
    boxes(of(['wait']).map((step) => box(step)), { class: 'cell' }),
    boxes(of(['softmax']).map((step) => box(step, 5)), { class: 'd' }),
    boxes(products.filter((step) => !bad.includes(step)).map((step) => box(step)), { class: 'soft-d' }),
    boxes(bad.map((step) => box(step)), { class: 'soft-e' }),
    boxes(bad.map((step) => box(step)), { class: 'line-e' }),
    products.map((step) => text(middle(step), y + 13.5, `${step.kind}${unit > 6 ? step.tile : ''}`,
      { class: bad.includes(step) ? 'small strong middle e' : 'small middle' })),
    wide ? text(of(['wait']).map((step) => round(middle(step))).join(' '), y + 13.5,
      of(['wait']).map(({ buffer }) => data.buffers[buffer].matrix).join(''),
      { class: 'small middle muted' }) : '',
    triangles(products.filter(({ arrives }) => arrives !== undefined).map(({ to }) => [x(to + 1), y + ROW - 2]),
      { class: 'muted' }),
  ]
}

// Draws a buffer with its tiles, from the request until the last read, and their readers.
function draw_buffer({ data, run, state, x, right }, buffer, y) {
  const { name, matrix } = data.buffers[buffer], color = COLOR[matrix], key = (i) => `fill:${buffer}:${i}`
  const fills = fills_of(run, buffer)
  return [
    text(4, y + 13, name, { class: `small strong ${color}` }),
    rect(x(0), y, right - x(0), ROW, { class: 'soft' }),
    fills.map(({ asked, landed, tile, reads }, i) => {
      const next = fills[i + 1]?.asked ?? Infinity
      const end = Math.min(next, Math.max(landed ?? asked, ...reads.map(([, to]) => to)) + 1)
      const of = (is_own) => [...new Set(reads.filter(([, , own]) => (own === tile) === is_own)
        .map(([from, to]) => `${from},${to}`))].map((pair) => pair.split(',').map(Number))
        .map(([from, to]) => [x(from), y + 2, x(Math.min(to + 1, end)) - x(from), ROW - 4])
      // The name is drawn where there are no other words.
      const ends = [asked, ...reads.map(([, to]) => to + 1)].sort((one, other) => one - other)
      const next_read = (from) => Math.min(end, ...reads.flatMap(([at, to]) => to < from ? [] : [at]))
      const room = ends.map((from) => [from, next_read(from)]).find(([from, to]) => x(to) - x(from) > 20)
      return el('g', { 'data-focus': key(i) }, [
        rect(x(asked), y, x(end) - x(asked), ROW, { class: `soft-${color}` }),
        boxes(of(true), { class: color }), boxes(of(false), { class: 'e' }),
        rect(x(asked), y + 1, x(end) - x(asked), ROW - 2, { class: `line-${color}`, 'stroke-dasharray': '3 2' }),
        state.focus !== key(i) ? ''
          : rect(x(asked) - 2, y - 1, x(end) - x(asked) + 4, ROW + 2, { class: 'line-f' }),
        room ? text(x(room[0]) + 3, y + 13.5, `${matrix}${tile}`, { class: 'small strong' }) : ''])
    })]
}

const HEADS = ['buffer', 'tile', 'it is', 'full: phase, parity', 'empty: phase, parity', 'arrivals to come']
const SHORT_HEADS = ['', 'tile', 'it is', 'full', 'empty', 'arrivals']
const NAMES = ['', 'tile', 'what', 'full', 'empty', 'lacks']

function draw_table({ data, run, state, wide }, y) {
  const left = wide ? [4, 76, 130, 220, 360, 510] : [4, 40, 80, 142, 208, 280]
  const row = (cells, top, more) => cells.map((cell, i) => text(left[i], top, cell, more(i)))
  const phase = (number) => wide ? `${number}, ${number & 1}` : `${number}, par. ${number & 1}`
  return [
    row(wide ? HEADS : SHORT_HEADS, y, () => ({ class: 'small muted' })),
    kv_buffers(data).map((buffer, i) => {
      const { name, matrix } = data.buffers[buffer], key = name.replace(' ', '')
      const { tile, what, full, empty, lacks } = state_of(run, buffer, state.step)
      return row([name, what === 'empty' ? '–' : `${matrix}${tile}`, what, phase(full), phase(empty), lacks],
        y + 15 + 15 * i, (column) => ({ class: column ? 'small' : `small strong ${COLOR[matrix]}`,
          name: column ? `${NAMES[column]}_${key}` : undefined }))
    })]
}

function draw_legend(broken, width, y) {
  const box = (name, top = 1, height = 12) => rect(0, top, 14, height, { class: name })
  return flow_marks([
    [20, 'asks for Q, K, V', box('b')],
    [20, 'waits', box('cell')],
    [20, 'S = Q Kᵀ', [box('soft-d'), text(7, 11, 'S', { class: 'small middle' })]],
    [20, 'row maximum', box('d', 4, 7)],
    [20, 'exponentials, O += P V', [box('soft-d'), text(7, 11, 'O', { class: 'small middle' })]],
    [18, 'arrives at empty', triangles([[6, 4]], { class: 'muted' })],
    [32, 'buffer taken', [rect(0, 2, 26, 10, { class: 'soft-b' }),
      rect(0, 2, 26, 10, { class: 'line-b', 'stroke-dasharray': '3 2' })]],
    [20, 'is read', box('b')],
    ...broken ? [[20, 'another tile is read', [box('soft-e'), box('line-e')]]] : [],
  ], width, y)
}

export default {
  title: 'Roles: a producer, three consumers, four buffers',
  sources: Object.fromEntries(Object.keys(BREAKS).map((broken) => [broken, ['ch14_warp_specialization',
    '--device', 'emulator', '--shape', SHAPE, ...(broken ? ['--break', broken] : []), '--events', '{json}']])),
  data(logs) {
    const buffers = buffers_of(logs[''])
    return { buffers, runs: Object.fromEntries(Object.entries(logs).map(([broken, log]) =>
      [broken, reduce(log, buffers)])) }
  },
  stills: {
    'chapters/14_warp_specialization/figures/roles.svg': {},
    'chapters/14_warp_specialization/figures/empty_count.svg': { broken: 'empty-count', step: 31 },
    'chapters/14_warp_specialization/figures/no_empty_wait.svg': { broken: 'no-empty-wait', step: 12 },
  },
  initial: () => ({ broken: '', step: 17 }),

  controls: (data, state) => [
    { key: 'broken', type: 'choice', label: 'break', options: Object.entries(BREAKS) },
    { key: 'step', type: 'step', label: 'step', min: 0, max: length_of(run_of(data, state)) - 1, play: 500 },
  ],
  settle: (data, state) => ({ ...state, step: Math.min(state.step, length_of(run_of(data, state)) - 1) }),
  drag(data, state, { x }, width) {
    const run = run_of(data, state), step = scale(length_of(run), width).back(x)
    return { ...state, step: Math.max(0, Math.min(length_of(run) - 1, step)) }
  },

  draw(data, state, width) {
    const run = run_of(data, state), wide = width >= WIDE, { x, unit } = scale(length_of(run), width)
    const view = { data, run, state, x, unit, wide, right: x(length_of(run)) }
    const [hazard] = run.hazards
    const heading = flow_words([
      [state.broken ? `Broken: ${state.broken}` : 'Chapter 14', { class: 'strong' }],
      hazard ? [`${hazard.kind}, ${hazard.accesses} times`, { class: 'e strong', name: 'hazard' }]
        : ['192 queries, 448 keys: 4 tiles of 112', { class: 'muted' }],
    ], width, 14)
    const lanes = heading.bottom + 4, y_of = (lane) => lanes + lane * LANE
    const own = kv_buffers(data)
    const buffers = y_of(run.lanes.length) + 4, bottom = buffers + own.length * BUFFER
    const now = run.lanes.map((steps, lane) =>
      `${(wide ? LANES : SHORT_LANES)[lane]}: ${doing(data, run, steps, state.step)}`)
      .map((words, lane) => [lane, wide ? words : wrapped(words, width, 9)[0]])
    const table = bottom + 14 + 14 * now.length + 8
    const legend = draw_legend(state.broken, width, table + 15 * own.length + 8)
    return svg(width, legend.bottom + 12, [
      heading.drawn,
      run.lanes.map((steps, lane) => draw_lane(view, steps, lane, y_of(lane))),
      own.map((buffer, i) => draw_buffer(view, buffer, buffers + i * BUFFER)),
      rect(x(state.step), lanes - 3, unit, bottom - lanes + 1, { class: 'line-f' }),
      run.hazards.flatMap(({ at }) => at).map(([lane, step]) => {
        const { from, to } = run.lanes[lane][step]
        return circle((x(from) + x(to + 1)) / 2, y_of(lane) + ROW / 2, 9, { class: 'line-e' })
      }),
      now.map(([lane, words]) =>
        text(4, bottom + 12 + 14 * lane, words, { class: 'small', name: `doing_${lane}` })),
      draw_table(view, table), legend.drawn])
  },

  describe(data, state) {
    const run = run_of(data, state), [, buffer, index] = state.focus?.match(/^fill:(\d):(\d+)$/) ?? []
    const fill = buffer && fills_of(run, +buffer)[index]
    const lanes = run.lanes.map((steps, lane) => `${LANES[lane]} ${doing(data, run, steps, state.step)}`)
    const others = [...new Set(fill?.reads.flatMap(([, , tile]) => tile === fill.tile ? [] : [tile]))]
    const about = !fill ? [] : [`${tile_of(data, { buffer, ...fill })} in buffer ${data.buffers[buffer].name}: `
      + `asked for at ${fill.asked}, counted by phase ${fill.phase} of full, `
      + (fill.landed === null ? 'nobody waits for it' : `a wait for it is over at ${fill.landed}`)
      + `, read ${fill.reads.length} times`
      + `${others.length ? `, also by who wants tile ${others.join(' and ')}` : ''}.`]
    const found = run.hazards.map(({ text }) => `Found: ${text}.`)
    return [`Step ${state.step}: ${lanes.join('; ')}.`, ...about, ...found].join(' ')
      + '\nThe order of the emulator’s event log, not time: each step stands as early as what it waits for '
      + 'allows, and how long it is drawn says nothing of how long it takes. So the consumers are drawn in step; '
      + 'on a card they drift apart. A lane is one warp of its warpgroup, of the producer one thread. '
      + `Of empty, ${arrivals_of(run)} arrivals end a phase; of full, the arrival and the bytes of a copy. A `
      + 'tile is drawn as landed when somebody has waited for it: as late as it may. Which consumer comes late in a '
      + 'broken run is the emulator’s choice; on a card nobody knows it.'
  },
}
