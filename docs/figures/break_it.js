// Attention without the maximum, and how p, l and o grow with the score, where each type overflows, and the value
// of o / l after that. Every key has the same score and the same value, so the correct output is that value.
import { circle, group, line, path, rect, svg, text, WIDE, wrapped } from './draw.js'

const KINDS = { 'f32/f32': 'fp32', 'f16/f32': 'p fp16', 'f16/f16': 'all fp16' }
const LONG = {
  'f32/f32': 'p, l and o in fp32', 'f16/f32': 'p in fp16, l and o in fp32', 'f16/f16': 'p, l and o in fp16' }
const QUANTITIES = [['p', 'p = e^s', 'd'], ['l', 'l = Σ p', 'a'], ['o', 'o = Σ p v', 'b']]
const WORDS = { inf: 'Inf', nan: 'NaN' }

// Rounds to five digits, or three below 1 and with an exponent. The data have no more digits.
const rounded = (value) => typeof value === 'number'
  ? Number(value.toPrecision(value >= 1 && value < 1e5 ? 5 : 3)) : value
export const shown = (value) => WORDS[value]
  ?? (value < 1e5 ? String(rounded(value)) : value.toExponential(2).replace('e+', 'e'))
const keys_name = (keys) => `${keys} ${keys > 1 ? 'keys' : 'key'}`
const value_name = (value) => value < 1 ? `1/${1 / value}` : String(value)

// Removes repeated entries at the end. The last entry stands for all that follow.
const shortened = (list) => list.slice(0, 1 + list.findLastIndex((value, i) => value !== list[i - 1]))
const at = (list, index) => list[Math.min(index, list.length - 1)]

// With the maximum subtracted, nothing depends on the score and the output is correct.
function safe_of(with_maximum, right) {
  for (const list of Object.values(with_maximum)) {
    if (list.some((value) => value !== list[0])) throw new Error('safe, and yet the score changes something')
  }
  if (with_maximum.output[0] !== right) throw new Error('safe, and yet the output is wrong')
  return Object.fromEntries(Object.entries(with_maximum).map(([key, [value]]) => [key, value]))
}

function data({ overflow: { scores, rows } }) {
  const kinds = {}
  for (const row of rows) {
    const name = `${row.p_type}/${row.sums_type}`
    if (!KINDS[name]) continue
    const { p, l, o, output, finite_up_to } = row.without_maximum
    const kind = kinds[name] ??= { largest: row.p_largest, p: shortened(p).map(rounded), keys: {} }
    const keys = kind.keys[row.keys] ??= { l: shortened(l).map(rounded), values: {} }
    const safe = safe_of(row.with_maximum, row.value)
    keys.values[row.value] = { o: shortened(o).map(rounded), output: shortened(output), finite_up_to, safe }
  }
  return { scores, kinds }
}

// ---- the reader's number of keys, run in the page ----
const live = (data, { keys, count }) => keys !== 'own' || data.live?.key === count.trim() ? null
  : { key: count.trim(), request: { chapter: 2, command: ['overflow'], keys: count.trim() } }
const heard = (all, { key }, { error, report }) => ({ ...all,
  live: { key, ...error ? { problem: error } : { kinds: data({ overflow: report }).kinds } } })

// Returns the number of keys and the data for it. `problem`: the reason why it is not the reader's
// number.
function keys_of(all, state) {
  if (state.keys !== 'own') return { kinds: all.kinds, keys: state.keys }
  const { kinds, problem } = live(all, state) ? { problem: 'not run yet' } : all.live
  return kinds ? { kinds, keys: +all.live.key } : { kinds: all.kinds, keys: 256, problem }
}

// Returns everything about one choice of types, keys and value.
function row_of(all, state, name) {
  const { kinds, keys } = keys_of(all, state), { value } = state, { l, values } = kinds[name].keys[keys]
  const row = { name, p: kinds[name].p, l, ...values[value] }
  const end = Math.min(...Object.values(row.finite_up_to))
  const [first] = QUANTITIES.find(([key]) => row.finite_up_to[key] === end)  // the cause
  return { ...row, end, first }
}

