// Checks the accessibility rules that a machine can check, in light and in dark.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { ROOT } from '../figures/programs.mjs'
import { lesson_urls, ready, with_browser } from './browser.mjs'

const lessons = lesson_urls()
const axe = readFileSync(join(ROOT, 'docs/node_modules/axe-core/axe.min.js'), 'utf8')

// A color scheme changes only colors, so in the dark only the rules about colors are checked, which
// are most of the work. Most of the elements are code blocks, which have the same few colors on
// every page, so those of every fifth page are checked. FA_EVERY_STATE=1 checks all rules in both
// schemes, and all code.
const EVERY_RULE = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa'],
  rules: { 'empty-table-header': { enabled: true }, 'nested-interactive': { enabled: true } } }
const COLOURS = { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } }

const accessible = 'figures and lessons break no rule of accessibility that a machine can check'
test(accessible, { timeout: 900_000 }, () => with_browser(async (open) => {
  assert.ok(lessons.length > 10)
  for (const [place, url] of lessons.entries()) {
    const without = place % 5 && !process.env.FA_EVERY_STATE ? [['pre']] : []
    const page = await open(url)
    for (const figure of await page.locator('.fa-figure').all()) await ready(figure)
    await page.evaluate(axe)  // the page's policy forbids to add it as a script
    const look = async (scheme, rules, fewest) => {
      await page.emulateMedia({ colorScheme: scheme })
      await page.waitForFunction((dark) => document.documentElement.classList.contains('dark') === dark
        && document.getAnimations().length === 0, scheme === 'dark')
      const { violations, passes } = await page.evaluate(([rules, exclude]) =>
        axe.run({ include: ['.vp-doc'], exclude }, { ...rules, resultTypes: ['violations'] }), [rules, without])
      const found = violations.map(({ id, nodes }) =>
        `${id}: ${nodes[0].html.slice(0, 200)} (${nodes.length})`)
      assert.deepEqual(found, [], `${url}, ${scheme}`)
      assert.ok(passes.length >= fewest, `${url}: ${passes.length} rules looked at`)
    }
    await look('light', EVERY_RULE, 6)
    await (process.env.FA_EVERY_STATE ? look('dark', EVERY_RULE, 6) : look('dark', COLOURS, 1))
    await page.done()
  }
}))
