// Tests properties of every figure, in every state that two controls, pointing or dragging lead to.
// Drawing and describing are pure, attributes are valid, every class has a style, and the names of
// numbers are unique.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { site_css, WIDE } from '../figures/draw.js'
import figures from '../figures/index.js'
import { answered, data_of, drawings_of, states_of } from './states.mjs'

const CLASSES = new Set([...site_css().matchAll(/\.([a-z-]+)\{/g)].map(([, name]) => name))

function assert_sound(drawing, where, width) {
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
    const data = data_of(name), states = states_of(figure, data)
    const [first] = states, drawn = figure.draw(data, first, WIDE)
    for (const state of states) {
      for (const [drawing, width, part = 'all'] of drawings_of(figure, data, state)) {
        assert_sound(drawing, `${JSON.stringify(state)}, ${width} pixels, ${part}: `, width)
      }
      const words = figure.describe(data, state)
      assert.ok(words.length > 20, words)
      assert.doesNotMatch(words, /undefined|null|\[object|  /, JSON.stringify(state))
      assert.deepEqual(figure.settle?.(data, state) ?? state, state, 'what is settled stays')
    }
    const own = figure.live && answered(name, figure)
    for (const [drawing, width, part = 'all'] of own ? drawings_of(figure, ...own) : []) assert_sound(drawing, `own, ${width} pixels, ${part}: `, width)
    assert.equal(figure.draw(data, first, WIDE), drawn, 'drawn again after all others, the same')
    assert.ok(states.length > 5, `${states.length} states`)
  })
}
