// Every page of the site: it loads without a complaint, its links lead somewhere, it is light enough and
// fits a phone; search works; figures are there, and complete without JavaScript.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { test } from 'node:test'

import { ROOT } from '../figures/programs.mjs'
import { SITE, with_browser } from './browser.mjs'

const LARGEST_PAGE = 500_000  // bytes, uncompressed, without fonts
const AT_ONCE = 4  // pages

const pages = readdirSync(SITE, { recursive: true })
  .filter((path) => path.endsWith('.html') && path !== '404.html').sort()
const url_of = (path) => '/' + path.replace(/(^|\/)index\.html$/, '$1')
const html = Object.fromEntries(pages.map((path) => [url_of(path), readFileSync(join(SITE, path), 'utf8')]))
const lessons = Object.keys(html).filter((url) => /^\/(chapters\/[^/]+\/)?$/.test(url))

test('every page has a title, one main heading and words for its pictures', () => {
  assert.ok(pages.length > 60, `${pages.length} pages`)
  assert.equal(lessons.length, 9)
  for (const [url, content] of Object.entries(html)) {
    assert.equal(content.match(/<h1[ >]/g)?.length, 1, `${url}: one main heading`)
    for (const [picture] of content.matchAll(/<img [^>]*>/g)) {
      assert.match(picture, /alt="[^"]{20,}/, `${url}: ${picture}`)
    }
    assert.doesNotMatch(content, /class="katex-error"/, `${url}: a formula`)
  }
})

test('no link is broken, nor the heading it names', () => {
  const ids = Object.fromEntries(Object.entries(html).map(([url, content]) =>
    [url, new Set([...content.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id.replace(/&amp;/g, '&')))]))
  let links = 0
  for (const [url, content] of Object.entries(html)) {
    for (const [, href] of content.matchAll(/<a [^>]*href="([^"]+)"/g)) {
      if (/^(https?:|mailto:)/.test(href)) continue
      const [path, heading] = href.split('#').map(decodeURIComponent)
      const target = path ? posix.join(posix.dirname(url + 'x'), path).replace(/^(?=[^/])/, '/') : url
      const found = path.startsWith('/') ? path.replace(/index\.html$/, '') : target
      assert.ok(found in html, `${url}: link to ${href}`)
      if (heading) assert.ok(ids[found].has(heading), `${url}: link to ${href}: no such heading`)
      links++
    }
  }
  assert.ok(links > 2000, `${links} links`)
})

const loads = 'every page loads without a complaint, light enough, and fits a phone'
test(loads, { timeout: 400_000 }, () => with_browser(async (open) => {
  const left = Object.keys(html)
  const visit = async (url) => {
    const page = await open(url, { width: 390, height: 844 })
    assert.deepEqual(page.complaints, [], url)
    // Without pages fetched ahead of a click.
    const weight = await page.evaluate(() => performance.getEntries()
      .filter(({ name }) => !/\.woff2$|\.md\.[^.]+\.js$/.test(name))
      .reduce((sum, { decodedBodySize }) => sum + (decodedBodySize ?? 0), 0))
    assert.ok(weight > 200_000 && weight <= LARGEST_PAGE, `${url}: ${weight} bytes`)
    const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
    assert.ok(content <= window, `${url}: ${content} pixels wide on a phone of ${window}`)
    await page.context().close()
  }
  const worker = async () => { while (left.length) await visit(left.pop()) }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}))

test('figures: on their pages, alive; without JavaScript, their pictures', () => with_browser(async (open) => {
  const { default: figures } = await import('../figures/index.js')
  for (const [name, figure] of Object.entries(figures)) {
    for (const still of Object.keys(figure.stills)) {
      const place = `data-figure="${name}" data-still="${still}"`
      const there = Object.values(html).some((content) => content.includes(place))
      assert.ok(there, `${name} stands in a page as ${still}`)
    }
  }
  for (const url of lessons) {
    const page = await open(url, { scheme: 'dark' })
    const found = page.locator('.fa-figure')
    for (let i = 0; i < await found.count(); i++) {
      await found.nth(i).scrollIntoViewIfNeeded()
      await found.nth(i).and(page.locator('[data-ready]')).waitFor()
      const words = (await found.nth(i).locator('.fa-words').allTextContents()).join(' ')
      const where = `${url}: figure ${i}`
      assert.ok(words.length > 30 && !/undefined|null|\[object/.test(words), `${where} says "${words}"`)
      assert.ok(await found.nth(i).locator('.fa-canvas svg *').count() > 5, `${where} draws something`)
    }
    assert.deepEqual(page.complaints, [], url)
    await page.context().close()
  }
  const page = await open('/chapters/04_swizzling/', { scripts: false })
  const picture = page.locator('[data-figure=banks] img')
  await picture.scrollIntoViewIfNeeded()
  await page.waitForLoadState('networkidle')
  const complete = await picture.evaluate((image) => image.complete && image.naturalWidth > 300)
  assert.ok(complete, 'the picture without JavaScript')
}))

test('search finds a word of a lesson, offline', () => with_browser(async (open) => {
  const page = await open('/')
  await page.keyboard.press('Control+k')
  await page.locator('.VPLocalSearchBox input').fill('wavefront')
  const first = page.locator('.VPLocalSearchBox .result').first()
  await first.waitFor()
  await first.click()
  await page.waitForURL(/chapters|docs|common|exercises/)
  assert.match(await page.locator('main').innerText(), /wavefront/i)
  assert.deepEqual(page.complaints, [])
}))

test('formulas are MathML, code is highlighted, quoted code names its file', () => {
  const shows = (url, what) => assert.ok(what.test(html[url]), `${url}: ${what}`)
  shows('/chapters/03_basic_kernel/', /class="fa-source"><a href="[^"]+attention.hpp.html"/)
  shows('/chapters/03_basic_kernel/', /<span class="t-k">/)
  shows('/chapters/02_tiled_cpu/', /<math /)
})

const accessible = 'figures and lessons break no rule of accessibility that a machine can check'
test(accessible, { timeout: 300_000 }, () => with_browser(async (open) => {
  for (const url of lessons) {
    for (const scheme of ['light', 'dark']) {
      const page = await open(url, { scheme })
      for (const figure of await page.locator('.fa-figure').all()) {
        await figure.scrollIntoViewIfNeeded()
        await figure.and(page.locator('[data-ready]')).waitFor()
      }
      await page.addScriptTag({ path: join(ROOT, 'docs/node_modules/axe-core/axe.min.js') })
      const { violations, passes } = await page.evaluate(() =>
        axe.run('.vp-doc', { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa'] }))
      const found = violations.map(({ id, nodes }) =>
        `${id}: ${nodes[0].html.slice(0, 200)} (${nodes.length})`)
      assert.deepEqual(found, [], `${url}, ${scheme}`)
      assert.ok(passes.length > 5, `${url}: ${passes.length} rules looked at`)
      await page.context().close()
    }
  }
}))
