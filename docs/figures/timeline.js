// The operations in flight while a warp multiplies, that is, copies, waits, barriers and mma of chapters 04 to 08.
import { boxes, circle, COLOR, el, flow_marks, flow_words, line, lines, rect, round, svg, text, triangles, WIDE }
  from './draw.js'
import { barriers_around, count, describe_copy, doing, end_of, in_flight, listed, meanwhile, missing_in,
  name_of, places, product, reduce, short, somewhere, steps_of, track_of, usual } from './timeline_log.js'

const SHAPE = '1,1,64,256,64'
const BREAKS = ['missing-wait', 'wait-too-few', 'conditional-commit', 'missing-barrier']
// Chapter 08's tiles are twice as large in both dimensions, so it gets twice as many queries and
// keys. With these seeds the emulator's example of a missing barrier involves two different warps.
const RUNS = {
  ch04: { label: '04', program: 'ch04_swizzling', breaks: ['missing-wait', 'missing-barrier'], seed: 7 },
  ch05: { label: '05', program: 'ch05_pipelining', breaks: BREAKS, seed: 7 },
  stages3: { label: '05, three stages', program: 'ch05_pipelining', breaks: [], stages: 3 },
  ch07: { label: '07', program: 'ch07_better_pipelining', breaks: BREAKS, seed: 7 },
  ch08: { label: '08', program: 'ch08_fewer_instructions', breaks: BREAKS, seed: 7, shape: '1,1,128,512,64' },
}
const command = ({ program, seed, stages, shape = SHAPE }, broken) => [
  program, '--device', 'emulator', '--shape', shape, ...(stages ? ['--stages', `${stages}`] : []),
  ...(broken ? ['--break', broken, '--schedule-seed', `${seed}`] : []), '--events', '{json}']

// ---- the reader's shape, run in the page ----

const MOST_STEPS = 2500  // steps of a warp that fit the picture
const KEPT = 8  // runs
const key_of = ({ chapter, shape }, broken) => `${chapter} ${broken} ${shape.trim()}`

function live(data, state) {
  if (!state.shape.trim()) return null
  const broken = ['', state.broken].find((one) => !data.live?.[key_of(state, one)])
  if (broken === undefined) return null
  const { program, seed, stages } = RUNS[state.chapter]
  return { key: key_of(state, broken), request: { chapter: Number(program.slice(2, 4)), shape: state.shape.trim(), events: 1e6,
    ...stages && { stages }, ...broken && { breaks: [broken], schedule_seed: seed } } }
}

function heard(data, { key }, answer) {
  const run = answer.error ? { problem: answer.error } : reduce(answer)
  const told = run.problem || steps_of(run) <= MOST_STEPS ? run
    : { problem: `${steps_of(run)} instructions a warp are too many to draw: up to ${MOST_STEPS}` }
  return { ...data, live: Object.fromEntries([...Object.entries(data.live ?? {}), [key, told]].slice(-KEPT)) }
}

// Returns the run to draw, and the intact kernel at the same shape. `problem`: why it is the
// recorded run.
function shown(data, state) {
  const recorded = { run: data[state.chapter][state.broken], whole: data[state.chapter][''],
    shape: RUNS[state.chapter].shape ?? SHAPE }
  if (!state.shape.trim()) return recorded
  const [run, whole] = [state.broken, ''].map((one) => data.live?.[key_of(state, one)])
  const problem = run?.problem ?? whole?.problem ?? (run && whole ? '' : 'not run yet')
  return problem ? { ...recorded, problem: `shape ${state.shape.trim().slice(0, 40)}: ${problem}` }
    : { run, whole, shape: state.shape.trim() }
}
const run_of = (data, state) => shown(data, state).run

// Converts between instructions and pixels.
function scale(run, width) {
  const left = width >= WIDE ? 84 : 52, per_step = (width - 6 - left) / steps_of(run)
  return { x: (step) => left + step * per_step, back: (x) => (x - left) / per_step }
}

// ---- drawing ----
const LANE = 34, BAR = 14, ROW = 18, PITCH = 24

