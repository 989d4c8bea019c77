// In online softmax, numbers arrive one after the other, and one multiplication corrects all old terms.
import { el, group, line, rect, svg, text, WIDE, wrapped } from './draw.js'

const COUNT = 6
const VALUES = [1, 2, 3, 4, 5, 6]
const PRESETS = {
  rising: ['1 to 6', VALUES],
  falling: ['6 to 1', [6, 5, 4, 3, 2, 1]],
  giant: ['a late giant', [1, 2, 3, 4, 5, 100]],
  equal: ['all equal', [3, 3, 3, 3, 3, 3]],
  negative: ['very negative', [-1000, -999, -1002, -998, -1001, -997]],
}
const OWN = { lowest: -4, highest: 8, top: 24, height: 66 }  // the scale for the reader's scores
const LENGTHS = VALUES.map((_, i) => i + 1)

// Returns the state after each key, from the steps of chapter 01's one-pass attention, with m in R1, l in R2, the
// unnormalized o in R6, the correction in R3, the new term in R0.
function states_of({ steps }) {
  const first = [...steps.keys()].filter((i) => steps[i].instruction.startsWith('LOAD k['))
  const end = steps.findIndex(({ instruction }) => instruction.startsWith('DIV'))
  return first.map((from, j) => {
    const own = steps.slice(from, first[j + 1] ?? end)
    const after = (words) => own.find(({ instruction }) => instruction === words)?.registers ?? []
    const [, m, l, , , , o] = own.at(-1).registers
    return { m, l, o, term: after('EXP R0, R0')[0], correction: after('EXP R3, R3')[3],
      old_l: after('MUL R2, R3, R2')[2], instructions: own.length,
      loads: own.filter(({ instruction }) => instruction.startsWith('LOAD')).length }
  })
}

// Returns the result of safe softmax for the first n numbers, with m in R1, l in R2. Its second pass leaves each
// term in R0.
function safe_of({ steps, outputs, passes }) {
  const exponentials = steps.filter(({ instruction }) => instruction === 'EXP R0, R0')
  const [, m, l] = steps.at(-1).registers
  return { terms: exponentials.slice(0, outputs.out.length).map(({ registers }) => registers[0]), m, l,
    weights: outputs.out, passes }
}

// Returns the commands of chapter 01's program for some scores, and the parts of the output that
// the figure keeps.
const commands_of = (name, x) => ({
  [name]: ['attention', '--n', `${COUNT}`, '--k', `${x}`, '--v', `${VALUES}`],
  ...Object.fromEntries(LENGTHS.map((n) =>
    [`${name}_${n}`, ['softmax', '--algorithm', 'safe', '--n', `${n}`, '--x', `${x.slice(0, n)}`]])) })
const kept = (name, x, outputs) => ({ x, v: VALUES, o: outputs[name].outputs.o[0], states: states_of(outputs[name]),
  safe: LENGTHS.map((n) => safe_of(outputs[`${name}_${n}`])) })

// ---- the reader's scores, run in the page ----

// Returns six numbers, or a sentence with the error.
export function scores_in(words) {
  const x = words.trim().split(/[\s,]+/).map((word) => Number(word.replace('−', '-')))
  const right = x.length === COUNT && x.every((number) => Number.isFinite(number) && Math.abs(number) <= 1000)
  return right ? { x } : { problem: `expected ${COUNT} numbers from −1000 to 1000, such as ${VALUES.join(', ')}` }
}

// Runs one command after the other. `view` is for the last scores for which all commands are
// finished.
function live(data, { preset, scores }) {
  const { x } = scores_in(scores), { of, outputs = {}, problem } = data.live ?? {}, mine = of === `${x}`
  if (preset !== 'own' || !x || mine && problem) return null
  const next = Object.entries(commands_of('own', x)).find(([name]) => !mine || !outputs[name])
  return next ? { key: `${next[0]} ${x}`, x, name: next[0], request: { chapter: 1, command: next[1] } } : null
}
function heard(data, { x, name }, { error, report }) {
  const before = data.live?.of === `${x}` ? data.live.outputs : {}, outputs = { ...before, [name]: report }
  const done = Object.keys(outputs).length === COUNT + 1
  return { ...data, live: error ? { of: `${x}`, problem: error }
    : { of: `${x}`, outputs, view: done ? kept('own', x, outputs) : data.live?.view } }
}