// Returns the intervals of the score with the value of o / l in each. It changes where a quantity
// overflows.
function stretches({ scores }, row, up_to) {
  const ends = Object.values(row.finite_up_to).filter((end) => end < up_to)
  const borders = [0, ...ends.sort((a, b) => a - b), up_to]
  return borders.slice(1).map((to, i) => {
    const inside = scores.findIndex((score) => score > borders[i] && score < to)
    return { from: borders[i], to, output: inside < 0 ? null : at(row.output, inside) }
  }).filter(({ output }, i, all) => output !== null && output !== all[i - 1]?.output)
    .map((one, i, all) => ({ ...one, to: all[i + 1]?.from ?? up_to }))
}

const plot_of = (state, width) => {
  const [left, right] = width >= WIDE ? [64, 492] : [52, 352]
  const x = (score) => left + (right - left) * score / state.up_to
  const [low, high] = state.up_to > 20 ? [-5, 44] : [-3, 12]  // powers of ten
  const [top, bottom] = [62, width >= WIDE ? 282 : 252]
  const y = (value) => bottom - (bottom - top) * (Math.log10(value) - low) / (high - low)
  return { left, right, top, bottom, x, y, low, high }
}

function draw_axes({ kinds }, state, { left, right, top, bottom, x, y, low, high }) {
  const parts = []
  for (const power of high > 20 ? [0, 10, 20, 30] : [-2, 0, 2, 7, 9, 11]) {
    parts.push(line(left, y(10 ** power), right, y(10 ** power), { opacity: 0.6 }),
      text(left - 6, y(10 ** power) + 4, power ? `1e${power}` : '1', { class: 'small muted end' }))
  }
  for (let i = 0; i <= 5; i++) {
    const score = state.up_to * i / 5
    parts.push(text(x(score), bottom + 16, score, { class: `small muted ${i < 5 ? 'middle' : 'end'}` }))
  }
  parts.push(rect(left, top, right - left, bottom - top, { class: 'axis' }))
  for (const [type, name] of [['fp32', 'f32/f32'], ['fp16', 'f16/f16']]) {
    const { largest } = kinds[name]
    if (Math.log10(largest) > high) continue
    parts.push(line(left, y(largest), right, y(largest), { class: 'line-e', 'stroke-dasharray': '5 4' }),
      text(left - 6, y(largest) + 4, largest < 1e5 ? largest : largest.toExponential(1).replace('+', ''),
        { class: 'small e end', name: `largest_${type}` }),
      text(high < 20 ? x(4.75) : type === 'fp32' ? left + 30 : right - 30, y(largest) - 5, type,
        { class: 'small e middle' }))
  }
  return parts
}

// Draws each quantity up to its overflow. Beyond that point it is Inf, in the band above the plot.
function draw_curves({ scores }, row, state, { left, right, top, x, y, high }) {
  const parts = []
  QUANTITIES.forEach(([key, , color], i) => {
    const end = row.finite_up_to[key], band = top - 36 + 12 * i
    const points = row[key].filter((value, j) => WORDS[value] === undefined && scores[j] <= state.up_to)
      .map((value, j) => [x(scores[j]), y(Math.min(value, 10 ** high))])
    parts.push(line(left, y(row.safe[key]), right, y(row.safe[key]), { class: 'line-c' }),
      path(points, { class: `line-${color}`, 'stroke-dasharray': key === 'o' ? '7 6' : null }),
      text(left - 6, band + 10, key, { class: `small strong ${color} end` }),
      rect(left, band, right - left, 10, { class: 'soft' }))
    if (end >= state.up_to) return
    const last = points.at(-1)
    parts.push(rect(x(end), band, right - x(end), 10, { class: 'e' }),
      line(x(end), band, x(end), last[1], { class: 'line-e', 'stroke-dasharray': '1 3' }),
      circle(...last, 3.5, { class: 'e' }))
  })
  const lowest = Math.min(...QUANTITIES.map(([key]) => row.safe[key]))
  parts.push(text(left + 6, y(lowest) + 13, 'the same with the maximum', { class: 'small c' }))
  return parts
}

