// Memory and time over the length, for naive and tiled attention, with the factor between them.
import { circle, el, group, line, path, rect, svg, text, WIDE } from './draw.js'

const MIB = 1 << 20
const one_digit = (value) => value < 99.95 ? value.toFixed(1) : value.toFixed(0)
// Both axes of each view, and its curves with color, mark and the lesson's number format.
const SHOWN = {
  memory: {
    title: 'MiB besides inputs and outputs', unit: 'MiB',
    ticks: [0.1, 1, 10, 100, 1000], range: [0.03, 12000],
    factor_ticks: [10, 1000, 100000], factor_range: [5, 200000], print_factor: (value) => value.toFixed(0),
    curves: [['naive', 'd', 'circle', (value) => value.toFixed(2)],
      ['O', 'muted', 'diamond', String],
      ['tiled', 'c', 'square', (value) => value.toFixed(3)]],
  },
  time: {
    title: 'µs for one forward pass', unit: 'µs',
    ticks: [10, 100, 1000, 10000, 100000], range: [3, 700000],
    factor_ticks: [0.8, 1, 1.2, 1.4], factor_range: [0.72, 1.55], print_factor: (value) => value.toFixed(2),
    curves: [['naive', 'd', 'circle', one_digit], ['tiled', 'c', 'square', one_digit],
      ['fast', 'b', 'diamond', one_digit]],
  },
}
const NAMES = { naive: 'naive (safe)', O: 'O, to compare', tiled: 'tiled', fast: 'fast (vector registers)' }

const lengths_of = (data, state) => data[state.show].lengths
const powers_of = (data, state) => lengths_of(data, state).map(Math.log2)
const index_of = (data, state) => lengths_of(data, state).indexOf(2 ** state.power)
const factors_of = ({ curves }) => curves.naive.map((naive, n) => naive / curves.tiled[n])
const log_scale = ([low, high], from, to) => (value) =>
  from + (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low)) * (to - from)

// Returns the plot from x to x_end and from y to bottom, with the strip of factors below it.
function layout(data, state, width) {
  const wide = width >= WIDE, lengths = lengths_of(data, state), shown = SHOWN[state.show]
  const x = wide ? 66 : 58, x_end = width - (wide ? 24 : 16)
  const y = wide ? 64 : 122, bottom = y + (wide ? 230 : 190), strip = bottom + 44, strip_end = strip + 76
  return { wide, x, x_end, y, bottom, strip, strip_end,
    at: log_scale([lengths[0], lengths.at(-1)], x + 10, x_end - 10),
    height_of: log_scale(shown.range, bottom, y), factor_at: log_scale(shown.factor_range, strip_end, strip) }
}

function mark(shape, x, y, size, more) {
  if (shape === 'circle') return circle(x, y, size, more)
  const transform = shape === 'diamond' ? `rotate(45 ${x.toFixed(2)} ${y.toFixed(2)})` : null
  return rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8, { transform, ...more })
}

// Draws a line with a point for each length, and a larger point for the chosen length.
function draw_curve(data, state, values, at, height_of, name, color, shape) {
  const points = values.map((value, n) => [at(lengths_of(data, state)[n]), height_of(value)])
  return [path(points, { class: `line-${color}` }), points.map(([x, y], n) => {
    const chosen = n === index_of(data, state)
    return el('g', { 'data-focus': `${name}:${powers_of(data, state)[n]}` }, [
      rect(x - 9, y - 9, 18, 18, { fill: 'none', 'pointer-events': 'all' }),
      mark(shape, x, y, chosen ? 6 : 3.5, { class: chosen ? `${color} on` : color })])
  })]
}

// Draws the names of the curves and their values at the chosen length.
function draw_key(data, state, wide, width) {
  const { unit, curves, print_factor } = SHOWN[state.show], n = index_of(data, state)
  const rows = curves.map(([name, color, shape, print], row) => {
    const x = wide ? 2 + row * 190 : 2, y = wide ? 12 : 12 + row * 22
    return [line(x, y, x + 26, y, { class: `line-${color}` }), mark(shape, x + 13, y, 4, { class: color }),
      text(x + 34, y + 4, NAMES[name], { class: 'strong' }),
      text(wide ? x + 34 : width - 2, wide ? y + 23 : y + 4,
        `${print(data[state.show].curves[name][n])} ${unit}`,
        { class: wide ? null : 'end', name: `${state.show}_${name}` })]
  })
  return [rows, text(width - 2, wide ? 16 : 82, 'naive / tiled', { class: 'strong end' }),
    text(width - 2, wide ? 35 : 102, print_factor(factors_of(data[state.show])[n]),
      { class: 'large strong end', name: `${state.show}_factor` })]
}

