// Two states, each of a part of the keys, are merged into the state of all keys. The result does
// not depend on where the row is cut.
import { group, line, rect, svg, text, WIDE } from './draw.js'

const VALUES = [1, 2, 3, 4, 5, 6], COUNT = 6
const PRESETS = { rising: ['1 to 6', VALUES], falling: ['6 to 1', [6, 5, 4, 3, 2, 1]],
  mixed: ['mixed', [2, 5, 1, 6, 3, 4]] }
const CUTS = [1, 2, 3, 4, 5]
const command = (x, v) => ['ch01_toy_machine', 'attention', '--n', `${x.length}`, '--k', `${x}`, '--v',
  `${v}`, '--json', '{json}']

// Returns the state at the end of chapter 01's attention, before the division, with m in R1, l in R2, o in R6.
function state_of({ steps, outputs }) {
  const end = steps.findIndex(({ instruction }) => instruction.startsWith('DIV'))
  const [, m, l, , , , o] = steps[end - 1].registers
  return { m, l, o, output: outputs.o[0] }
}

// Returns the result of chapter 02's merge of both, and the factor of each side.
export function merged(a, b) {
  const m = Math.max(a.m, b.m), [left, right] = [a, b].map((side) => Math.exp(side.m - m))
  return { m, factors: [left, right], l: left * a.l + right * b.l, o: left * a.o + right * b.o }
}

const show = (number) => Number.isInteger(number) ? String(number) : number.toFixed(4)
const sides_of = (data, { preset, cut }) => {
  const { x, cuts, whole } = data.presets[preset], [left, right] = cuts[cut]
  return { x, left, right, whole, both: merged(left, right) }
}

function draw_side(name, side, keys, x, m, factor, color, left, width) {
  const cell = width / keys.length, floor = 128
  const bars = keys.map((key, i) => {
    const own = 74 * Math.exp(x[key] - side.m), now = own * factor, at = left + i * cell
    return [rect(at + 4, floor - own, cell - 8, own, { class: `line-${color}`, 'stroke-dasharray': '4 3' }),
      rect(at + 4, floor - now, cell - 8, now, { class: `soft-${color}` }),
      text(at + cell / 2, floor + 15, show(x[key]), { class: 'middle strong' })]
  })
  const at = name === 'a' ? left : left + width, end = name === 'a' ? '' : ' end'  // at the edges
  const words = keys.length > 1 ? `keys ${keys[0] + 1} to ${keys.at(-1) + 1}` : `key ${keys[0] + 1}`
  return [text(at, 14, `state ${name}: ${words}`, { class: `strong ${color}${end}` }),
    text(at, 34, `m ${show(side.m)}, l ${show(side.l)}`, { class: end.trim() || null, name: `${name}_l` }),
    line(left, floor, left + width, floor), bars,
    text(at, floor + 38, `· e^(${show(side.m)} − ${show(m)}) = ${show(factor)}`,
      { class: `${factor < 1 ? 'strong' : 'muted'}${end}`, name: `factor_${name}` })]
}

export default {
  title: 'Two states merge into one: cut the keys where you like',
  sources: Object.assign({}, ...Object.entries(PRESETS).map(([name, [, x]]) => ({
    [name]: command(x, VALUES),
    ...Object.fromEntries(CUTS.flatMap((cut) => [[`${name}_${cut}_a`,
      command(x.slice(0, cut), VALUES.slice(0, cut))],
      [`${name}_${cut}_b`, command(x.slice(cut), VALUES.slice(cut))]])) }))),
  data: (outputs) => ({ presets: Object.fromEntries(Object.entries(PRESETS)
    .map(([name, [label, x]]) => [name, {
    label, x, whole: state_of(outputs[name]), cuts: Object.fromEntries(CUTS.map((cut) =>
      [cut, ['a', 'b'].map((side) => state_of(outputs[`${name}_${cut}_${side}`]))])) }])) }),
  stills: { 'chapters/02_tiled_cpu/figures/merge.svg': {} },
  initial: () => ({ preset: 'rising', cut: 3 }),
  controls: (data) => [
    { key: 'cut', type: 'step', label: 'cut after key', min: 1, max: COUNT - 1 },
    { key: 'preset', type: 'choice', label: 'scores',
      options: Object.entries(data.presets).map(([name, { label }]) => [name, label]) },
  ],
  drag: (data, state, { x }, width) => ({ ...state,
    cut: Math.max(1, Math.min(COUNT - 1, Math.round(x / (width >= WIDE ? 430 : width) * COUNT))) }),

  draw(data, state, width) {
    const { x, left, right, whole, both } = sides_of(data, state), wide = width >= WIDE
    const room = wide ? 430 : width - 8, gap = 26, cell = (room - gap) / COUNT, at = state.cut * cell
    const keys = VALUES.map((_, i) => i)
    const row = [draw_side('a', left, keys.slice(0, state.cut), x, both.m, both.factors[0], 'a', 0, at),
      draw_side('b', right, keys.slice(state.cut), x, both.m, both.factors[1], 'b', at + gap,
        room - gap - at),
      line(at + gap / 2, 0, at + gap / 2, 150, { class: 'line-f' })]
    const lines = [['m', `max(${show(left.m)}, ${show(right.m)})`, both.m],
      ['l', `${show(both.factors[0])} · ${show(left.l)} + ${show(both.factors[1])} · ${show(right.l)}`,
        both.l],
      ['o', `${show(both.factors[0])} · ${show(left.o)} + ${show(both.factors[1])} · ${show(right.o)}`,
        both.o]]
    const sum = [text(0, 14, 'the merged state', { class: 'strong d' }),
      lines.map(([name, formula, value], i) => [
        text(0, 40 + 36 * i, `${name} = ${show(value)}`, { class: 'strong', name: `merged_${name}` }),
        text(0, 55 + 36 * i, `= ${formula}`, { class: 'small muted' })]),
      line(0, 142, 268, 142),
      text(0, 160, `o / l = ${show(both.o / both.l)}`, { class: 'strong c', name: 'output' }),
      text(0, 177, `all keys at once: ${show(whole.output)}`, { class: 'small', name: 'whole' })]
    return wide ? svg(width, 186, [group(4, 0, row), group(450, 0, sum)])
      : svg(width, 376, [group(4, 0, row), group(4, 190, sum)])
  },

  describe(data, state) {
    const { left, right, whole, both } = sides_of(data, state)
    const words = ({ m, l, o }) => `m ${show(m)}, l ${show(l)}, o ${show(o)}`
    return `Keys 1 to ${state.cut}: ${words(left)}. The others: ${words(right)}. Their common maximum is ${show(both.m)}, `
      + `so one side is multiplied by ${show(both.factors[0])}, the other by ${show(both.factors[1])} (dashed: before): `
      + `${words(both)}. Output o / l = ${show(both.o / both.l)}; all keys at once give ${show(whole.output)}.`
  },
}
