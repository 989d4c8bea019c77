// The cost of a training step of chapter 20 by context length, with plain and tiled attention.
// Measured.
import { circle, el, line, path, rect, svg, text, WIDE } from './draw.js'

const ATTENTIONS = [['plain', 'd'], ['tiled', 'c']]
const SHOWN = {  // key in the report, words, unit, ticks of the axis
  memory: { value: ({ attention_bytes }) => attention_bytes / 2 ** 20, title: 'MiB that attention allocates',
    ticks: [0.1, 1, 10, 100, 1000, 10000], words: (mib) => mib < 1 ? `${1024 * mib} KiB` : `${mib} MiB` },
  time: { value: ({ ms }) => ms, title: 'milliseconds a step', ticks: [10, 100, 1000, 10000], words: (ms) => `${ms.toFixed(0)} ms` },
}

export default {
  title: 'A step against the context: plain and tiled attention',
  sources: { kept: ['docs/measurements/cpu/ch20_contexts.csv'] },
  data: ({ kept: { rows } }) => rows.reduce((all, { context, attention, ...measured }) =>
    ({ ...all, [context]: { ...all[context], [attention]: measured } }), {}),
  stills: { 'chapters/20_train_a_gpt/figures/context.svg': {} },
  initial: () => ({ show: 'memory', focus: '16384' }),
  controls: () => [{ key: 'show', type: 'choice', label: 'shown', options: [['memory', 'memory'], ['time', 'time']] }],

  draw(data, state, width) {
    const { value, title, words, ticks } = SHOWN[state.show], wide = width >= WIDE, contexts = Object.keys(data)
    const left = 52, right = wide ? width - 190 : width - 14, top = 46, height = 200, bottom = top + height
    const [low, high] = [ticks[0] / 2, ticks.at(-1)].map(Math.log)
    const x_of = (i) => left + 20 + (right - left - 40) * i / (contexts.length - 1)
    const y_of = (y) => bottom - height * (Math.log(y) - low) / (high - low)
    const of = (name, context) => value(data[context][name])
    const said = ATTENTIONS.map(([name]) => [name, of(name, state.focus)]), [[, plain], [, tiled]] = said
    const list = (row) => wide ? [right + 16, top + 34 + row * 22] : [4, bottom + 84 + row * 22]
    const end = wide ? width - 4 : 220
    return svg(width, wide ? bottom + 48 : list(3)[1], [
      text(4, 16, title, { class: 'strong' }),
      text(4, 34, 'both axes logarithmic', { class: 'small muted' }),
      ticks.map((tick) => [line(left, y_of(tick), right, y_of(tick)),
        text(left - 6, y_of(tick) + 4, `${tick}`, { class: 'small muted end' })]),
      ATTENTIONS.map(([name, color]) => [path(contexts.map((context, i) => [x_of(i), y_of(of(name, context))]),
        { class: `line-${color}` }), contexts.map((context, i) => circle(x_of(i), y_of(of(name, context)),
        context === state.focus ? 5 : 3, { class: color }))]),
      contexts.map((context, i) => el('g', { 'data-focus': context }, [
        rect(x_of(i) - 18, top, 36, height + 22, { opacity: 0 }),
        text(x_of(i), bottom + 17, context, { class: `small middle ${context === state.focus ? 'strong' : 'muted'}` })])),
      text(left, bottom + 36, 'context', { class: 'small muted' }),
      text(...list(0).map((at, i) => i ? at - 22 : at), `context ${state.focus}`, { class: 'strong' }),
      ATTENTIONS.map(([name, color], row) => [line(list(row)[0], list(row)[1] - 4, list(row)[0] + 20, list(row)[1] - 4,
        { class: `line-${color}` }), text(list(row)[0] + 28, list(row)[1], name),
      text(end, list(row)[1], words(said[row][1]), { class: 'end', name: `${state.show}_${name}` })]),
      text(list(2)[0] + 28, list(2)[1], 'plain / tiled'),
      text(end, list(2)[1], (plain / tiled).toFixed(plain / tiled < 10 ? 1 : 0), { class: 'end strong', name: `${state.show}_factor` }),
    ])
  },

  describe(data, state) {
    const { title, value, words } = SHOWN[state.show]
    const both = (context) => ATTENTIONS.map(([name]) => `${name} ${words(value(data[context][name]))}`).join(', ')
    return `Context ${state.focus}: ${both(state.focus)}.\n${title}: ${Object.keys(data).map((context) =>
      `${context}: ${both(context)}`).join('; ')}. One layer, two heads of 16, batch 1, on two cores.`
  },
}
