// The error of each element of chapter 10's gradients against float64, intact and with each of the
// breaks.
import { boxes, el, flow_marks, group, lines, rect, svg, text, WIDE } from './draw.js'

const BREAKS = ['none', 'no-d', 'no-scale-in-dk', 'unmasked-backward', 'lse-of-empty-row', 'bf16-dq']
const WHAT = {
  none: 'Intact',
  'no-d': 'no-d: D is not subtracted',
  'no-scale-in-dk': 'no-scale-in-dk: dK is not multiplied by scale',
  'unmasked-backward': 'unmasked-backward: hidden keys are hidden in the forward pass only',
  'lse-of-empty-row': 'lse-of-empty-row: a query that sees no key keeps its LSE of −∞',
  'bf16-dq': 'bf16-dq: dQ is added up in bf16, tile by tile',
}
const DTYPES = { bf16: 'bf16', f32: 'fp32' }
const TENSORS = { dQ: ['query', 'queries'], dK: ['key', 'keys'], dV: ['key', 'keys'] }

// An error is a letter for its power of ten, where a is below 10^-7, b below 10^-6, …, i is 1 and more.
const LETTERS = 'abcdefghi', LOWEST = -8, NOT_FINITE = '!'
const letter_of = (error) => error === null ? NOT_FINITE
  : LETTERS[Math.max(0, Math.min(LETTERS.length - 1, Math.floor(Math.log10(error)) - LOWEST))]
const size_of = (letter) => (LETTERS.indexOf(letter) + 1) / (LETTERS.length + 1)
const KINDS = [
  { letters: 'abc', color: 'muted', words: 'below 10⁻⁵' },
  { letters: 'def', color: 'c', words: 'below 10⁻²' },
  { letters: 'g', color: 'b', words: 'below 0.1' },
  { letters: 'hi', color: 'e', words: '0.1 and more' },
]
const POWERS = ['below 10⁻⁷', '10⁻⁷ to 10⁻⁶', '10⁻⁶ to 10⁻⁵', '10⁻⁵ to 10⁻⁴', '10⁻⁴ to 10⁻³', '10⁻³ to 10⁻²',
  '10⁻² to 0.1', '0.1 to 1', '1 and more']

function tensor_of(rows) {
  const finite = rows.flat().filter((error) => error !== null).sort((a, b) => a - b)
  return { rows: rows.map((row) => row.map(letter_of).join('')), median: finite[finite.length >> 1].toPrecision(2),
    largest: finite.at(-1).toPrecision(2), not_finite: rows.flat().length - finite.length }
}
const digits = (number) => Number(number) < 0.01
  ? Number(number).toExponential(1).replace('-', '−') : `${Number(number)}`
const case_of = (data, { dtype, broken }) => data.cases[`${dtype},${broken}`]
const ending_of = ({ not_finite }) => not_finite ? `${not_finite} not finite` : 'all finite'

// Draws a tensor with one column for each of its rows.
function draw_tensor(data, { rows }, name, cell) {
  const dim = rows[0].length, height = dim * cell
  const square = (letter, x, y) => {
    const side = cell * size_of(letter)
    return [x * cell + (cell - side) / 2, y * cell + (cell - side) / 2, side, side]
  }
  const found = rows.flatMap((row, x) => [...row].map((letter, y) => [letter, x, y]))
  const crosses = found.filter(([letter]) => letter === NOT_FINITE).flatMap(([, x, y]) => [
    [[x * cell + 1, y * cell + 1], [(x + 1) * cell - 1, (y + 1) * cell - 1]],
    [[x * cell + 1, (y + 1) * cell - 1], [(x + 1) * cell - 1, y * cell + 1]]])
  const tiles = rows.flatMap((_, x) => x && x % data.block === 0 ? [[[x * cell, 0], [x * cell, height]]] : [])
  return [rect(0, 0, rows.length * cell, height, { class: 'cell' }), lines(tiles, { class: 'axis' }),
    KINDS.map(({ letters, color }) => boxes(found.filter(([letter]) => letters.includes(letter))
      .map((one) => square(...one)), color === 'muted' ? { fill: 'var(--muted)' } : { class: color })),
    lines(crosses, { class: 'line-e', 'stroke-width': 1 }),
    rows.map((_, x) => rect(x * cell, 0, cell, height, { fill: 'transparent', 'data-focus': `${name},${x}` })),
    rows.flatMap((_, x) => x % (2 * data.block) === 0
      ? [text(x * cell, height + 13, x, { class: 'small muted' })] : [])]
}