function draw_axes(data, state, here) {
  const { wide, x, x_end, y, bottom, strip, strip_end, at, height_of, factor_at } = here
  const shown = SHOWN[state.show], small = { class: 'small muted' }, lengths = lengths_of(data, state)
  const tick = (value, height) => [line(x, height, x_end, height),
    text(x - 8, height + 4, value, { class: 'small muted end' })]
  // A narrow picture labels every second length, and the chosen one.
  const labels = lengths.filter((length, n) => {
    const away = Math.abs(Math.log2(length) - state.power)
    return wide || away === 0 || away !== 1 && (lengths.length - 1 - n) % 2 === 0
  })
  const cursor = { class: 'line-f', 'stroke-dasharray': '4 3' }, chosen = at(2 ** state.power)
  const right = chosen < x + 0.6 * (x_end - x)  // the words are on the other side of the cursor
  const words_at = right ? x_end - 6 : (x + x_end) / 2
  const words = { class: right ? 'small end' : 'small middle' }
  const band = rect(x, factor_at(1), x_end - x, strip_end - factor_at(1), { class: 'soft-d' })
  // The size of each cache of the machine of the measurement.
  const caches = state.show === 'memory' ? Object.entries(data.time.caches).map(([name, size]) => [
    line(x, height_of(size), x_end, height_of(size), { class: 'line-e', 'stroke-dasharray': '5 4' }),
    text(x_end - 4, height_of(size) + (name === 'L3' ? -5 : 13), `Xeon ${name}: ${size} MiB`, { class: 'small e end' })]) : ''
  return [
    state.show === 'time' ? band : '', caches,
    shown.ticks.map((value) => tick(value, height_of(value))),
    shown.factor_ticks.map((value) => tick(value, factor_at(value))),
    text(x + 6, y + 11, shown.title, small), text(x + 6, strip - 4, 'naive / tiled', small),
    state.show === 'time' ? [text(words_at, strip_end - 5, 'naive is faster', words),
      text(words_at, factor_at(1) - 4, 'tiled is faster', words)] : '',
    text(x - 8, bottom + 18, 'n', { class: 'small strong end' }),
    labels.map((length) => text(at(length), bottom + 18, length,
      { class: `small middle ${length === 2 ** state.power ? 'strong' : 'muted'}` })),
    line(chosen, y + 18, chosen, bottom + 4, cursor), line(chosen, strip, chosen, strip_end, cursor)]
}

// Draws the factor between naive and tiled next to the cursor, if there is room.
function draw_gap(data, state, { x_end, at, height_of }) {
  const { curves } = data[state.show], n = index_of(data, state), x = at(2 ** state.power)
  const [top, bottom] = [curves.naive[n], curves.tiled[n]].map(height_of)
  if (bottom - top < 40) return ''
  const left = x > x_end - 100
  return text(left ? x - 10 : x + 10, top + (bottom - top) * 0.3 + 4,
    `${SHOWN[state.show].print_factor(factors_of(data[state.show])[n])} ×`,
    { class: left ? 'strong end' : 'strong' })
}

const notes_of = (data, { show }) => show === 'memory'
  ? ['Bytes allocated, counted by the program:', 'the same on every machine.',
    `One head, ${data.memory.how}.`]
  : [`One thread, ${data.time.machine[0]},`, `${data.time.machine[1]}.`, `One head, ${data.time.how}.`]

function time_data({ about, rows }) {
  const named = (name) => rows.filter(({ kernel }) => kernel === name)
  const cache = (level) => `${about[`L${level}`] / MIB} MiB`
  const curve = (name) => [name, named(name).map(({ ns }) => ns / 1000)]
  return {
    lengths: named('naive').map(({ length }) => length),
    how: `fp32, d = 64, median of ${about.repetitions}, ${about.date}`,
    machine: [`Xeon with AVX-512, ${about.cores} cores, virtual machine`,
      `${cache(2)} of L2 a core, ${cache(3)} of L3, g++ 12.2`],
    caches: Object.fromEntries([2, 3].map((level) => [`L${level}`, parseFloat(cache(level))])),
    curves: Object.fromEntries(['naive', 'tiled', 'fast'].map(curve)),
  }
}

