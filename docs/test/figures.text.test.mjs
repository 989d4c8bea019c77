// Measures the text of drawings in a browser, in the fonts that readers have. No text may be cut
// off at the edge, no two texts may overlap, and no drawing may be taller than a screen that also
// shows its controls.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, site_css, WIDE } from '../figures/draw.js'
import figures from '../figures/index.js'
import { ROOT } from '../figures/programs.mjs'
import { blank_page } from './browser.mjs'
import { answered, data_of, drawings_of, states_of } from './states.mjs'

const TALLEST = { [WIDE]: 570, [NARROW]: 540 }
const MOST_STATES = 48  // per figure, spread evenly, without FA_EVERY_STATE=1
// The site's font, a font that is wider than most (a Linux desktop), and one as wide as Arial,
// which stills request. The last two are measured where they are installed.
const FONTS = ['Inter', '"DejaVu Sans"', '"Liberation Sans"']

const inter = readFileSync(join(ROOT,
  'docs/node_modules/vitepress/dist/client/theme-default/fonts/inter-roman-latin.woff2')).toString('base64')
const font_css = `@font-face{font-family:Inter;font-weight:100 900;src:url(data:font/woff2;base64,${inter})}`

// Every drawing of every state, drawn once for all tests: [drawing, description, width, number of
// the state].
const drawn = new Map(Object.entries(figures).map(([name, figure]) => {
  let all
  const draw = (data) => states_of(figure, data).flatMap((state, i) => drawings_of(figure, data, state)
    .map(([drawing, width, part = 'all']) =>
      [drawing, `${name}, ${width}, ${part}, ${JSON.stringify(state)}`, width, i]))
  const own = () => {
    const found = figure.live && answered(name, figure)
    return found ? drawings_of(figure, ...found)
      .map(([drawing, width, part]) => [drawing, `${name}, what the reader asks, ${width}, ${part}`, width, 0]) : []
  }
  return [name, () => all ??= [...own(), ...draw(data_of(name))]]
}))

// Returns a drawing without its shapes, which are most of it and do not move text.
const text_of = (drawing) => drawing.replace(/<(rect|line|circle|path)\b[^>]*\/>/g, '')

// Runs in the page and returns the errors in the text of each drawing in each font. A text with a
// list of positions is not a single box.
function complaints_about([drawings, fonts]) {
  const frame = document.querySelector('.fa-figure')
  return drawings.map((drawing) => {
    frame.innerHTML = drawing
    const svg = frame.firstElementChild
    const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number)
    svg.style.width = `${width}px`
    return fonts.flatMap((font) => {
      frame.style.setProperty('--font', font)
      return complaints(svg, width, height).map((words) => `${words}: ${font}`)
    })
  })

  function complaints(svg, width, height) {
    const origin = svg.getBoundingClientRect()
    const boxes = [...svg.querySelectorAll('text')].filter((text) => !/ /.test(text.getAttribute('x') ?? ''))
      .map((text) => {
        const box = text.getBoundingClientRect(), size = parseFloat(getComputedStyle(text).fontSize)
        const middle = box.top - origin.top + box.height / 2
        return { words: text.textContent, left: box.left - origin.left, right: box.right - origin.left,
          top: middle - size * 0.4, bottom: middle + size * 0.4 }
      }).filter(({ words }) => words.trim())
    const found = boxes.filter(({ left, right, top, bottom }) =>
      left < -1 || right > width + 1 || top < -1 || bottom > height + 1)
      .map(({ words, left, right }) =>
        `"${words}" at ${left.toFixed(0)} to ${right.toFixed(0)} of ${width} is cut off`)
    boxes.forEach((one, i) => boxes.slice(i + 1).forEach((other) => {
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left)
      const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top)
      if (across > -2 && down > 1) found.push(`"${one.words}" and "${other.words}" run together`)
    }))
    return found
  }
}

test('text in drawings is whole and apart', { timeout: 900_000 }, () => blank_page(async (page) => {
  await page.setContent(`<style>${font_css}${site_css()}svg{overflow:visible}`
    + '.fa-figure svg text{font-family:var(--font)}</style><div class="fa-figure"></div>')
  const fonts = await page.evaluate(async (fonts) => {
    await document.fonts.load(`13px ${fonts[0]}`)
    const context = document.createElement('canvas').getContext('2d')
    return fonts.filter((font) => {
      const widths = [`13px ${font}, monospace`, `13px ${font}, serif`, '13px monospace'].map((wanted) => {
        context.font = wanted
        return context.measureText('wider than most').width
      })
      return widths[0] === widths[1] && widths[0] !== widths[2]
    })
  }, FONTS)
  assert.equal(fonts[0], FONTS[0], 'the site’s own font is there')
  for (const [name, all] of drawn) {
    const states = all().at(-1)[3] + 1, gap = process.env.FA_EVERY_STATE ? 1 : Math.ceil(states / MOST_STATES)
    const some = new Map(all().filter(([, , , i]) => i % gap === 0)
      .map(([drawing, what]) => [text_of(drawing), what]))
    const found = await page.evaluate(complaints_about, [[...some.keys()], fonts])
    const wrong = [...some.values()].flatMap((what, i) => found[i].map((words) => `${words}, ${what}`))
    assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} in ${name}`)
  }
}))

test('no drawing is taller than a screen that shows its controls too', () => {
  for (const all of drawn.values()) {
    for (const [drawing, what, width] of all()) {
      const [, height] = /viewBox="0 0 \d+ (\d+)"/.exec(drawing)
      assert.ok(height <= TALLEST[width], `${height} tall: ${what}`)
    }
  }
})
