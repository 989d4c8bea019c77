// The states of a figure that tests use: those that two controls, pointing or dragging lead to.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { NARROW, WIDE } from '../figures/draw.js'
import { ROOT } from '../figures/programs.mjs'
import { Programs } from '../wasm/host.mjs'
import { module_of } from '../wasm/modules.mjs'

const MOST_KEYS = 24  // per drawing, spread evenly: ldmatrix has 288

function frozen(value) {
  if (typeof value === 'object' && value) Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

// Returns `many` of a slider's values, from end to end.
const values_of = ({ type, options, min, max, step = 1 }, many) => ({
  choice: () => options.map(([value]) => value), flag: () => [false, true], text: () => ['', 'no program'],
  line: () => ['', '1, 2', '0, -3.5, 8, 2, 2, -0.25', 'chunk ^ row % 8', '(chunk + row) % 8'],
  step: () => Array.from({ length: many }, (_, i) =>
    min + step * Math.floor((max - min) / step * i / (many - 1))) })[type]()

// Returns the states that follow from a state: by one control and then another, by pointing, by
// dragging.
function states_from(figure, data, start) {
  const settled = (next) => frozen(figure.settle?.(data, next) ?? next)
  const controlled = (state) => figure.controls(data, state).flatMap((control, _, all) =>
    values_of(control, all.length > 1 ? 3 : 5).map((value) => settled({ ...state, [control.key]: value })))
  const first = settled(start), keys = [...figure.draw(data, first, WIDE).matchAll(/ data-focus="([^"]*)"/g)]
  const some = keys.filter((_, i) => i % Math.ceil(keys.length / MOST_KEYS) === 0).map(([, key]) => key)
  const once = controlled(first)
  return [first, ...once, ...once.flatMap(controlled),
    ...some.map((key) => settled(figure.focus?.(data, first, key) ?? { ...first, focus: key })),
    ...(figure.drag ? [-5, 200, 5000] : []).map((x) =>
      settled(figure.drag(data, first, { x, y: 0 }, NARROW)))]
}

export const data_of = (name) =>
  frozen(JSON.parse(readFileSync(join(ROOT, `docs/figures/data/${name}.json`), 'utf8')))

// Returns each state once, beginning with the first still's.
export function states_of(figure, data) {
  const starts = Object.values(figure.stills).map((changes) =>
    frozen({ ...figure.initial(data), ...changes }))
  const all = starts.flatMap((start) => states_from(figure, data, start))
  return [...new Map(all.map((state) => [JSON.stringify(state), state])).values()]
}

// Returns every drawing of a state: wide and narrow, and each part of a figure that shows one part
// at a time.
export const drawings_of = (figure, data, state) => [WIDE, NARROW].flatMap((width) => {
  const parts = figure.parts?.(data, state, width) ?? [[]]
  return parts.map(([part]) => [figure.draw(data, part ? { ...state, part } : state, width), width, part])
})

// Inputs that a reader may give to the figures with `live`.
export const OWN = {
  banks: { shape: '1,1,128,512,128' }, break_it: { keys: 'own', count: '511' }, fp8_weights: { scale: '2.2', run: 'own' },
  online_softmax: { preset: 'own', scores: '-4, 7, 0.25, 7, 9, -12', step: 6 }, profile: { shape: '1,1,128,192,128' },
  systolic: { size: 'own', sizes: '7 2 6' }, tiles: { length: 'own', sizes: '100, 16, 32, 16' }, timeline: { shape: '1,1,128,192,128' },
  toy_machine: { registers: 2 } }

// Returns [data with the answers, state], or nothing if the programs are not built.
export function answered(name, figure) {
  let data = data_of(name)
  const state = { ...figure.initial(data), ...OWN[name] }
  for (let wanted; (wanted = figure.live(data, state));) {
    const file = join(ROOT, 'docs/public', `${module_of(wanted.request)}.wasm`)
    if (!existsSync(file)) return null
    data = figure.heard(data, wanted, new Programs(new WebAssembly.Module(readFileSync(file))).run(wanted.request))
  }
  return [data, figure.settle?.(data, state) ?? state]
}