function own_view(data, words) {
  const { problem } = scores_in(words), { view, problem: why = 'not run yet' } = data.live ?? {}
  return problem ? { problem } : view ? { ...view, own: true } : { ...data.presets.rising, instead: why }
}

// Formats a number with four decimals, as in the lesson.
const show = (value, digits = 1) => {
  if (Number.isInteger(value)) return String(value).replace('-', '−')
  return Math.abs(value) < 5e-5 ? value.toExponential(digits).replace('e-', 'e−') : value.toFixed(4)
}
const bracketed = (value) => value < 0 ? `(${show(value)})` : show(value)

const view_of = (data, { preset, step, scores }) => {
  const chosen = preset === 'own' ? own_view(data, scores) : data.presets[preset]
  if (chosen.problem) return chosen
  return { ...chosen, now: chosen.states[step - 1], before: chosen.states[step - 2],
    terms: chosen.safe[step - 1]?.terms ?? [], old_terms: chosen.safe[step - 2]?.terms ?? [],
    final: chosen.safe.at(-1) }
}

// Draws the numbers so far, with the current weight of each in the sum below it.
function draw_row(view, step, width, wide) {
  const { x, now, terms, old_terms, states, final, own } = view
  const down = own ? OWN.top + OWN.height + 30 : 84  // y of the terms
  const cell = width / COUNT, tall = wide ? 100 : 64, floor = down + 12 + tall
  const parts = [text(0, 14, own ? 'scores x: drag them up and down'
    : 'scores x with their values v, as they arrive',
    { class: 'strong' }),
    text(0, down, `term e^(x − m), m = ${show(now.m)}`, { class: 'strong' }),
    text(width, down, wide ? 'dashed: before m rose' : 'dashed: before', { class: 'small muted end' }),
    line(0, floor, width, floor)]
  x.forEach((number, i) => {
    const left = i * cell, middle = left + cell / 2, here = i === step - 1, come = i < step
    const shade = here ? 'soft-f on' : come ? 'soft' : 'cell'
    if (own) parts.push(draw_handle(number, view.v[i], left, cell, here, come))
    else {
      parts.push(rect(left + 3, 24, cell - 6, 38, { class: shade, rx: 4 }),
        text(middle, 42, come ? show(number) : '?', { class: `middle ${come ? 'strong' : 'muted'}` }),
        come ? text(middle, 56, `v ${show(view.v[i])}`, { class: 'middle small c' }) : '')
    }
    if (!come) return
    const height = terms[i] * tall, before = old_terms[i] === undefined ? height : old_terms[i] * tall
    parts.push(rect(left + 10, floor - height, cell - 20, height, { class: here ? 'd' : 'soft-d' }))
    if (before - height > 0.5) {
      parts.push(rect(left + 10, floor - before, cell - 20, before,
        { class: 'line-d', 'stroke-dasharray': '4 3' }))
    }
    parts.push(text(middle, floor + 16, show(terms[i], 0),
      { class: `middle${here ? ' strong' : ''}`, name: `term_${i}` }),
      wide && text(middle, floor + 56, states[i].instructions,
        { class: 'middle', name: `instructions_${i}` }))
    if (step === COUNT) {
      parts.push(text(middle, floor + (wide ? 94 : 54), show(final.weights[i], 0),
        { class: 'middle strong', name: `weight_${i}` }))
    }
  })
  const note = { class: 'small muted' }
  parts.push(wide && text(0, floor + 38, 'instructions for this number: no old one is read again', note),
    text(0, floor + (wide ? 76 : 36), step === COUNT ? 'weight: term / l'
      : 'weight: term / l, known at the end', note))
  return { height: floor + (wide ? 102 : 62), parts: parts.filter(Boolean) }
}