// Draws one bar for each choice of types, with the interval where o / l is correct and its value
// after that.
function draw_lanes(data, state, width, plot, top) {
  const wide = width >= WIDE
  const rows = Object.keys(KINDS).map((name) => row_of(data, state, name))
  const right = rows[0].safe.output
  const lanes = rows.map((row) => ({
    label: wide ? KINDS[row.name] : LONG[row.name], strong: row.name === state.types ? ' strong' : '',
    remark: `${row.first} is Inf above ${row.end.toFixed(2)}`, name: `first_${row.name}`,
    bars: stretches(data, row, state.up_to) }))
  lanes.push({ label: wide ? 'with max' : 'with the maximum', remark: 'in every type', strong: '',
    bars: [{ from: 0, to: state.up_to, output: right }] })
  const parts = [text(plot.left, top, 'o / l without the maximum, and with it', { class: 'small muted' })]
  const cursor = plot.x(state.score)
  let y = top + 8
  for (const { label, remark, name, strong, bars } of lanes) {
    if (!wide) y += 18
    parts.push(wide ? text(plot.left - 6, y + 13, label, { class: `small end${strong}` })
      : text(plot.left, y - 4, label, { class: `small${strong}` }))
    parts.push(wide ? text(plot.right + 18, y + 13, remark, { class: `small${strong}`, name })
      : text(plot.right, y - 4, remark, { class: `small end${strong}`, name }))
    for (const { from, to, output } of bars) {
      const good = output === right, [start, end] = [plot.x(from), plot.x(to)]
      const word = good ? 'right' : shown(output)
      parts.push(rect(start, y, end - start, 18, { class: good ? 'soft-c' : 'soft-e' }))
      if (end - start > 8 + 7 * word.length) {
        parts.push(text(good ? start + 6 : (start + end) / 2, y + 13, word,
          { class: `small strong ${good ? 'c' : 'middle e'}` }))
      }
    }
    parts.push(line(cursor, y - 1, cursor, y + 19, { class: 'on' }))
    y += wide ? 24 : 25
  }
  return { parts, bottom: y - 6 }
}

function draw_table(data, row, state, x, width) {
  const index = data.scores.indexOf(state.score)
  const [first, second] = [x + width * 0.66, x + width]
  const parts = [
    text(x, 14, `${keys_name(keys_of(data, state).keys)} of score s = ${state.score}`, { class: 'strong' }),
    text(x, 32, `Each v is ${value_name(state.value)}: so should o / l be.`, { class: 'small muted' }),
    ...[[first, 'no maximum'], [second, 'with it']].map(([right, head]) =>
      text(right, 58, head, { class: 'small muted end' }))]
  const lines = [...QUANTITIES, ['output', 'o / l', '']]
  lines.forEach(([key, label, color], i) => {
    const y = 80 + 22 * i, value = at(row[key], index)
    const bad = WORDS[value] || (key === 'output' && value !== row.safe.output)
    parts.push(line(x, y - 15, second, y - 15), text(x, y, label, { class: `strong ${color}` }),
      text(first, y, shown(value), { class: `mono end ${bad ? 'e strong' : ''}`, name: `broken_${key}` }),
      text(second, y, shown(row.safe[key]), { class: 'mono end c', name: `safe_${key}` }))
  })
  return parts
}

// Returns the meaning of the state in one or two sentences, for the picture and its description.
function meaning(data, row, state) {
  const output = at(row.output, data.scores.indexOf(state.score))
  if (output === row.safe.output) return ['Every number fits, and o / l is right.']
  const first = `${row.first} was first: Inf above ${row.end.toFixed(2)}.`
  if (output === 0) return [first, 'o / Inf is 0: finite, wrong.', 'No NaN warns.']
  return [first, output === 'inf' ? 'Inf / l is Inf.' : 'Inf / Inf is NaN.']
}

