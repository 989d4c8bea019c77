// The error of chapter 17's 8-bit kernel on three inputs, by the elements that share a scale,
// compared with the expected error.
import { circle, el, flow_marks, group, line, path, rect, svg, text, WIDE } from './draw.js'

const INPUTS = { normal: [], mean: ['--channel-mean', '8'], outliers: ['--outliers', '10'] }
const WORDS = {
  normal: 'normal numbers',
  mean: 'K’s channels have means, of deviation 8',
  outliers: 'one number in 1000 is 10 times as large',
}
const SCHEMES = {
  head: ['--scales', '1'], block: ['--scales', '2'], warp: ['--scales', '3'], thread: ['--scales', '4'],
  rough: ['--break', 'no-smoothing'],
}
const NAMES = { head: 'a head has one scale', block: 'a block', warp: 'a warp', thread: 'a thread',
  rough: 'a thread, K with its mean' }
const SHORT = { head: 'a head', block: 'a block', warp: 'a warp', thread: 'a thread', rough: 'not smooth' }
const LENGTHS = [256, 1024, 4096]
const TICKS = [0.0003, 0.001, 0.003, 0.01, 0.03], RANGE = [0.0003, 0.04]

const key_of = (length, input, scheme) => `${length},${input},${scheme}`
const runs = LENGTHS.flatMap((length) => Object.keys(INPUTS).flatMap((input) => Object.keys(SCHEMES)
  .map((scheme) => [length, input, scheme])))
const predicted = ({ rms_error, rmse_expected }) => Math.hypot(rms_error, rmse_expected)
const digits = (error) => error.toExponential(1).replace(/e-(\d+)/, (_, power) =>
  ` · 10⁻${'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}`)

export default {
  title: 'The error of 8-bit scores: measured, and expected from the steps',
  sources: Object.fromEntries(runs.map(([length, input, scheme]) => [key_of(length, input, scheme),
    ['ch17_low_precision', '--device', 'emulator', '--shape', `1,1,128,${length},128`, ...INPUTS[input],
      ...SCHEMES[scheme], '--json', '{json}']])),
  data: (outputs) => Object.fromEntries(Object.entries(outputs).map(([key, { check }]) => [key, Object.fromEntries(
    ['rmse', 'rms_error', 'rmse_expected'].map((name) => [name, Number(check[name].toPrecision(3))]))])),
  stills: { 'chapters/17_low_precision/figures/rounding.svg': {} },
  initial: () => ({ length: 1024 }),
  controls: () => [{ key: 'length', type: 'choice', label: 'keys', options: LENGTHS.map((n) => [n, `${n}`]) }],

  draw(data, state, width) {
    const wide = width >= WIDE, x = wide ? 190 : 104, x_end = width - (wide ? 96 : 84)
    const pitch = 21, panel = 5 * pitch + (wide ? 44 : 30)
    const at = (error) => x + Math.log(error / RANGE[0]) / Math.log(RANGE[1] / RANGE[0]) * (x_end - x)
    const diamond = (px, py) => path([[px, py - 6], [px + 6, py], [px, py + 6], [px - 6, py], [px, py - 6]],
      { class: 'line-b' })
    const panels = Object.keys(INPUTS).map((input, n) => {
      const one = (scheme) => data[key_of(state.length, input, scheme)]
      const bottom = 24 + 5 * pitch, alone = at(one('thread').rms_error)
      const rows = Object.keys(SCHEMES).map((scheme, row) => {
        const { rmse } = one(scheme), y = 34 + row * pitch
        return el('g', { 'data-focus': `${input}:${scheme}` }, [
          rect(0, y - 10, width, pitch, { fill: 'transparent' }),
          text(x - 14, y + 4, (wide ? NAMES : SHORT)[scheme], { class: 'small end' }),
          line(x, y, x_end, y),
          scheme === 'rough' ? '' : diamond(at(predicted(one(scheme))), y),
          circle(at(rmse), y, 4, { class: scheme === 'rough' ? 'e' : 'a' }),
          text(width - 4, y + 4, digits(rmse), { class: 'small end', name: `${input}_${scheme}` })])
      })
      return group(0, 8 + n * panel, [text(4, 12, WORDS[input], { class: 'strong' }),
        TICKS.map((tick) => [line(at(tick), 24, at(tick), bottom),
          wide || n === 2 ? text(at(tick), bottom + 13, tick, { class: 'small muted middle' }) : '']),
        line(alone, 24, alone, bottom, { class: 'line-c', 'stroke-dasharray': '4 3' }), rows])
    })
    const legend = flow_marks([[20, 'rms error against float64', circle(7, 7, 4, { class: 'a' })],
      [20, 'K not smoothed', circle(7, 7, 4, { class: 'e' })],
      [20, 'expected: 16 bits and the steps of 8', diamond(7, 7)],
      [20, 'of it 16 bits alone', line(7, 0, 7, 14, { class: 'line-c', 'stroke-dasharray': '4 3' })]],
    width, (wide ? 14 : 28) + 3 * panel)
    return svg(width, legend.bottom + 12, [panels, legend.drawn])
  },

  describe(data, state) {
    const [input, scheme] = state.focus?.split(':') ?? ['outliers', 'thread']
    const { rmse, rms_error, rmse_expected } = data[key_of(state.length, input, scheme)]
    const expected = scheme === 'rough' ? '' : `, expected ${digits(predicted({ rms_error, rmse_expected }))}: `
      + `${digits(rms_error)} by 16 bits, ${digits(rmse_expected)} by 8`
    const worst = Math.max(...runs.filter(([, , one]) => one !== 'rough').map((run) => {
      const one = data[key_of(...run)]
      return Math.abs(one.rmse / predicted(one) - 1)
    }))
    return `${state.length} keys, ${WORDS[input]}, ${NAMES[scheme]}: error ${digits(rmse)}${expected}.\n128 queries, D = 128. `
      + `In all ${LENGTHS.join(', ')} keys what is expected is off by at most ${(100 * worst).toFixed(0)} %.`
  },
}
