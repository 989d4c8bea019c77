// Chapter 20's GPT on a GPU: tokens per second by context length, compared with PyTorch, and the
// time of each part of a step. Measured.
import { circle, el, line, path, rect, svg, text, WIDE } from './draw.js'

const RUNS = [['ours, ch16', 'ours', 'c'], ['PyTorch, cudnn_attention', 'PyTorch with cuDNN', 'b'], ['PyTorch, math', 'PyTorch, plain', 'd']]
const TICKS = [0, 200, 400, 600]
const thousands = (speed) => speed === undefined ? 'no memory' : `${Math.round(speed / 1000)} k`

function speed(data, state, width) {
  const wide = width >= WIDE, rows = data.rows, focus = rows.find(({ context }) => `${context}` === state.focus)
  const left = 44, right = wide ? width - 250 : width - 14, top = 46, height = 200, bottom = top + height
  const x_of = (i) => left + 20 + (right - left - 40) * i / (rows.length - 1), y_of = (k) => bottom - height * k / 700
  const list = (row) => wide ? [right + 16, top + 34 + row * 22] : [4, bottom + 84 + row * 22], end = wide ? width - 4 : 240
  return svg(width, wide ? bottom + 48 : list(3)[1], [
    text(4, 16, 'thousand tokens a second', { class: 'strong' }),
    text(4, 34, '100 million parameters, 32768 tokens a step', { class: 'small muted' }),
    TICKS.map((tick) => [line(left, y_of(tick), right, y_of(tick)),
      text(left - 6, y_of(tick) + 4, `${tick}`, { class: 'small muted end' })]),
    RUNS.map(([name, , color]) => {
      const points = rows.flatMap((row, i) => name in row.tokens_per_second
        ? [[x_of(i), y_of(row.tokens_per_second[name] / 1000), row]] : [])
      return [path(points.map(([x, y]) => [x, y]), { class: `line-${color}` }),
        points.map(([x, y, row]) => circle(x, y, row === focus ? 5 : 3, { class: color }))]
    }),
    rows.map((row, i) => el('g', { 'data-focus': `${row.context}` }, [rect(x_of(i) - 18, top, 36, height + 22, { opacity: 0 }),
      text(x_of(i), bottom + 17, `${row.context}`, { class: `small middle ${row === focus ? 'strong' : 'muted'}` })])),
    text(left, bottom + 36, 'context', { class: 'small muted' }),
    text(...list(0).map((at, i) => i ? at - 22 : at), `context ${state.focus}`, { class: 'strong' }),
    RUNS.map(([name, label, color], row) => [line(list(row)[0], list(row)[1] - 4, list(row)[0] + 20, list(row)[1] - 4,
      { class: `line-${color}` }), text(list(row)[0] + 28, list(row)[1], label),
    text(end, list(row)[1], thousands(focus.tokens_per_second[name]), { class: 'end', name: `speed_${row}` })]),
  ])
}

function kernels(data, state, width) {
  const groups = Object.entries(data.kernels), most = groups[0][1].ms, all = groups.reduce((sum, [, { ms }]) => sum + ms, 0)
  const left = 176, right = width - 70, top = 52
  return svg(width, top + groups.length * 30 + 8, [
    text(4, 16, 'milliseconds of a step, by kernel', { class: 'strong' }),
    text(4, 34, `context 1024, one kernel at a time: ${all.toFixed(1)} ms in all`, { class: 'small muted' }),
    groups.map(([name, { ms }], row) => [text(left - 8, top + row * 30 + 15, name, { class: 'end' }),
      rect(left, top + row * 30, Math.max((right - left) * ms / most, 1), 20, { class: name.startsWith('attention') ? 'c' : 'b' }),
      text(left + (right - left) * ms / most + 6, top + row * 30 + 15, ms.toFixed(1), { name: `kernel_${row}` })]),
  ])
}

export default {
  title: 'The GPT on a GPU: tokens a second, and where the time goes',
  sources: { kept: ['docs/measurements/h200/ch20_gpu.csv'], kernels: ['docs/measurements/h200/ch20_kernels.csv'] },
  data: ({ kept: { rows }, kernels }) => ({
    rows: [...new Set(rows.map(({ context }) => context))].map((context) => ({ context,
      tokens_per_second: Object.fromEntries(rows.filter((row) => row.context === context && row.tokens_per_second)
        .map((row) => [row.runner, row.tokens_per_second])) })),
    kernels: Object.fromEntries(kernels.rows.map(({ kernels: name, ms, launches }) => [name, { ms, launches }])) }),
  stills: { 'chapters/20_train_a_gpt/figures/on_gpu.svg': {} },
  initial: () => ({ show: 'speed', focus: '1024' }),
  controls: () => [{ key: 'show', type: 'choice', label: 'shown', options: [['speed', 'speed'], ['kernels', 'one step']] }],
  draw: (data, state, width) => (state.show === 'speed' ? speed : kernels)(data, state, width),

  describe(data, state) {
    if (state.show === 'kernels') return `Milliseconds of a step: ${Object.entries(data.kernels).map(([name, { ms }]) => `${name} ${ms.toFixed(1)}`).join(', ')}.`
    const all = (row) => RUNS.map(([name, label]) => `${label} ${thousands(row.tokens_per_second[name])}`).join(', ')
    return `Context ${state.focus}: ${all(data.rows.find(({ context }) => `${context}` === state.focus))}.\nTokens a second: ${
      data.rows.map((row) => `${row.context}: ${all(row)}`).join('; ')}. 100 million parameters, 32768 tokens a step, on an H200.`
  },
}
