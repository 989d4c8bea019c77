// Chapter 12's four mbarriers, with their phases and parities, the missing arrivals and bytes, the threads that
// start copies and the threads that wait.
import { boxes, circle, COLOR, el, flow_marks, flow_words, lines, rect, svg, text, triangles, WIDE, wrapped }
  from './draw.js'
import { copies_of, mbarriers_of, reduce, state_of, wrong } from './mbarriers_log.js'

const SHAPE = '1,1,128,220,128'
const TILE_ROWS = { Q: 128, K: 48, V: 48 }, ROWS = { Q: 128, K: 220, V: 220 }
const BREAKS = { '': 'none', 'wrong-parity': 'wrong-parity', 'expect-too-little': 'expect-too-little' }

// The relative width of each kind of column.
const WEIGHT = { ask: 1, wait: 1.25, barrier: 0.6, multiply: 1.6, store: 1 }
const edges_of = ({ columns }) => columns.reduce((edges, { kind }) =>
  [...edges, edges.at(-1) + WEIGHT[kind]], [0])
function scale(run, width) {
  const left = width >= WIDE ? 66 : 46, edges = edges_of(run), unit = (width - 4 - left) / edges.at(-1)
  const x = (column) => left + edges[column] * unit
  return { x, middle: (column) => (x(column) + x(column + 1)) / 2,
    back: (at) => edges.findLastIndex((edge) => left + edge * unit <= at) }
}

// ---- words ----
const plain = (bytes) => `${bytes} byte${bytes === 1 ? '' : 's'}`
const tile_name = ({ matrix, tile }) => matrix === 'Q' ? 'Q' : `${matrix} tile ${tile}`
const phase_words = (phase) => `phase ${phase}, parity ${phase & 1}`
const passes = (phase, parity) => (phase & 1) !== parity ? 'passes' : 'waits'

function rows_words({ matrix, at: [, first] }) {
  const end = first + TILE_ROWS[matrix], there = Math.min(end, ROWS[matrix])
  const zeros = there < end ? `, of which ${end - there} do not exist and come as zeros` : ''
  return `rows ${first} to ${end - 1}${zeros}`
}

// Returns the tile that a step multiplies or waits for, which is the last one that was requested there.
const tile_at = (run, column) =>
  copies_of(run, run.columns[column].mbarrier).findLast((copy) => copy.column < column)

function doing(run, column) {
  const step = run.columns[column], name = run.mbarriers[step.mbarrier]?.name
  const tile = step.kind === 'wait' || step.kind === 'multiply' ? tile_name(tile_at(run, column)) : ''
  const blocked = step.kind === 'wait' && column === run.columns.length - 1
  return {
    ask: () => `one thread of warp 0 expects ${step.expects} bytes at ${name} and asks for ${tile_name(step)}`,
    wait: () => `all wait at ${name} for parity ${step.parity}, for ${tile}${blocked ? ', for ever'
      : wrong(run, column) ? ': passes at once' : ''}`,
    barrier: () => column < 4 ? 'block_sync: nobody waits before the mbarriers are there'
      : 'block_sync: all have read, the next tiles may come',
    multiply: () => step.matrix === 'K' ? `S = Q Kᵀ with ${tile}` : `O += P V with ${tile}`,
    store: () => 'each warp stores its rows of O',
  }[step.kind]()
}

function describe_copy(run, mbarrier, copy) {
  const { name } = run.mbarriers[mbarrier]
  const end = copy.end === null ? 'That phase never ends' : 'It has landed when a wait for that phase is over'
  return `${tile_name(copy)}, ${rows_words(copy)}: coordinates {${copy.at.join(', ')}}. ${plain(copy.expects)} `
    + `are expected and ${plain(copy.bytes)} come, counted by ${phase_words(copy.phase)} of ${name}. ${end}.`
}

// ---- drawing ----
const LANE = 35, STRIP = 13, ROW = 17, PITCH = 21

// Draws an mbarrier with its phases, and below them the tile of the current phase.
function draw_mbarrier({ run, state, x, middle, right, wide }, index, y) {
  const { name, matrix } = run.mbarriers[index], copies = copies_of(run, index), color = COLOR[matrix]
  const end_of = ({ end }) => end === null ? right : run.columns[end].kind === 'wait' ? middle(end) : x(end)
  const ends = copies.filter(({ end }) => end !== null).map(end_of)
  const phases = [x(0), ...ends].map((from, phase) => ({ phase, from, to: ends[phase] ?? right }))
  return [
    text(4, y + 10, wide ? name : name.replace('_full', ''), { class: 'small strong' }),
    phases.map(({ phase, from, to }) => [
      rect(from, y, to - from, STRIP, { class: phase & 1 ? 'soft-f' : 'soft' }),
      to - from < 20 ? '' : text(from + 4, y + 10,
        to - from > 120 ? phase_words(phase) : wide ? `phase ${phase}` : phase, { class: 'small' })]),
    copies.map((copy, i) => {
      const from = x(copy.column), asked = x(copy.column + 1), to = end_of(copy), key = `copy:${index}:${i}`
      const bar = [from, y + STRIP + 2, to - from, STRIP], on = state.focus === key
      return el('g', { 'data-focus': key }, [
        rect(from, y, Math.max(to - from, 8), LANE - 6, { opacity: 0 }),
        boxes(copy.reads.map((column) => [x(column), bar[1], x(column + 1) - x(column), STRIP]),
          { class: copy.reads[0] < copy.end ? 'e' : color }),
        rect(...bar, { class: copy.end === null ? 'line-e' : `line-${color}`, 'stroke-dasharray': '3 2' }),
        on ? rect(bar[0] - 2, bar[1] - 2, bar[2] + 4, bar[3] + 4, { class: 'line-f' }) : '',
        to - asked < 22 ? '' : text(asked + 2, bar[1] + 10, matrix === 'Q' ? 'Q' : `${matrix}${copy.tile}`,
          { class: `small strong ${color}` })])
    }),
    lines(ends.map((end) => [[end, y - 2], [end, y + 2 * STRIP + 4]]), { class: 'on' })]
}