// Draws a score of the reader on its track.
function draw_handle(number, value, left, cell, here, come) {
  const { lowest, highest, top, height } = OWN, middle = left + cell / 2
  const part = (Math.min(highest, Math.max(lowest, number)) - lowest) / (highest - lowest)
  const y = top + (1 - part) * (height - 20)
  return el('g', { 'data-drag': 'score', opacity: come ? null : 0.5 }, [
    rect(left + 2, top, cell - 4, height, { class: 'soft', rx: 4 }),
      line(middle, top + 6, middle, top + height - 6),
    rect(left + 5, y, cell - 10, 20, { class: here ? 'soft-f on' : 'cell', rx: 4 }),
    text(middle, y + 14, String(number).replace('-', '−'), { class: 'middle strong' }),
    text(middle, top + height + 13, `v ${show(value)}`, { class: 'middle small c' })])
}

// Draws the three numbers of the state, and how the current number changed them.
function draw_state({ now, before, final, x, v, o, states }, step, width, wide) {
  const parts = [text(0, 14, 'all that is kept: m, l, o', { class: 'strong' })]
  const number = x[step - 1], value = v[step - 1], rises = before && now.m > before.m
  const m = before ? `max(${show(before.m)}, ${show(number)}) = ` : ''
  const factor = !before ? 'none: the first number'
    : `e^(${show(before.m)} − ${bracketed(now.m)}) = ${show(now.correction)}`
  parts.push(rect(0, 24, width, 26, { class: rises ? 'soft-f' : 'soft', rx: 3 }),
    text(8, 42, `m = ${m}${show(now.m)}`, { class: 'strong', name: 'm' }),
    text(8, 70, !before || rises ? 'up' : 'stays', { class: rises ? 'strong' : 'muted' }),
    text(width - 8, 70, factor, { class: `end${rises ? ' strong' : ''}`, name: 'correction' }))
  const scale = (width - 168) / Math.max(...states.map(({ l }) => l)), bar = 84
  const rows = before
    ? [['l so far', before.l, 0], [`· ${show(now.correction)}`, now.old_l, 0],
      [`+ ${show(now.term)}`, now.old_l, now.term]]
    : [[`l = ${show(now.term)}`, 0, now.term]]
  rows.forEach(([label, old, fresh], i) => {
    const y = 82 + i * 26, last = i === rows.length - 1
    parts.push(text(8, y + 15, label, { class: last ? 'strong' : '' }),
      rect(bar, y + 2, old * scale, 18, { class: 'soft-d' }),
      rect(bar + old * scale, y + 2, fresh * scale, 18, { class: 'd' }),
      text(width - 8, y + 15, show(last ? now.l : old),
        { class: `end${last ? ' strong' : ''}`, name: last ? 'l' : `l_${i}` }))
  })
  const old_o = before ? `${show(before.o)} · ${show(now.correction)} + ` : ''
  parts.push(text(8, 178, `o = ${old_o}${show(now.term)} · ${show(value)}`),
    text(8, 198, `= ${show(now.o)}`, { class: 'strong', name: 'o' }))
  const done = step === COUNT
  if (!wide) return { height: 204, parts }
  const [online, safe] = [width - 116, width - 8]
  parts.push(line(0, 212, width, 212), text(online, 230, 'online, now', { class: 'small muted end' }),
    text(safe, 230, `safe, ${final.passes} passes`, { class: 'small muted end' }))
  ;['m', 'l'].forEach((key, i) => parts.push(text(8, 250 + i * 20, key, { class: 'strong' }),
    text(online, 250 + i * 20, show(now[key]), { class: 'end strong' }),
    text(safe, 250 + i * 20, show(final[key]), { class: 'end', name: `safe_${key}` })))
  const output = done ? `attention: o / l = ${show(o)}` : 'o / l: one division, after the last number'
  parts.push(text(8, 292, output,
    { class: done ? 'strong c' : 'muted', name: 'output' }))
  return { height: 300, parts }
}