// Draws one buffer of shared memory, with the copies to it and the reads from it.
function draw_lane({ run, track, state, x, wide }, lane, y) {
  const here = track.copies.flatMap((copy, index) => copy.parts
    .filter(({ lanes }) => lanes.includes(lane)).map((part) => ({ copy, index, part })))
  return [
    text(4, y + 25, run.lanes[lane].name.replace(wide ? '' : ' buffer', ''), { class: 'small' }),
    rect(x(0), y + BAR, x(track.code.length) - x(0), BAR, { class: 'soft' }),
    here.map(({ copy, index, part }, k) => {
      const end = end_of(track, copy), [from, to] = [x(copy.first), x(end)]
      const color = COLOR[part.matrix], label = `${part.matrix}${part.tile}`
      const room = x(here[k + 1]?.copy.first ?? track.code.length) - from
      const bar = (first, last) => [x(first), y + BAR, Math.max(x(last) - x(first), 2), BAR]
      const early = part.reads.filter(([first]) => copy.first < first && first < end)
      const counted = part === copy.parts[0] && part.lanes[0] === lane && room > (wide ? 60 : 30)
      return el('g', { 'data-focus': `copy:${index}` }, [
        rect(from, y, Math.max(room, 8), BAR * 2, { opacity: 0 }),
        boxes(part.reads.map(([first, last]) => bar(first, last + 1)), { class: color }),
        boxes(early.map(([first, last]) => bar(first, Math.min(last + 1, end))), { class: 'e' }),
        boxes([bar(copy.first, end)], { class: `line-${color}`, 'stroke-dasharray': '3 2' }),
        copy.end === null ? '' : lines([[[to, y + BAR - 3], [to, y + 2 * BAR + 3]]], { class: 'on' }),
        state.focus !== `copy:${index}` ? ''
          : rect(from - 2, y + BAR - 3, to - from + 4, BAR + 6, { class: 'line-f' }),
        room > 22 ? text(from, y + 10, label, { class: `small strong ${color}` }) : '',
        counted ? text(from + 20, y + 10, `${meanwhile(track, copy)}${wide ? ' mma' : ''}`,
          { class: 'small', name: `mma_${index}` }) : ''])
    })]
}

function draw_warp({ run, state, x }, warp, y) {
  const track = track_of(run, warp), mine = warp === state.warp
  const copy = mine && track.copies[state.focus?.match(/^copy:(\d+)/)?.[1]]
  const [from, to] = copy ? [copy.first, end_of(track, copy)] : mine ? [0, 0] : somewhere(run, state, warp)
  const products = [], others = [], copies = { a: [], b: [], c: [] }
  for (const { 0: letters, index } of track.code.matchAll(/[qkvm]+|c+|[sa]+|o+/g)) {
    const [left, width] = [x(index), x(index + letters.length) - x(index)]
    if (letters.includes('m')) products.push([left, width, product(track, index + letters.length - 1)])
    else if (letters[0] !== 'c') others.push([left, y + ROW / 2 - 1, width, 2])
    else {
      const { parts } = track.copies.findLast(({ first }) => first <= index)
      copies[COLOR[parts.at(-1).matrix]].push([left, y, width, ROW])
    }
  }
  return el('g', { 'data-focus': `warp:${warp}` }, [
    text(4, y + 13, `warp ${warp}`, { class: mine ? 'small strong' : 'small' }),
    rect(x(0), y, x(track.code.length) - x(0), ROW, { class: 'soft' }),
    rect(x(from), y, x(to) - x(from), ROW, { class: 'soft-f' }),
    rect(x(from), y + ROW, x(to) - x(from), 2, { class: 'f' }),
    boxes(products.map(([left, width]) => [left, y + 2, width, ROW - 4]), { class: 'soft-d' }),
    boxes(products.map(([left, width]) => [left, y + ROW - 5, width, 3]), { class: 'd' }),
    text(products.map(([left, width]) => round(left + width / 2)).join(' '), y + 12,
      products.map(([, , letter]) => letter).join(''), { class: 'small middle' }),
    boxes(others, { class: 'muted' }),
    Object.entries(copies).map(([color, list]) => boxes(list, { class: color })),
    lines(places(track.code, 'w').map((step) => [[x(step), y], [x(step), y + ROW]]), { class: 'on' })])
}

// Draws an instruction that the intact kernel executes and a broken one omits, in red at its
// position.
function draw_missing({ whole, run, state, x }, y_of) {
  const missing = missing_in(track_of(run, state.warp).code, track_of(whole, state.warp).code)
  const bottom = y_of(run.warps.length - 1) + ROW + 3
  const at = missing.map(({ letter, step }) => ({ letter, left: x(step) }))
  return [
    lines(at.map(({ left }) => [[left, y_of(0) - 6], [left, bottom]]),
      { class: 'line-e', 'stroke-dasharray': '4 3' }),
    triangles(at.filter(({ letter }) => letter === 'b').map(({ left }) => [left, bottom]), { class: 'e' })]
}