function draw_warp({ run, x, middle, right }, warp, y) {
  const does = run.columns.map((step, column) => ({ ...step, column }))
    .filter(({ column }) => run.warps[warp][column] === 'x')
  const of = (kind) => does.filter((step) => step.kind === kind)
  const cell = ({ column }, inset) => [x(column) + 1, y + inset, x(column + 1) - x(column) - 2, ROW - 2 * inset]
  const letters = does.filter(({ kind }) => kind === 'wait' || kind === 'multiply')
    .map(({ column, matrix, parity }) => [column, parity ?? (matrix === 'K' ? 'S' : 'O')])
  const waits = (is_wrong) => of('wait').filter(({ column }) => wrong(run, column) === is_wrong)
  return [
    text(4, y + 13, `warp ${warp}`, { class: 'small' }),
    rect(x(0), y, right - x(0), ROW, { class: 'soft' }),
    of('ask').map((ask) => rect(...cell(ask, 1), { class: COLOR[ask.matrix] })),
    boxes(of('multiply').map((step) => cell(step, 1)), { class: 'soft-d' }),
    boxes(of('store').map((step) => cell(step, 7)), { class: 'muted' }),
    boxes(waits(false).map((step) => cell(step, 1)), { class: 'cell' }),
    boxes(waits(true).map((step) => cell(step, 1)), { class: 'soft-e' }),
    boxes(waits(true).map((step) => cell(step, 1)), { class: 'line-e' }),
    text(letters.map(([column]) => +middle(column).toFixed(1)).join(' '), y + 12.5,
      letters.map(([, letter]) => letter).join(''), { class: 'small middle' })]
}

const HEADS = ['', 'phase', 'parity', 'arrivals to come', 'bytes to come', 'a wait for 0', 'a wait for 1']
const SHORT_HEADS = ['', 'phase', 'parity', 'arrive', 'bytes', 'wait 0', 'wait 1']

const NAMES = ['', 'phase', 'parity', 'arrivals', 'bytes', 'wait0', 'wait1']

// Draws the phase of each mbarrier at the cursor, and the missing arrivals.
function draw_table({ run, state, wide }, y) {
  const left = wide ? [4, 90, 145, 205, 320, 430, 530] : [4, 48, 92, 136, 184, 240, 300]
  const key = ({ name }) => name.replace('_full', '').replace(' ', '')
  const row = (cells, top, more) => cells.map((cell, i) => text(left[i], top, cell, more(i)))
  return [
    row(wide ? HEADS : SHORT_HEADS, y, () => ({ class: 'small muted' })),
    run.mbarriers.map((mbarrier, i) => {
      const { phase, arrivals, bytes } = state_of(run, i, state.step)
      const color = (column) => column === 0 ? ` strong ${COLOR[mbarrier.matrix]}`
        : column === 4 && bytes < 0 ? ' strong e' : ''
      return row([wide ? mbarrier.name : mbarrier.name.replace('_full', ''), phase, phase & 1, arrivals, bytes,
        passes(phase, 0), passes(phase, 1)], y + 15 + 15 * i, (column) => ({ class: `small${color(column)}`,
        name: column === 0 ? undefined : `${NAMES[column]}_${key(mbarrier)}` }))
    })]
}

function draw_legend(broken, width, y) {
  const box = (name) => rect(0, 1, 14, 12, { class: name })
  const items = [
    [20, 'even phase, parity 0', box('soft')],
    [20, 'odd phase, parity 1', box('soft-f')],
    [32, 'copy in flight', rect(0, 2, 26, 10, { class: 'line-b', 'stroke-dasharray': '3 2' })],
    [20, 'asks', box('b')],
    [20, 'waits, for parity 0', [box('cell'), text(7, 11, '0', { class: 'small middle' })]],
    [20, 'multiplies', [box('soft-d'), text(7, 11, 'S', { class: 'small middle' })]],
    [18, 'barrier', triangles([[6, 5]], { class: 'muted' })],
    ...broken === 'wrong-parity' ? [[20, 'passes at once', [box('soft-e'), box('line-e')]],
      [20, 'read, landed or not', box('e')]] : [],
  ]
  return flow_marks(items, width, y)
}

