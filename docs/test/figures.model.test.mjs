// What holds for every figure, in every state that two controls, pointing or dragging lead to: drawing and
// describing are pure, no attribute is broken, every class has a style, every number has a name of its own.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, site_css, WIDE } from '../figures/draw.js'
import figures from '../figures/index.js'
import { ROOT } from '../figures/programs.mjs'

const MOST_KEYS = 24  // of a drawing's, spread evenly: ldmatrix has 288
const CLASSES = new Set([...site_css().matchAll(/\.([a-z-]+)\{/g)].map(([, name]) => name))

function frozen(value) {
  if (typeof value === 'object' && value) Object.values(Object.freeze(value)).forEach(frozen)
  return value
}

const values_of = ({ type, options, min, max, step = 1 }) => ({
  choice: () => options.map(([value]) => value), flag: () => [false, true], text: () => ['', 'no program'],
  step: () => [min, min + step * Math.floor((max - min) / step / 2), max] })[type]()

// Where a state leads to: by one control, and from there by another; by pointing; by dragging.
function states_from(figure, data, start) {
  const settled = (next) => frozen(figure.settle?.(data, next) ?? next)
  const controlled = (state) => figure.controls(data, state).flatMap((control) =>
    values_of(control).map((value) => settled({ ...state, [control.key]: value })))
  const first = settled(start), keys = [...figure.draw(data, first, WIDE).matchAll(/ data-focus="([^"]*)"/g)]
  const some = keys.filter((_, i) => i % Math.ceil(keys.length / MOST_KEYS) === 0).map(([, key]) => key)
  const once = controlled(first)
  return [first, ...once, ...once.flatMap(controlled),
    ...some.map((key) => settled(figure.focus?.(data, first, key) ?? { ...first, focus: key })),
    ...(figure.drag ? [-5, 200, 5000] : []).map((x) =>
      settled(figure.drag(data, first, { x, y: 0 }, NARROW)))]
}

function assert_sound(figure, data, state, width) {
  const drawing = figure.draw(data, state, width), where = `${JSON.stringify(state)}, ${width} pixels: `
  assert.match(drawing, new RegExp(`^<svg xmlns="[^"]*" viewBox="0 0 ${width} \\d+">`), where)
  assert.doesNotMatch(drawing, /="[^"]*(NaN|undefined|null|Infinity|\[object|#[0-9a-f]{3})/, where)
  assert.doesNotMatch(drawing, />[^<]*(undefined|null)/, where)
  for (const [, list] of drawing.matchAll(/ class="([^"]*)"/g)) {
    for (const name of list.split(' ').filter(Boolean)) assert.ok(CLASSES.has(name), `${where}class ${name}`)
  }
  const names = [...drawing.matchAll(/ data-name="([^"]*)"/g)].map(([, name]) => name)
  assert.equal(new Set(names).size, names.length, `${where}two numbers of one name: ${names}`)
}

for (const [name, figure] of Object.entries(figures)) {
  test(`${name}: sound in every state, and described`, () => {
    const data = frozen(JSON.parse(readFileSync(join(ROOT, `docs/figures/data/${name}.json`), 'utf8')))
    const starts = Object.values(figure.stills)
      .map((changes) => frozen({ ...figure.initial(data), ...changes }))
    const all = starts.flatMap((start) => states_from(figure, data, start))
    const states = [...new Map(all.map((state) => [JSON.stringify(state), state])).values()]
    const [first] = states, drawn = figure.draw(data, first, WIDE)
    for (const state of states) {
      for (const width of [WIDE, NARROW]) assert_sound(figure, data, state, width)
      const words = figure.describe(data, state)
      assert.ok(words.length > 20, words)
      assert.doesNotMatch(words, /undefined|null|\[object|  /, JSON.stringify(state))
      assert.deepEqual(figure.settle?.(data, state) ?? state, state, 'what is settled stays')
    }
    assert.equal(figure.draw(data, first, WIDE), drawn, 'drawn again after all others, the same')
    assert.ok(states.length > 5, `${states.length} states`)
  })
}