export default {
  title: 'Without the maximum: what overflows first',
  sources: { overflow: ['ch02_tiled_cpu', 'overflow', '--json', '{json}'] },
  data,
  stills: {
    'chapters/02_tiled_cpu/figures/break_it.svg': {},
    'docs/figures/break_it.svg': { value: 0.0078125 },
  },
  initial: () => ({ types: 'f32/f32', score: 84, keys: 256, value: 1, up_to: 100, count: '100' }),
  live,
  heard,

  controls: ({ kinds }, { up_to, keys }) => {
    const of_keys = kinds['f32/f32'].keys
    return [
      { key: 'score', type: 'step', label: 'score', min: 0, max: up_to, step: up_to > 20 ? 0.5 : 0.125 },
      { key: 'types', type: 'choice', label: 'types', options: Object.entries(KINDS) },
      { key: 'keys', type: 'choice', label: 'keys', options: [...Object.keys(of_keys).map((n) => [+n, n]), ['own', 'your own']] },
      ...keys === 'own' ? [{ key: 'count', type: 'line', label: 'how many keys' }] : [],
      { key: 'value', type: 'choice', label: 'each v', options:
        Object.keys(of_keys[1].values).map(Number).sort((a, b) => a - b).map((v) => [v, value_name(v)]) },
      { key: 'up_to', type: 'choice', label: 'scores up to', options: [[100, '100'], [12.5, '12.5']] },
    ]
  },
  // Chooses a score that the program computed.
  settle({ scores }, state) {
    const distance = (score) => Math.abs(score - state.score)
    return { ...state, score: scores.filter((score) => score <= state.up_to)
      .reduce((nearest, score) => distance(score) < distance(nearest) ? score : nearest) }
  },
  drag(data, state, { x }, width) {
    const { left, right } = plot_of(state, width)
    return { ...state, score: Math.max(0, Math.min(1, (x - left) / (right - left))) * state.up_to }
  },

  parts: (data, state, width) => width >= WIDE ? null : [['curves', 'curves'], ['numbers', 'numbers']],

  draw(data, state, width) {
    const wide = width >= WIDE, plot = plot_of(state, width), row = row_of(data, state, state.types)
    const lanes = draw_lanes(data, state, width, plot, plot.bottom + 44)
    const cursor = plot.x(state.score)
    const room = wide ? 206 : 300
    const sentences = meaning(data, row, state).flatMap((sentence, i) =>
      wrapped(sentence.replaceAll('o / l', 'o\u00a0/\u00a0l'), room)
        .map((words) => [words, i ? '' : 'strong']))
      .map(([words, style], i) => text(0, 178 + 17 * i, words, { class: style }))
    const panel = [draw_table(data, row, state, 0, room), sentences]
    if (state.part === 'numbers') return svg(width, 240, group(plot.left, 0, panel))
    return svg(width, lanes.bottom + 8 + (wide || state.part ? 0 : 232), [
      text(plot.left, 14, LONG[state.types], { class: 'strong' }),
      text(plot.right, 14, 'Inf', { class: 'small strong e end' }),
      draw_axes(data, state, plot), draw_curves(data, row, state, plot), lanes.parts,
      text(plot.x(state.up_to / 2), plot.bottom + 28, 's, the score of every key', { class: 'small middle' }),
      line(cursor, plot.top - 38, cursor, plot.bottom, { class: 'on' }),
      circle(cursor, plot.bottom, 6, { class: 'soft-f on' }),
      state.part ? '' : group(wide ? 510 : plot.left, wide ? 0 : lanes.bottom + 16, panel)])
  },

  describe(data, state) {
    const row = row_of(data, state, state.types), index = data.scores.indexOf(state.score)
    const { keys, problem } = keys_of(data, state)
    const list = (value) => `p ${value('p')}, l ${value('l')}, o ${value('o')}, o / l ${value('output')}`
    const later = row.finite_up_to.p.toFixed(2)
    return `${problem ? `Your own keys: ${problem}. ` : ''}${keys_name(keys)} of score ${state.score} and value ${value_name(state.value)}, `
      + `${LONG[state.types]}. Without the maximum: ${list((key) => shown(at(row[key], index)))}. `
      + `${meaning(data, row, state).join(' ')} `
      + (row.first === 'l' ? `p alone would last to ${later}: ln ${keys} later. ` : '')
      + `With the maximum, at every score: ${list((key) => shown(row.safe[key]))}.`
  },
}