export default {
  title: 'Online softmax: one number at a time',
  sources: Object.fromEntries(Object.entries(PRESETS).flatMap(([preset, [, x]]) => Object.entries(commands_of(preset, x))
    .map(([name, words]) => [name, ['ch01_toy_machine', ...words, '--json', '{json}']]))),
  data: (outputs) => ({ presets: Object.fromEntries(Object.entries(PRESETS).map(([name, [label, x]]) =>
    [name, { label, ...kept(name, x, outputs) }])) }),
  stills: { 'chapters/02_tiled_cpu/figures/online_softmax.svg': { step: 4 } },
  initial: () => ({ preset: 'rising', step: 1, scores: '2, 0.5, 4, 1, 6, 3' }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'step', type: 'step', label: 'numbers seen', min: 1, max: COUNT, play: 1500 },
    { key: 'preset', type: 'choice', label: 'numbers', options:
      [...Object.entries(data.presets).map(([name, { label }]) => [name, label]), ['own', 'your own']] },
    ...state.preset === 'own' ? [{ key: 'scores', type: 'line', label: 'six scores' }] : [],
  ],
  // The score under the pointer gets the value of its height.
  drag(data, state, { x, y }, width) {
    const { lowest, highest, top, height } = OWN, cell = (width >= WIDE ? 408 : width - 4) / COUNT
    const scores = state.preset === 'own' ? scores_in(state.scores).x : null
    const i = Math.floor((x - 2) / cell)
    if (!scores || i < 0 || i >= COUNT || y < top - 10 || y > top + height + 10) return state
    const part = 1 - (y - top - 10) / (height - 20)
    const number = Math.round(2 * (lowest + part * (highest - lowest))) / 2
    return { ...state, scores: scores.with(i, Math.max(lowest, Math.min(highest, number))).join(', ') }
  },

  draw(data, state, width) {
    const view = view_of(data, state), wide = width >= WIDE
    if (view.problem) {
      return svg(width, 80, wrapped(view.problem, width - 8)
        .map((words, i) => text(4, 20 + 20 * i, words, { class: 'e' })))
    }
    const row = draw_row(view, state.step, wide ? 408 : width - 4, wide)
    const kept = draw_state(view, state.step, wide ? 272 : width - 4, wide)
    return wide ? svg(width, Math.max(304, row.height), [group(2, 0, row.parts), group(446, 0, kept.parts)])
      : svg(width, row.height + 12 + kept.height,
        [group(2, 0, row.parts), group(2, row.height + 12, kept.parts)])
  },

  describe(data, state) {
    const { step } = state, { x, v, now, before, terms, final, o, problem, own, instead } = view_of(data, state)
    if (problem) return `Your own numbers: ${problem}.`
    const number = x[step - 1]
    const head = `Number ${step} of ${COUNT}: x = ${show(number)}, v = ${show(v[step - 1])}.`
    const corrected = (old) => before ? `${show(old)} · ${show(now.correction)} + ` : ''
    const change = !before ? `m = ${show(now.m)}`
      : `m ${now.m > before.m ? `rises from ${show(before.m)} to` : 'stays'} ${show(now.m)}`
    const sums = `l = ${corrected(before?.l)}${show(now.term)} = ${show(now.l)}, `
      + `o = ${corrected(before?.o)}${show(now.term)} · ${show(v[step - 1])} = ${show(now.o)}.`
    const cost = `${now.instructions} instructions, ${now.loads} loads; no old number is read again.`
    const end = step < COUNT ? `Terms now: ${terms.map((term) => show(term)).join(', ')}.`
      : `Safe softmax, in ${final.passes} passes: m = ${show(final.m)}, l = ${show(final.l)}. `
        + `Weights: ${final.weights.map((weight) => show(weight)).join(', ')}. Output o / l = ${show(o)}.`
    const whose = own ? 'Run in this page. ' : instead ? `Your own numbers: ${instead}. These are 1 to 6. ` : ''
    return `${whose}${head} ${change}: ${sums} ${cost} ${end}`
  },
}
