// No rule of accessibility that a machine can check is broken, in light and in dark.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { ROOT } from '../figures/programs.mjs'
import { ready, SITE, with_browser } from './browser.mjs'

const lessons = ['/', ...readdirSync(join(SITE, 'chapters')).map((name) => `/chapters/${name}/`)]

const accessible = 'figures and lessons break no rule of accessibility that a machine can check'
test(accessible, { timeout: 900_000 }, () => with_browser(async (open) => {
  assert.ok(lessons.length > 10)
  const look = async (url, scheme) => {
    const page = await open(url, { scheme })
    for (const figure of await page.locator('.fa-figure').all()) {
      await ready(figure)
    }
    await page.addScriptTag({ path: join(ROOT, 'docs/node_modules/axe-core/axe.min.js') })
    const { violations, passes } = await page.evaluate(() =>
      axe.run('.vp-doc', { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa'],
        rules: { 'empty-table-header': { enabled: true }, 'nested-interactive': { enabled: true } } }))
    const found = violations.map(({ id, nodes }) =>
      `${id}: ${nodes[0].html.slice(0, 200)} (${nodes.length})`)
    assert.deepEqual(found, [], `${url}, ${scheme}`)
    assert.ok(passes.length > 5, `${url}: ${passes.length} rules looked at`)
    await page.context().close()
  }
  for (const url of lessons) await Promise.all(['light', 'dark'].map((scheme) => look(url, scheme)))
}))