// Draws the barriers, lines that no warp passes before all warps have arrived.
function draw_barriers({ run, x }, y_of) {
  const all = run.warps.map((_, warp) => places(track_of(run, warp).code, 'b'))
  const through = all[0].map((_, k) => all.flatMap((steps, warp) =>
    [-3, ROW + 3].map((by) => [x(steps[k] + 0.5), y_of(warp) + by])))
  return [lines(through, { class: 'on', style: 'stroke-width:1' }),
    triangles(through.map((points) => points.at(-1)), { class: 'muted' })]
}

function draw_hazard({ state, x }, { at, other }, i, y_of) {
  const ends = [at, other].filter(Boolean).map(({ warp, step }) => [x(step + 0.5), y_of(warp) + ROW / 2])
  return el('g', { 'data-focus': `hazard:${i}` }, [lines([ends], { class: 'line-e' }),
    ends.map(([cx, cy], k) => circle(cx, cy, 5, { class: k ? 'soft-e' : 'e' })),
    ends.map(([cx, cy]) => circle(cx, cy, 5,
      { class: state.focus === `hazard:${i}` ? 'line-f' : 'line-e' }))])
}

function draw_legend(broken, width, y) {
  const items = [
    [32, 'copy in flight', rect(0, 2, 26, 10, { class: 'line-b', 'stroke-dasharray': '3 2' })],
    [14, 'wait_group', line(4, -1, 4, 15, { class: 'on' })],
    [32, 'ldmatrix', rect(0, 2, 26, 10, { class: 'b' })],
    [32, 'mma', [rect(0, 1, 26, 12, { class: 'soft-d' }), rect(0, 10, 26, 3, { class: 'd' })]],
    [32, 'other work', rect(0, 6, 26, 2, { class: 'muted' })],
    [18, 'barrier', triangles([[6, 5]], { class: 'muted' })],
    ...broken ? [[32, 'read in flight', rect(0, 2, 26, 10, { class: 'e' })],
      [14, 'left out by the break', line(4, -1, 4, 15, { class: 'line-e', 'stroke-dasharray': '4 3' })]] : [],
    [0, 'axis: instructions, not time', ''],
  ]
  return flow_marks(items, width, y)
}