export default {
  title: 'Phases of four mbarriers: one thread asks, all wait',
  sources: Object.fromEntries(Object.keys(BREAKS).map((broken) => [broken, ['ch12_tma', '--device', 'emulator',
    '--shape', SHAPE, ...(broken ? ['--break', broken] : []), '--events', '{json}']])),
  data: (logs) => Object.fromEntries(Object.entries(logs).map(([broken, log]) =>
    [broken, reduce(log, mbarriers_of(logs['']))])),
  stills: {
    'chapters/12_tma/figures/mbarriers.svg': {},
    'chapters/12_tma/figures/wrong_parity.svg': { broken: 'wrong-parity', step: 15 },
  },
  initial: () => ({ broken: '', step: 13 }),

  controls: (data, { broken }) => [
    { key: 'broken', type: 'choice', label: 'break', options: Object.entries(BREAKS) },
    { key: 'step', type: 'step', label: 'step', min: 0, max: data[broken].columns.length - 1, play: 600 },
  ],
  settle: (data, state) => ({ ...state, step: Math.min(state.step, data[state.broken].columns.length - 1) }),
  drag: (data, state, { x }, width) => ({ ...state,
    step: Math.max(0, Math.min(data[state.broken].columns.length - 1, scale(data[''], width).back(x))) }),

  draw(data, state, width) {
    const run = data[state.broken], whole = data[''], wide = width >= WIDE, { x, middle } = scale(whole, width)
    const view = { run, state, x, middle, wide, right: x(whole.columns.length) }
    const [hazard] = run.hazards
    const heading = flow_words([
      [state.broken ? `Broken: ${state.broken}` : 'Chapter 12', { class: 'strong' }],
      hazard ? [`${hazard.kind}, ${hazard.accesses === 1 ? 'once' : `${hazard.accesses} times`}`,
        { class: 'e strong', name: 'hazard' }] : ['128 queries, 220 keys, tiles of 48', { class: 'muted' }],
    ], width, 14)
    const lanes = heading.bottom + 8, warps = lanes + run.mbarriers.length * LANE + 6
    const y_of = (warp) => warps + warp * PITCH, bottom = y_of(run.warps.length - 1) + ROW
    const barriers = run.columns.flatMap(({ kind }, column) => kind === 'barrier' ? [middle(column)] : [])
    const now = wrapped(`${state.step}: ${doing(run, state.step)}`, width, 11)
    const table = bottom + (wide ? 46 : 60)
    const legend = draw_legend(state.broken, width, table + 15 * run.mbarriers.length + 8)
    return svg(width, legend.bottom + 12, [
      heading.drawn,
      run.mbarriers.map((_, i) => draw_mbarrier(view, i, lanes + i * LANE)),
      run.warps.map((_, warp) => draw_warp(view, warp, y_of(warp))),
      lines(barriers.map((at) => [[at, warps - 3], [at, bottom + 3]]), { class: 'on', style: 'stroke-width:1' }),
      triangles(barriers.map((at) => [at, bottom + 3]), { class: 'muted' }),
      rect(x(state.step), lanes - 5, x(state.step + 1) - x(state.step), bottom - lanes + 9, { class: 'line-f' }),
      run.hazards.map(({ warp, column }) =>
        circle(middle(column), y_of(warp) + ROW / 2, 9, { class: 'line-e' })),
      now.map((words, i) => text(4, bottom + 26 + 14 * i, words, { class: 'small strong', name: `doing_${i}` })),
      draw_table(view, table), legend.drawn])
  },

  describe(data, state) {
    const run = data[state.broken], [, mbarrier, index] = state.focus?.match(/^copy:(\d):(\d+)$/) ?? []
    const copy = mbarrier && copies_of(run, +mbarrier)[index]
    const states = run.mbarriers.map(({ name }, i) => {
      const { phase, arrivals, bytes } = state_of(run, i, state.step)
      const lacks = [arrivals ? `${arrivals} arrival` : '', bytes > 0 ? plain(bytes) : ''].filter(Boolean)
      return `${name} is in ${phase_words(phase)}, and ${bytes < 0 ? `has ${plain(-bytes)} more than it expects`
        : `lacks ${lacks.join(' and ') || 'nothing'}`}`
    })
    const waits = run.columns.flatMap(({ kind, mbarrier, parity }, column) => kind !== 'wait' ? []
      : [`${run.mbarriers[mbarrier].name} for parity ${parity}${wrong(run, column) ? ' (passes at once)' : ''}`])
    return [`Step ${state.step}: ${doing(run, state.step)}. ${states.join('; ')}.`,
      ...copy ? [describe_copy(run, +mbarrier, copy)] : [],
      ...run.hazards.map(({ text }) => `Found: ${text}.`)].join(' ')
      + `\nThe waits of each warp, in order: ${waits.join(', ')}. A wait for a parity passes if the phase that `
      + 'is running has the other one. The emulator lets a tile land when somebody waits for its phase, as late '
      + 'as it may; on a card the bytes come at some time before. Behind a wait that passes at once it goes on '
      + 'as if the tile were there. Steps are not to scale.'
  },
}
