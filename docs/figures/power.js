// Chapters 08 to 14 and their peers in long runs, where a faster kernel gets a slower clock, because the power is
// always at the card's limit.
import { el, flow_words, line, rect, shape_words, svg, text, WIDE, wrapped } from './draw.js'

const RUNGS = [  // name in the measurements, in words, color
  ['ch08', '08, mma.sync', 'a'],
  ['ch12', '12, TMA', 'a'],
  ['ch13:1', '13, one warpgroup', 'a'],
  ['ch13', '13, wgmma', 'a'],
  ['ch14:2', '14, two consumers', 'a'],
  ['ch14', '14, three consumers', 'a'],
  ['FA2', 'FlashAttention-2', 'b'],
  ['cuDNN', 'cuDNN', 'b'],
]
const PEERS = RUNGS.findIndex(([name]) => name === 'FA2')
const [FIRST, LAST] = ['ch08', 'ch14']
const COLUMNS = [  // key, unit, decimals
  ['tflops', 'TFLOP/s', 1],
  ['tensor', 'tensor pipe, %', 1],
  ['ghz', 'clock, GHz', 2],
  ['watts', 'power, W', 0],
]
const WIDE_HEADS = { tflops: 'speed, TFLOP/s' }
const SHORT_HEADS = { tensor: 'tensor, %', ghz: 'GHz', watts: 'W' }

const value_of = (data, { shape }, name, key) => key === 'tensor'
  ? shape === data.tensor.shape ? data.tensor.percent[name] : undefined : data.shapes[shape][name][key]
const ratio_of = (data, state, key) => {
  const [before, after] = [FIRST, LAST].map((name) => value_of(data, state, name, key))
  return after === undefined ? undefined : `× ${(after / before).toFixed(2)}`
}
const title_of = (wanted) => RUNGS.find(([name]) => name === wanted)[1]

export default {
  title: 'Speed, clock and power from chapter 08 to 14',
  sources: { steady: ['docs/measurements/tables.py', 'steady', '--json', '{json}'] },
  data: ({ steady }) => steady,
  stills: { 'chapters/14_warp_specialization/figures/power.svg': {} },
  initial: (data) => ({ shape: data.tensor.shape, focus: LAST }),
  controls: ({ shapes }) => [{ key: 'shape', type: 'choice', label: 'problem',
    options: Object.keys(shapes).map((shape) => [shape, shape_words(shape)]) }],

  draw(data, state, width) {
    const wide = width >= WIDE, left = wide ? 142 : 4, pitch = wide ? 29 : 41, bar = wide ? 15 : 14
    const column_width = (width - left) / COLUMNS.length, room = column_width - (wide ? 54 : 46)
    const heading = flow_words([[`On an H200 at ${shape_words(state.shape)}`, { class: 'strong' }]], width, 14)
    const top = heading.bottom + 24, gap = 12
    const y_of = (rung) => top + rung * pitch + (rung >= PEERS ? gap : 0)
    const bottom = y_of(RUNGS.length)
    const most = (key) => Math.max(...Object.keys(data.shapes).flatMap((shape) =>
      RUNGS.map(([name]) => value_of(data, { shape }, name, key) ?? 0)))
    const columns = COLUMNS.map(([key, unit, decimals], column) => {
      const x = left + column * column_width, ratio = ratio_of(data, state, key), scale = room / most(key)
      return [
        text(x, top - 8, (wide ? WIDE_HEADS : SHORT_HEADS)[key] ?? unit, { class: 'small muted' }),
        RUNGS.map(([name, , color], rung) => {
          const value = value_of(data, state, name, key), y = y_of(rung) + (wide ? 6 : 20)
          if (value === undefined) return text(x, y + 12, '–', { class: 'muted' })
          const on = state.focus === name
          return [rect(x, y, value * scale, bar, { class: on ? color : `soft-${color}` }),
            text(x + value * scale + 4, y + 11.5, value.toFixed(decimals),
              { class: on ? 'small strong' : 'small', name: `${key}_${name.replace(':', '_')}` })]
        }),
        ratio ? text(x, bottom + 15, ratio, { class: 'small strong', name: `ratio_${key}` }) : '']
    })
    const about = wrapped(data.how.split('. ')[0], width, 10)
    return svg(width, bottom + 30 + 14 * about.length + (wide ? 0 : 18), [
      heading.drawn,
      RUNGS.map(([name], rung) => state.focus !== name ? ''
        : rect(0, y_of(rung), width, pitch, { class: 'soft-f', rx: 4 })),
      columns,
      RUNGS.map(([name, words], rung) => el('g', { 'data-focus': name }, [
        rect(0, y_of(rung), width, pitch, { opacity: 0 }),
        text(4, y_of(rung) + (wide ? 18 : 14), words,
          { class: state.focus === name ? 'small strong' : 'small' })])),
      line(0, bottom + 2, width, bottom + 2),
      text(4, bottom + (wide ? 15 : 33), '14 beside 08', { class: 'small muted' }),
      about.map((words, i) => text(4, bottom + (wide ? 34 : 52) + 14 * i, words, { class: 'small muted' }))])
  },

  describe(data, state) {
    const words = (name) => COLUMNS.flatMap(([key, unit, decimals]) => {
      const value = value_of(data, state, name, key)
      return value === undefined ? [] : [key === 'tensor' ? `tensor pipe ${value.toFixed(decimals)} % busy`
        : `${value.toFixed(decimals)} ${unit.split(', ').at(-1)}`]
    }).join(', ')
    const ratios = COLUMNS.flatMap(([key, unit]) => ratio_of(data, state, key)
      ? [`${unit.split(',')[0]} ${ratio_of(data, state, key)}`] : [])
    const all = RUNGS.map(([name, title]) => `${title}: ${words(name)}`)
    return `${title_of(state.focus)}: ${words(state.focus)}. Chapter 14 beside chapter 08: ${ratios.join(', ')}.`
      + `\nAll at ${shape_words(state.shape)}: ${all.join('; ')}. ${data.how} The tensor pipe is from another run, `
      + `at B,H,Lq,Lkv,D = ${data.tensor.shape} only: ${data.profiled} For the same product mma.sync keeps the pipe `
      + 'busy for longer than wgmma does, so compare chapters 08 and 12 with each other, and 13, 14 and cuDNN.'
  },
}