function memory_data({ rows, about: { dim, dtype, threads, block_q, block_kv } }) {
  const curve = (key) => rows.map((row) => row[key] / MIB)
  return {
    lengths: rows.map(({ length }) => length),
    how: `${dtype.replace('f32', 'fp32')}, d = ${dim}, ${threads} thread, tiles of ${block_q} × ${block_kv}`,
    curves: { naive: curve('safe_peak_bytes'), O: curve('output_bytes'),
      tiled: curve('tiled_peak_bytes'), scores: curve('score_matrix_bytes') },
  }
}

export default {
  title: 'Memory and time over the length: naive and tiled',
  sources: {
    memory: ['docs/measurements/cpu/ch02_memory.csv'],
    time: ['docs/measurements/cpu/crossover.csv'],
  },
  data: ({ memory, time }) => ({ memory: memory_data(memory), time: time_data(time) }),
  stills: {
    'chapters/02_tiled_cpu/figures/memory_curves.svg': {},
    'chapters/02_tiled_cpu/figures/time_curves.svg': { show: 'time', power: 5 },
  },
  initial: () => ({ show: 'memory', power: 15 }),

  controls: (data, state) => [
    { key: 'show', type: 'choice', label: 'show', options: [['memory', 'memory'], ['time', 'time']] },
    { key: 'power', type: 'step', label: 'length n', play: 700, show: (power) => `${2 ** power}`,
      min: powers_of(data, state)[0], max: powers_of(data, state).at(-1) },
  ],
  // Chooses a measured length. The arrow keys continue from it.
  settle(data, state) {
    const powers = powers_of(data, state), curve = (state.focus ?? '').split(':')[0]
    const power = Math.min(Math.max(state.power, powers[0]), powers.at(-1))
    const there = SHOWN[state.show].curves.some(([name]) => name === curve) || curve === 'factor'
    return { ...state, power, focus: `${there ? curve : 'naive'}:${power}` }
  },
  focus: (data, state, key) => ({ ...state, focus: key, power: +key.split(':')[1] }),
  drag(data, state, { x }, width) {
    const { at } = layout(data, state, width), far = (power) => Math.abs(at(2 ** power) - x)
    const nearest = (best, power) => far(power) < far(best) ? power : best
    return { ...state, power: powers_of(data, state).reduce(nearest) }
  },

  draw(data, state, width) {
    const here = layout(data, state, width), { wide, at, height_of, factor_at, strip_end } = here
    const curves = SHOWN[state.show].curves.map(([name, color, shape]) =>
      draw_curve(data, state, data[state.show].curves[name], at, height_of, name, color, shape))
    const notes = notes_of(data, state), lines = wide ? [`${notes[0]} ${notes[1]}`, notes[2]] : notes
    return svg(width, strip_end + 32 + (lines.length - 1) * 16, [draw_key(data, state, wide, width),
      draw_axes(data, state, here), curves, draw_gap(data, state, here),
      draw_curve(data, state, factors_of(data[state.show]), at, factor_at, 'factor', 'a', 'circle'),
      group(2, strip_end + 26, lines.map((words, n) => text(0, n * 16, words, { class: 'small muted' })))])
  },

  describe(data, state) {
    const { unit, curves, print_factor } = SHOWN[state.show]
    const { lengths, curves: values } = data[state.show]
    const n = index_of(data, state), factors = factors_of(data[state.show]).map(print_factor)
    const now = curves.map(([name, , , print]) =>
      `${NAMES[name]} ${print(values[name][n])} ${unit}`).join(', ')
    const scores = values.scores ? `; the score matrix alone ${values.scores[n].toFixed(1)} MiB` : ''
    const all = lengths.map((length, i) => `${factors[i]} at ${length}`).join(', ')
    return `n = ${lengths[n]}: ${now}${scores}.\nNaive / tiled: ${all}. ${notes_of(data, state).join(' ')}`
  },
}
