// Visits each page of the lessons once, because loading a page and its figures takes longer than most of
// what is tested: figures are alive and fit the window, no rule of accessibility that a machine can check
// is broken in light or in dark, no code is wider than its column.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { ROOT } from '../figures/programs.mjs'
import { lesson_urls, ready, with_browser } from './browser.mjs'

const pages = [...lesson_urls(), '/docs/break-it.html', '/docs/cuda-in-one-picture.html']
const axe = readFileSync(join(ROOT, 'docs/node_modules/axe-core/axe.min.js'), 'utf8')

const WINDOWS = [[1440, 900], [390, 844]]
const MOST = 0.8  // parts of the window's height, for a figure's title, controls and drawing

// A color scheme changes only colors, so in the dark only the rules about colors are checked. All
// pages have the same few colors, so that is done on every fifth page, and so are code blocks, which
// are most of the elements. FA_EVERY_STATE=1 checks all rules in both schemes, and all code.
const EVERY_RULE = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa'],
  rules: { 'empty-table-header': { enabled: true }, 'nested-interactive': { enabled: true } } }
const COLOURS = { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } }

async function figures_are_alive(page, url) {
  for (const [i, figure] of (await page.locator('.fa-figure').all()).entries()) {
    await ready(figure)
    const words = (await figure.locator('.fa-words').allTextContents()).join(' '), where = `${url}: figure ${i}`
    assert.ok(words.length > 30 && !/undefined|null|\[object/.test(words), `${where} says "${words}"`)
    assert.ok(await figure.locator('.fa-canvas svg *').count() > 5, `${where} draws something`)
  }
  assert.deepEqual(page.complaints, [], url)
}

async function figures_fit(page, url) {
  for (const [width, height] of WINDOWS) {
    await page.setViewportSize({ width, height })
    for (const root of await page.locator('.fa-figure').all()) {
      await ready(root)
      const parts = root.locator('[data-control=part] label'), count = await parts.count()
      for (let i = 0; i < Math.max(1, count); i++) {
        if (count) await parts.nth(i).click()
        const [name, tall] = await root.evaluate((one) => [one.dataset.figure,
          one.querySelector('.fa-canvas').getBoundingClientRect().bottom - one.getBoundingClientRect().top])
        const limit = MOST * height
        assert.ok(tall > 100 && tall <= limit, `${url}, ${width}: ${name}, part ${i}: ${tall} of ${limit} pixels`)
      }
    }
  }
}

async function accessible(page, url, closely) {
  const exclude = closely ? [] : [['pre']]
  await page.evaluate(axe)  // the page's policy forbids to add it as a script
  const look = async (scheme, rules, fewest) => {
    await page.emulateMedia({ colorScheme: scheme })
    await page.waitForFunction((dark) => document.documentElement.classList.contains('dark') === dark
      && document.getAnimations().length === 0, scheme === 'dark')
    const { violations, passes } = await page.evaluate(([rules, exclude]) =>
      axe.run({ include: ['.vp-doc'], exclude }, { ...rules, resultTypes: ['violations'] }), [rules, exclude])
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} (${nodes.length})`)
    assert.deepEqual(found, [], `${url}, ${scheme}`)
    assert.ok(passes.length >= fewest, `${url}: ${passes.length} rules looked at`)
  }
  if (process.env.FA_EVERY_STATE) await look('dark', EVERY_RULE, 6)
  else if (closely) await look('dark', COLOURS, 1)
  await look('light', EVERY_RULE, 6)
}

async function no_line_is_too_wide(page, url) {
  await page.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true }))
  for (const width of [1440, 1280]) {
    await page.setViewportSize({ width, height: 900 })
    const wide = await page.locator('.vp-doc pre').evaluateAll((all) => all
      .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
        .map(({ innerText }) => innerText.slice(0, 80)))
    assert.deepEqual(wide, [], `${url}, ${width}: code that must be scrolled`)
    const longest = await page.locator('.vp-doc > div > p')
      .evaluateAll((all) => Math.max(...all.map((p) => p.offsetWidth)))
    assert.ok(longest > 300 && longest <= 760, `${url}, ${width}: a paragraph is ${longest} pixels wide`)
  }
}

const title = 'figures are alive and fit, the page is accessible, and no line is too wide for a desktop or an eye'
test(title, { timeout: 1_800_000 }, () => with_browser(async (open) => {
  assert.ok(pages.length > 80, `${pages.length} pages`)
  for (const [place, url] of pages.entries()) {
    const page = await open(url, { scheme: 'dark' })
    await figures_are_alive(page, url)
    await accessible(page, url, place % 5 === 0 || process.env.FA_EVERY_STATE)
    await figures_fit(page, url)
    await no_line_is_too_wide(page, url)
    await page.done()
  }
}))
