// The error of each scheme of chapter 17 with 8 and 4 bits on each input, against float64. The
// numbers come from the program and are stored. Hollow marks are the paper's numbers.
import { circle, el, line, lines, rect, svg, text, WIDE } from './draw.js'

const GROUPS = [  // prefix of a scheme's name, color, heading
  ['', 'c', '16 bits'],
  ['int8', 'a', 'INT8; P V in bf16'],
  ['fp8', 'b', 'FP8 (e4m3)'],
  ['mxfp8|nvfp4', 'd', 'blocks of 32 and of 16'],
]
const group_of = (name) => Math.max(0, GROUPS.findIndex(([start]) => start && new RegExp(`^(${start})`).test(name)))
const INPUTS = {
  normal: 'normal numbers',
  outliers: 'one in 1000 far out',
  'k-mean': 'K with a mean',
  sink: 'an attention sink',
  long: '65536 keys',
  'long-v': '65536 keys, V with a mean',
}
const MEASURES = { rmse: ['root mean square error', 'RMSE'], relative_l1: ['relative L1 error', 'relative L1'] }
const words_of = (value) => {
  const [digits, exponent] = value.toExponential(1).split('e')
  return `${digits}e${exponent}`
}
const short = (value) => +value.toPrecision(5)
const cited_of = (scheme, { input, measure }) =>
  input === 'outliers' && measure === 'rmse' ? scheme.cited : undefined

export default {
  title: 'What 8 and 4 bits cost',
  sources: { kept: ['docs/measurements/cpu/ch17_accuracy.csv'] },
  data: ({ kept: { about, rows } }) => ({ seeds: about.seeds,
    inputs: Object.fromEntries(rows.map(({ input, keys, dim }) => [input, { keys, dim }])),
    schemes: [...new Set(rows.map(({ scheme }) => scheme))].map((name) => {
      const of = rows.filter(({ scheme }) => scheme === name).sort((a, b) => a.input < b.input ? -1 : 1)
      return { name, ...of[0].cited_rmse === '' ? {} : { cited: of[0].cited_rmse },
        errors: Object.fromEntries(of.map(({ input, rmse, lowest_rmse, highest_rmse, relative_l1 }) => [input,
          { rmse: short(rmse), range: [lowest_rmse, highest_rmse].map(short), relative_l1: short(relative_l1) }])) }
    }) }),
  stills: { 'chapters/17_low_precision/figures/accuracy.svg': {},
    'chapters/17_low_precision/figures/accuracy_long.svg': { input: 'long-v', focus: 'fp8-block-one-level' } },
  initial: () => ({ input: 'outliers', measure: 'rmse', focus: 'fp8-block-hadamard' }),
  controls: (data) => [
    { key: 'input', type: 'choice', label: 'input',
      options: Object.keys(data.inputs).map((name) => [name, INPUTS[name]]) },
    { key: 'measure', type: 'choice', label: 'measure',
      options: Object.entries(MEASURES).map(([key, [, words]]) => [key, words]) },
  ],

  draw(data, state, width) {
    const wide = width >= WIDE, left = wide ? 214 : 168, right = width - (wide ? 62 : 52), pitch = wide ? 16 : 14, head = 16
    const top = 64, value_of = ({ errors }, input = state.input) => errors[input][state.measure]
    const all = data.schemes.flatMap((scheme) => [...Object.keys(data.inputs).map((input) => value_of(scheme, input)),
      ...state.measure === 'rmse' ? Object.values(scheme.errors).flatMap(({ range }) => range) : []])
    const [low, high] = [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))]
    const x_of = (value) => left + (right - left) * (Math.log10(value) - low) / (high - low)
    const y_of = data.schemes.map(({ name }, row) => top + (row + 1) * pitch + (group_of(name) + 1) * head - 6)
    const bottom = y_of.at(-1) + 8, decades = Array.from({ length: high - low + 1 }, (_, i) => low + i)
    const first = GROUPS.map((_, group) => data.schemes.findIndex(({ name }) => group_of(name) === group))
    const { keys, dim } = data.inputs[state.input]
    const has_cited = data.schemes.some((scheme) => cited_of(scheme, state))
    return svg(width, bottom + 40, [
      text(4, 16, `${INPUTS[state.input]}: ${MEASURES[state.measure][1]}`, { class: 'strong' }),
      text(4, 34, `${keys} keys, D ${dim}; medians of ${data.seeds} seeds; left is better`, { class: 'small muted' }),
      decades.map((power) => [line(x_of(10 ** power), top - 8, x_of(10 ** power), bottom),
        wide || power % 2 === 0
          ? text(x_of(10 ** power), top - 12, `1e${power}`, { class: 'small muted middle' }) : '']),
      GROUPS.map(([, , words], group) => {
        const y = y_of[first[group]] - pitch
        return text(4, y, words, { class: 'small muted' })
      }),
      data.schemes.map((scheme, row) => {
        const { name } = scheme, y = y_of[row], [, color] = GROUPS[group_of(name)], on = name === state.focus
        const value = value_of(scheme), cited = cited_of(scheme, state), strong = on ? 'small strong' : 'small'
        const key = name.replaceAll('-', '_')
        return el('g', { 'data-focus': name }, [
          rect(0, y - 12, width, pitch, on ? { class: 'soft-f', rx: 3 } : { opacity: 0 }),
          text(4, y, name, { class: strong }),
          state.measure === 'rmse' ? lines([scheme.errors[state.input].range.map((x) => [x_of(x), y - 4])],
            { class: `line-${color}` }) : '',
          circle(x_of(value), y - 4, 4.5, { class: color }),
          cited ? circle(x_of(cited), y - 4, 5, { class: 'line-e' }) : '',
          text(width - 4, y, words_of(value), { class: `${strong} end`, name: `error_${key}` })])
      }),
      text(4, bottom + 16, state.measure === 'rmse' ? 'a line: the lowest and highest of the seeds'
        : 'the same axis for all inputs', { class: 'small muted' }),
      has_cited ? [circle(9, bottom + 29, 5, { class: 'line-e' }),
        text(20, bottom + 33, 'FlashAttention-3\'s paper, Table 3', { class: 'small muted' })] : ''])
  },

  describe(data, state) {
    const of = (name) => data.schemes.find((scheme) => scheme.name === name), scheme = of(state.focus)
    const value = scheme.errors[state.input][state.measure], bf16 = of('bf16').errors[state.input][state.measure]
    const factor = (value / bf16).toPrecision(2), cited = cited_of(scheme, state)
    const words = MEASURES[state.measure][0]
    return `${state.focus} on ${INPUTS[state.input]}: ${words} ${words_of(value)}, ${+factor} times that of bf16.`
      + (cited ? ` The paper has ${words_of(cited)}.` : '')
      + `\nAll: ${data.schemes.map(({ name, errors }) => `${name} ${words_of(errors[state.input][state.measure])}`)
        .join(', ')}.`
  },
}
