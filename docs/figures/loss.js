// The loss of chapter 20's model over 2000 steps, intact and with each of five bugs, or with three attention
// algorithms and several seeds. Measured, as means of 50 steps.
import { el, line, path, rect, svg, text, WIDE } from './draw.js'

const INTACT = 'tiled 0'
// Name, color, words after the name in the list.
const BREAKS = [[INTACT, 'c', 'intact'], ['mask-off-by-one', 'e', 'mask off by one'],
  ['tile-relative-mask', 'b', 'tile-relative mask'], ['no-d', 'd', 'D forgotten'],
  ['no-scale-in-dk', 'a', 'no scale in dK'], ['no-rescale', 'f', 'no rescaling']]
const SEEDS = [0, 1, 2, 3, 4].flatMap((seed) => [[`plain ${seed}`, 'd', `plain, seed ${seed}`],
  [`tiled ${seed}`, 'c', `tiled, seed ${seed}`]]).concat([['ch10 0', 'b', 'kernels, bf16, seed 0']])
const SHOWN = { breaks: BREAKS, seeds: SEEDS }
const rows_of = (data, state) => SHOWN[state.show].filter(([name]) => name in data.curves)
const words_of = (loss) => loss.toFixed(3)

export default {
  title: 'The loss over 2000 steps: intact, and with bugs',
  sources: { kept: ['docs/measurements/cpu/ch20_curves.csv'] },
  data: ({ kept: { about, rows } }) => ({ every: about.every, curves: Object.fromEntries(rows.map(
    ({ name, means, last, passed }) => [name,
      { means: means.split(' ').map((x) => +(+x).toFixed(3)), last, passed: passed === 1 }])) }),
  stills: { 'chapters/20_train_a_gpt/figures/loss.svg': {} },
  initial: () => ({ show: 'breaks', focus: 'mask-off-by-one' }),
  controls: () => [{ key: 'show', type: 'choice', label: 'curves', options: [['breaks', 'intact and broken'],
    ['seeds', 'three attentions, five seeds']] }],
  settle(data, state) {
    if (!rows_of(data, state).some(([name]) => name === state.focus)) state.focus = rows_of(data, state)[0][0]
  },

  draw(data, state, width) {
    const rows = rows_of(data, state), wide = width >= WIDE, left = 34, right = wide ? width - 250 : width - 8
    const top = 46, height = wide ? 250 : 190, bottom = top + height, points = rows.map(([name]) => data.curves[name].means)
    const count = points[0].length, most = 5, x_of = (i) => left + (right - left) * (i + 0.5) / count
    const y_of = (loss) => bottom - height * Math.min(loss, most) / most
    const pitch = wide ? 22 : rows.length > 6 ? 18 : 22
    const list = (row) => [wide ? right + 20 : 4, (wide ? top + 14 : bottom + 54) + row * pitch]
    const curve = ([name, color], i) => path(points[i].map((loss, n) => [x_of(n), y_of(loss)]),
      { class: `line-${color}`, 'stroke-width': name === state.focus ? 3 : 1.3 })
    const order = rows.map((row, i) => [row, i]).sort(([[one]]) => one === state.focus ? 1 : -1)
    return svg(width, wide ? bottom + 46 : list(rows.length)[1] - 4, [
      text(4, 16, 'loss, means of 50 steps', { class: 'strong' }),
      text(4, 34, 'the lower, the better it guesses the next character', { class: 'small muted' }),
      [0, 1, 2, 3, 4, 5].map((loss) => [line(left, y_of(loss), right, y_of(loss)),
        text(left - 6, y_of(loss) + 4, `${loss}`, { class: 'small muted end' })]),
      [500, 1000, 1500, 2000].map((step) => text(x_of(step / data.every - 0.5), bottom + 16, `${step}`,
        { class: step === 2000 ? 'small muted end' : 'small muted middle' })),
      text(left, bottom + 34, wide ? 'steps; at the right, the mean of the last 200' : 'steps; below, the mean of the last 200',
        { class: 'small muted' }),
      order.map(([row, i]) => curve(row, i)),
      rows.map(([name, color, words], row) => {
        const [x, y] = list(row), end = width - 4, on = name === state.focus
        return el('g', { 'data-focus': name }, [
          rect(x - 4, y - 14, end - x + 4, 18, on ? { class: 'soft-f', rx: 3 } : { opacity: 0 }),
          line(x, y - 4, x + 20, y - 4, { class: `line-${color}` }),
          text(x + 28, y, words, { class: on ? 'strong' : null }),
          text(end - 4, y, words_of(data.curves[name].last), { class: on ? 'end strong' : 'end',
            name: `last_${name.replace(' ', '_')}` })])
      })])
  },

  describe(data, state) {
    const rows = rows_of(data, state), [, , words] = rows.find(([name]) => name === state.focus)
    const one = data.curves[state.focus], intact = data.curves[INTACT]
    const beside = state.show === 'breaks' && state.focus !== INTACT
      ? `, ${words_of(Math.abs(one.last - intact.last))} ${one.last < intact.last ? 'below' : 'above'} the intact one` : ''
    const check = one.passed ? 'agree with those of plain attention in float64' : 'do not agree with those of plain '
      + 'attention in float64'
    return `${words}: after 2000 steps the loss is ${words_of(one.last)}${beside}. The gradients of its first step ${check}.`
      + `\nMeans of the last 200 steps: ${rows.map(([name, , said]) => `${said} ${words_of(data.curves[name].last)}`).join('; ')}.`
  },
}
