// Text in drawings, measured in a browser: in the fonts that readers have, none is cut off at the drawing's
// edge and no two run together. And no drawing is taller than a screen that shows its controls too.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { NARROW, site_css, WIDE } from '../figures/draw.js'
import figures from '../figures/index.js'
import { ROOT } from '../figures/programs.mjs'
import { blank_page } from './browser.mjs'
import { data_of, drawings_of, states_of } from './states.mjs'

const TALLEST = { [WIDE]: 570, [NARROW]: 540 }
const MOST_STATES = 48  // of a figure, spread evenly
// The site's own; wider than most (a Linux desktop); as wide as Arial, which stills ask for. The last two
// are measured where they are installed.
const FONTS = ['Inter', '"DejaVu Sans"', '"Liberation Sans"']

const inter = readFileSync(join(ROOT,
  'docs/node_modules/vitepress/dist/client/theme-default/fonts/inter-roman-latin.woff2')).toString('base64')
const font_css = `@font-face{font-family:Inter;font-weight:100 900;src:url(data:font/woff2;base64,${inter})}`

// In the page: what is wrong with the text of each drawing. A text with a list of places is no one box.
function complaints_about(drawings) {
  const frame = document.querySelector('.fa-figure')
  return drawings.map((drawing) => {
    frame.innerHTML = drawing
    const svg = frame.firstElementChild
    const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number)
    svg.style.width = `${width}px`
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
  })
}

const spread = (list, most) => list.filter((_, i) => i % Math.ceil(list.length / most) === 0)

test('text in drawings is whole and apart', { timeout: 900_000 }, () => blank_page(async (page) => {
  await page.setContent(`<style>${font_css}${site_css()}svg{overflow:visible}</style><div class="fa-figure"></div>`)
  for (const font of FONTS) {
    await page.addStyleTag({ content: `.fa-figure svg text{font-family:${font}}` })
    await page.evaluate((font) => document.fonts.load(`13px ${font}`), font)
    const installed = await page.evaluate((font) => {
      const context = document.createElement('canvas').getContext('2d')
      const widths = [`13px ${font}, monospace`, `13px ${font}, serif`, '13px monospace'].map((wanted) => {
        context.font = wanted
        return context.measureText('wider than most').width
      })
      return widths[0] === widths[1] && widths[0] !== widths[2]
    }, font)
    assert.ok(installed || font !== 'Inter', `${font} is there`)
    if (!installed) continue
    for (const [name, figure] of Object.entries(figures)) {
      const data = data_of(name)
      const all = spread(states_of(figure, data), MOST_STATES)
        .flatMap((state) => drawings_of(figure, data, state).map(([drawing, width, part = 'all']) =>
          [drawing, `${name}, ${width}, ${part}, ${JSON.stringify(state)}`]))
      const found = await page.evaluate(complaints_about, all.map(([drawing]) => drawing))
      const wrong = found.flatMap((list, i) => list.map((words) => `${words}: ${font}, ${all[i][1]}`))
      assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} in ${name}`)
    }
  }
}))

test('no drawing is taller than a screen that shows its controls too', () => {
  for (const [name, figure] of Object.entries(figures)) {
    const data = data_of(name)
    for (const state of states_of(figure, data)) {
      for (const [drawing, width, part = 'all'] of drawings_of(figure, data, state)) {
        const [, height] = /viewBox="0 0 \d+ (\d+)"/.exec(drawing), where = `${name}, ${part}, ${width} wide`
        assert.ok(height <= TALLEST[width], `${where}, is ${height} tall: ${JSON.stringify(state)}`)
      }
    }
  }
})