export default {
  title: 'What is in flight while a warp multiplies',
  sources: Object.fromEntries(Object.entries(RUNS).flatMap(([key, run]) =>
    ['', ...run.breaks].map((broken) => [`${key} ${broken}`, command(run, broken)]))),
  data: (logs) => Object.fromEntries(Object.entries(RUNS).map(([key, { breaks }]) =>
    [key, Object.fromEntries(['', ...breaks].map((broken) => [broken, reduce(logs[`${key} ${broken}`])]))])),
  stills: {
    'chapters/04_swizzling/figures/timeline.svg': { chapter: 'ch04', step: 225 },
    'chapters/05_pipelining/figures/timeline.svg': {},
    'chapters/05_pipelining/figures/conditional_commit.svg': { broken: 'conditional-commit', step: 600 },
    'chapters/07_better_pipelining/figures/timeline.svg': { chapter: 'ch07', step: 170 },
    'chapters/07_better_pipelining/figures/missing_barrier.svg':
      { chapter: 'ch07', broken: 'missing-barrier', warp: 2, step: 135, focus: 'hazard:0' },
    'chapters/08_fewer_instructions/figures/timeline.svg': { chapter: 'ch08', step: 600 },
  },
  initial: () => ({ chapter: 'ch05', broken: '', warp: 0, step: 290, shape: '' }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'chapter', type: 'choice', label: 'chapter',
      options: Object.entries(RUNS).map(([key, { label }]) => [key, label]) },
    { key: 'broken', type: 'choice', label: 'break',
      options: Object.keys(data[state.chapter]).map((key) => [key, key || 'none']) },
    { key: 'shape', type: 'line', label: 'another shape' },
    { key: 'step', type: 'step', label: `instruction of warp ${state.warp}`, min: 0,
      max: track_of(run_of(data, state), state.warp).code.length - 1, play: 60 },
  ],
  // Another chapter may not have the break, or may be shorter.
  settle(data, state) {
    const broken = data[state.chapter][state.broken] ? state.broken : ''
    const run = run_of(data, { ...state, broken }), warp = Math.min(state.warp, run.warps.length - 1)
    return { ...state, broken, warp, step: Math.min(state.step, track_of(run, warp).code.length - 1) }
  },
  focus(data, state, key) {
    const [kind, index] = key.split(':')
    if (kind === 'warp') return { ...state, focus: key, warp: +index }
    if (kind === 'hazard') return { ...state, focus: key, ...run_of(data, state).hazards[index]?.at }
    return { ...state, focus: key }
  },
  drag(data, state, { x }, width) {
    const run = run_of(data, state), length = track_of(run, state.warp).code.length
    return { ...state, step: Math.max(0, Math.min(length - 1, Math.floor(scale(run, width).back(x)))) }
  },

  draw(data, state, width) {
    const { run, whole, problem } = shown(data, state), track = track_of(run, state.warp), wide = width >= WIDE
    const { x } = scale(run, width), view = { whole, run, track, state, x, wide }
    const { label } = RUNS[state.chapter]
    const heading = flow_words([
      [`Chapter ${label}${state.broken ? `, broken: ${state.broken}` : ''}`, { class: 'strong' }],
      state.broken ? [`hazards found: ${run.hazards.length}`, { class: 'e strong', name: 'hazards' }]
        : [`most copies have ${usual(track)} mma to hide behind`, { class: 'd strong', name: 'usual' }],
    ], width, 14)
    const lanes = heading.bottom + 4, warps = lanes + run.lanes.length * LANE + 12
    const y_of = (warp) => warps + warp * PITCH
    const bottom = y_of(run.warps.length - 1) + ROW, length = track.code.length
    const between = (wide ? 100 : 200) * Math.ceil(length / 2000)
    const ticks = Array.from({ length: Math.ceil(length / between) }, (_, i) => i * between)
      .filter((at) => x(at) < width - 14)
    const small = { class: 'small' }
    const doing_now = flow_words([
      [`instruction ${state.step} of warp ${state.warp}: ${doing(track, state.step)}`,
        { class: 'strong small', name: 'doing' }],
      [`in flight: ${listed(in_flight(track, state.step).map(short))}`, { ...small, name: 'in_flight' }],
      [`other warps: anywhere ${barriers_around(track, state.step)} (yellow)`, { ...small, name: 'others' }],
    ], width, bottom + 46)
    const found = run.hazards.map(({ kind, where, accesses }, i) => text(4, doing_now.bottom + 9 + i * 17,
      `${kind} at ${where}, ${accesses} times`,
      { class: `e small${wide ? ' strong' : ''}`, name: `hazard_${i}` }))
    const cursor = (from, to) => line(x(state.step + 0.5), from, x(state.step + 0.5), to, { class: 'line-f' })
    const legend = draw_legend(state.broken, width, doing_now.bottom + found.length * 17 + 2)
    return svg(width, legend.bottom + 12, [
      heading.drawn,
      run.lanes.map((_, i) => draw_lane(view, i, lanes + i * LANE)),
      run.warps.map((_, warp) => draw_warp(view, warp, y_of(warp))),
      draw_barriers(view, y_of), draw_missing(view, y_of),
      run.lanes.map((_, i) => cursor(lanes + i * LANE + BAR - 3, lanes + i * LANE + 2 * BAR + 3)),
      cursor(warps - 6, bottom + 6),
      run.hazards.map((hazard, i) => draw_hazard(view, hazard, i, y_of)),
      text(4, bottom + 24, wide ? 'instructions' : 'instr.', { class: 'small muted' }),
      ticks.map((at) => text(x(at), bottom + 24, at, { class: 'small muted middle' })),
      doing_now.drawn, found, legend.drawn])
  },

  describe(data, state) {
    const { run, shape, problem } = shown(data, state), track = track_of(run, state.warp), { code } = track
    const covers = track.copies.map((copy) => [short(copy), meanwhile(track, copy)])
      .reduce((runs, [name, n]) => runs.at(-1)?.[2] === n
        ? [...runs.slice(0, -1), [runs.at(-1)[0], name, n]] : [...runs, [name, name, n]], [])
      .map(([first, last, n]) => `${first === last ? first : `${first} to ${last}`} ${n}`)
    const [kind, index] = (state.focus ?? '').split(':')
    const copy = kind === 'copy' && track.copies[index]
    const [, , queries, keys, dim] = shape.split(',')
    const hazards = kind === 'hazard' && run.hazards[index] ? [run.hazards[index]] : run.hazards
    return [...problem ? [`${problem}. This is the recorded run.`] : [], `Warp ${state.warp} is at instruction ${state.step}: ${doing(track, state.step)}. `
      + `In flight: ${listed(in_flight(track, state.step).map(name_of))}. `
      + `The other warps are anywhere ${barriers_around(track, state.step)}.`,
    ...copy ? [describe_copy(run, track, copy)] : [],
    ...hazards.map((hazard) => `${hazard.text}.`)].join(' ')
      + `\nChapter ${RUNS[state.chapter].label}, ${state.broken ? `broken by ${state.broken}` : 'as it is'}: `
      + `${queries} queries, ${keys} keys, D = ${dim}; ${run.warps.length} warps, `
      + `${code.length} instructions and ${count(code, 'm')} mma each. `
      + `mma while a copy is in flight: ${covers.join(', ')}.`
  },
}