export default {
  title: 'Every element of the gradients against float64',
  sources: Object.fromEntries(Object.keys(DTYPES).flatMap((dtype) => BREAKS.map((broken) => [`${dtype},${broken}`,
    ['ch10_backward', 'elements', '--dtype', dtype, '--break', broken, '--json', '{json}']]))),
  data(outputs) {
    const { queries, keys, dim, block } = outputs['bf16,none']
    return { queries, keys, dim, block, cases: Object.fromEntries(Object.entries(outputs)
      .map(([key, { passed, errors }]) => [key, { passed, ...Object.fromEntries(Object.keys(TENSORS)
        .map((name) => [name, tensor_of(errors[name])])) }])) }
  },
  stills: { 'chapters/10_backward/figures/gradient_check.svg': { broken: 'lse-of-empty-row' } },
  initial: () => ({ broken: 'none', dtype: 'bf16' }),
  controls: () => [
    { key: 'broken', type: 'choice', label: 'break', options: BREAKS.map((name) =>
      [name, name === 'none' ? 'intact' : name]) },
    { key: 'dtype', type: 'choice', label: 'type', options: Object.entries(DTYPES) },
  ],

  draw(data, state, width) {
    const one = case_of(data, state), wide = width >= WIDE
    const cell = (width - 8) / Math.max(data.queries, data.keys), pitch = data.dim * cell + (wide ? 50 : 66)
    const verdict = one.passed ? 'within the bound' : 'outside the bound'
    const parts = Object.entries(TENSORS).map(([name, [, all]], n) => {
      const tensor = one[name], numbers = [
        text(wide ? 330 : 0, wide ? 0 : 16, `median ${digits(tensor.median)}`,
          { class: 'small', name: `${name}_median` }),
        text(wide ? 460 : 112, wide ? 0 : 16, `largest ${digits(tensor.largest)}`,
          { class: 'small', name: `${name}_largest` }),
        text(width - 8, wide ? 0 : 16, ending_of(tensor),
          { class: `small end${tensor.not_finite ? ' strong' : ' muted'}`, name: `${name}_not_finite` })]
      return group(4, 46 + n * pitch, [text(0, 0, name, { class: 'strong' }),
        text(26, 0, `a column: the ${data.dim} numbers of one of ${tensor.rows.length} ${all}`,
          { class: 'small muted' }),
        numbers, group(0, wide ? 8 : 24, draw_tensor(data, tensor, name, cell))])
    })
    const marks = KINDS.map(({ letters, color, words }) => {
      const side = 14 * size_of(letters.at(-1))
      return [20, words, rect(7 - side / 2, 7 - side / 2, side, side,
        color === 'muted' ? { fill: 'var(--muted)' } : { class: color })]
    })
    marks.push([20, 'not finite', lines([[[2, 2], [12, 12]], [[2, 12], [12, 2]]], { class: 'line-e' })])
    const legend = flow_marks([...marks, [0, 'thin lines: tiles', '']], width, 30 + 3 * pitch)
    return svg(width, legend.bottom + 12, [
      text(4, 14, `${state.broken === 'none' ? 'intact' : state.broken}, ${DTYPES[state.dtype]}: ${verdict}`,
        { class: 'strong', name: 'verdict' }),
      text(wide ? width - 4 : 4, wide ? 14 : 30, 'error / root mean square of the tensor',
        { class: `small muted${wide ? ' end' : ''}` }), parts, legend.drawn])
  },

  describe(data, state) {
    const one = case_of(data, state)
    const said = Object.keys(TENSORS).map((name) => {
      const { median, largest, not_finite, rows } = one[name]
      const large = [...rows.join('')].filter((letter) => 'hi'.includes(letter)).length
      return `${name}: median ${digits(median)}, largest ${digits(largest)}, ${large} of ${rows.length * data.dim} `
        + `at 0.1 and more${not_finite ? `, ${not_finite} not finite` : ''}`
    })
    const [tensor, row] = state.focus?.split(',') ?? []
    const letters = tensor ? [...one[tensor].rows[row]] : []
    const finite = letters.filter((letter) => letter !== NOT_FINITE).sort()
    const pointed = tensor ? ` ${tensor}, ${TENSORS[tensor][0]} ${row}: `
      + (finite.length ? `the largest error is ${POWERS[LETTERS.indexOf(finite.at(-1))]}` : 'no number is finite')
      + (finite.length && finite.length < letters.length ? ', others are not finite.' : '.') : ''
    return `${WHAT[state.broken]}; ${DTYPES[state.dtype]}. ${one.passed ? 'Within the bound.' : 'Outside the bound.'}`
      + `${pointed}\nError in units of the tensor's root mean square. ${said.join('; ')}. ${data.queries} queries, `
      + `${data.keys} keys, causal: the first ${data.queries - data.keys} queries see no key. d = ${data.dim}, `
      + `tiles of ${data.block} × ${data.block}. The larger a square, the larger the error: a step for each power of ten.`
  },
}
