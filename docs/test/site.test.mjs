// Tests every page of the site: it loads without errors, its links are valid, it is small enough
// and fits a phone. Search works, and figures are complete without JavaScript.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { test } from 'node:test'

import { ROOT } from '../figures/programs.mjs'
import { lesson_urls, SITE, with_browser } from './browser.mjs'

const LARGEST_PAGE = 606_000  // bytes, uncompressed, without fonts; each chapter is in every page's sidebar
const AT_ONCE = 4  // pages at the same time

const pages = readdirSync(SITE, { recursive: true })
  .filter((path) => path.endsWith('.html') && path !== '404.html').sort()
const url_of = (path) => '/' + path.replace(/(^|\/)index\.html$/, '$1')
const html = Object.fromEntries(pages.map((path) => [url_of(path), readFileSync(join(SITE, path), 'utf8')]))
const lessons = lesson_urls()

test('every page has a title, one main heading and words for its pictures', () => {
  assert.ok(pages.length > 60, `${pages.length} pages`)
  const written = readdirSync(join(ROOT, 'chapters'), { recursive: true }).filter((path) => path.endsWith('.md'))
  assert.equal(lessons.length, 1 + written.length)
  for (const [url, content] of Object.entries(html)) {
    assert.equal(content.match(/<h1[ >]/g)?.length, 1, `${url}: one main heading`)
    for (const [picture] of content.matchAll(/<img (?![^>]*\bVPImage logo\b)[^>]*>/g)) {
      assert.match(picture, /alt="[^"]{20,}/, `${url}: ${picture}`)
    }
    assert.doesNotMatch(content, /class="katex-error"/, `${url}: a formula`)
  }
})

test('every page has a policy that forbids scripts in its text, and none is there', () => {
  for (const [url, content] of Object.entries(html)) {
    const [, policy] = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/.exec(content) ?? []
    assert.match(policy ?? '', /(^|; )script-src 'self' 'wasm-unsafe-eval';/, url)
    assert.ok(content.indexOf('Content-Security-Policy') < content.indexOf('<script'), url)
    for (const [script] of content.matchAll(/<script\b[^>]*>/g)) assert.match(script, / src="\/assets\//, `${url}: ${script}`)
    assert.doesNotMatch(content, /<[^>]+ on[a-z]+="/, url)
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
      if (heading && !heading.startsWith('code=')) assert.ok(ids[found].has(heading), `${url}: link to ${href}: no such heading`)
      links++
    }
  }
  assert.ok(links > 2000, `${links} links`)
})

// Pages of source files are made alike, and so are pages of exercises. Every eighth of the former,
// every fourth of the latter, and the longest of both are tested for all. FA_EVERY_STATE=1 tests
// them all.
const longest_first = (start) => Object.keys(html).filter((url) => url.startsWith(start))
  .sort((one, other) => html[other].length - html[one].length)
const alike = process.env.FA_EVERY_STATE ? [] : [['/docs/source/', 8], ['/exercises/', 4]]
  .flatMap(([start, each]) => longest_first(start).filter((_, i) => i >= 8 && i % each))
const loads = 'pages of every kind load without a complaint, light enough, and fit a phone'
test(loads, { timeout: 900_000 }, () => with_browser(async (open) => {
  const left = Object.keys(html).filter((url) => !alike.includes(url))
  assert.ok(left.length > 60, `${left.length} pages`)
  const visit = async (url) => {
    const page = await open(url, { width: 390, height: 844, quiet: true })
    assert.deepEqual(page.complaints, [], url)
    // Without pages that are fetched before a click.
    const weight = await page.evaluate(() => performance.getEntries()
      .filter(({ name }) => !/\.woff2$|\.md\.[^.]+\.js$/.test(name))
      .reduce((sum, { decodedBodySize }) => sum + (decodedBodySize ?? 0), 0))
    assert.ok(weight > 200_000 && weight <= LARGEST_PAGE, `${url}: ${weight} bytes`)
    const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
    assert.ok(content <= window, `${url}: ${content} pixels wide on a phone of ${window}`)
    await page.done()
  }
  const worker = async () => { while (left.length) await visit(left.pop()) }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}))

test('figures are on their pages; without JavaScript, their pictures are',
  () => with_browser(async (open) => {
  const { default: figures } = await import('../figures/index.js')
  for (const [name, figure] of Object.entries(figures)) {
    for (const still of Object.keys(figure.stills)) {
      const place = `data-figure="${name}" data-still="${still}"`
      const there = Object.values(html).some((content) => content.includes(place))
      assert.ok(there, `${name} stands in a page as ${still}`)
    }
  }
  const page = await open('/chapters/04_swizzling/', { scripts: false })
  const picture = page.locator('[data-figure=banks] img')
  await picture.scrollIntoViewIfNeeded()
  const complete = () => picture.evaluate((image) => image.complete && image.naturalWidth > 300)
  for (let tries = 0; tries < 200 && !await complete(); tries++) await page.waitForTimeout(50)
  assert.ok(await complete(), 'the picture without JavaScript')
}))

test('the name of the site and its parts: what is there, and what is coming',
  () => with_browser(async (open) => {
  const page = await open('/', { width: 1440 })
  const fits = await page.locator('.VPNavBarTitle .title').evaluate((title) =>
    title.scrollWidth <= title.clientWidth && title.scrollHeight <= title.clientHeight + 1)
  assert.ok(fits, 'the title fits its place')
  const parts = await page.locator('.VPSidebar .group').evaluateAll((groups) => groups.map((group) => [
    group.querySelector('h2').innerText.trim().split('\n'),
    [...group.querySelectorAll('.items .text')].map((text) => [text.innerText, Boolean(text.closest('a'))])]))
  const there = readdirSync(join(ROOT, 'chapters')).filter((name) => /^\d/.test(name))
    .map((name) => name.slice(0, 2))
  let numbered = 0
  for (const [name, items] of parts.map(([[words], items]) => [words, items])) {
    for (const [text, link] of items) {
      const [, number] = /^(\d\d) /.exec(text) ?? []
      if (!number) continue
      numbered++
      assert.equal(link, there.includes(number), `${text}: a link if and only if there is a chapter`)
      if (!link) assert.match(name, /coming/, text)
    }
  }
  assert.equal(numbered, JSON.parse(readFileSync(join(ROOT, 'chapters/parts.json'), 'utf8'))
    .flatMap(({ chapters }) => chapters).length)
  const names = JSON.parse(readFileSync(join(ROOT, 'chapters/parts.json'), 'utf8')).map(({ part }) => part)
  assert.deepEqual(parts.slice(1, 1 + names.length).map(([[name]]) => name.replace(/ (\d.*)?coming$/, '')), names)
}))

test('the pages of a chapter are in the sidebar and follow one another', () => {
  const folders = JSON.parse(readFileSync(join(ROOT, 'chapters/parts.json'), 'utf8')).flatMap(({ chapters }) => chapters)
  const order = folders.flatMap((name) => {
    const own = readdirSync(join(ROOT, 'chapters', name)).filter((file) => /^\d-.*\.md$/.test(file)).sort()
    return [`/chapters/${name}/`, ...own.map((file) => `/chapters/${name}/${file.replace(/md$/, 'html')}`)]
  })
  assert.deepEqual(lessons.slice(1).sort(), [...order].sort())
  for (const [place, url] of order.entries()) {
    const sidebar = /<nav [^>]*id="VPSidebarNav"[^]*?<\/nav>/.exec(html[url])[0]
    const links = [...sidebar.matchAll(/href="([^"]+)"/g)].map(([, href]) => href)
    assert.deepEqual(links.filter((href) => href.startsWith('/chapters/')), order, url)
    const next = /<a class="[^"]*pager-link[^"]*next[^"]*" href="([^"]+)"/.exec(html[url])?.[1]
    const following = order[place + 1]
    if (following && !following.startsWith('/chapters/03_')) assert.equal(next, following, url)  // docs/cuda… is before 03
  }
})

test('a hazard’s file and line is a link to that line, in words and in a figure',
  () => with_browser(async (open) => {
  let links = 0
  for (const url of [...lessons, '/docs/break-it.html']) {
    for (const [, href, path, number] of
      html[url].matchAll(/<a href="([^"]+)">([\w/]+\.(?:hpp|cpp|cu)):(\d+)<\/a>/g)) {
      const [page, id] = href.split('#'), source = readFileSync(join(ROOT,
        page.slice('/docs/source/'.length, -5)), 'utf8')
      assert.ok(page.endsWith(`${path}.html`) && id === `L${number}`, href)
      assert.ok(html[page].includes(`id="${id}"`), `${href}: no such line`)
      assert.ok(source.split('\n')[number - 1].trim(), `${href}: an empty line`)
      links++
    }
  }
  assert.ok(links > 30, `${links} links`)
  for (const [cited] of html['/docs/break-it.html'].matchAll(/attention\.hpp:\d+(?![\d<])/g)) assert.fail(`${cited} is no link`)
  const page = await open('/docs/source/chapters/05_pipelining/attention.hpp.html#L82')
  const line = page.locator('#L82')
  const numbers = await page.locator('.fa-numbered .line').count()
  assert.equal(numbers, readFileSync(join(ROOT, 'chapters/05_pipelining/attention.hpp'), 'utf8').trimEnd()
    .split('\n').length)
  assert.ok(await line.evaluate((one) => one.getBoundingClientRect().top < innerHeight),
    'the line is in sight')
}))

test('the lines that a chapter changed stand on its page', () => {
  for (const chapter of ['04_swizzling', '05_pipelining', '06_ldmatrix_x4', '07_better_pipelining',
    '08_fewer_instructions']) {
    const [diff, added, removed] = /<details class="fa-diff"[^>]*><summary>(\d+) lines added, (\d+) removed[^]*?<\/details>/
      .exec(html[`/chapters/${chapter}/`])
    const count = (sign) => diff.match(new RegExp(`class="line diff ${sign}"`, 'g')).length
    assert.deepEqual([count('add'), count('remove')], [+added, +removed], chapter)
  }
})

test('a word of the glossary says what it means where it is first used', () => with_browser(async (open) => {
  const ids = new Set([...html['/docs/glossary.html'].matchAll(/<h3 id="([^"]+)"/g)].map(([, id]) => id))
  assert.ok(ids.size > 30, `${ids.size} words`)
  const page = await open('/chapters/03_basic_kernel/')
  const terms = await page.locator('a.fa-term').evaluateAll((all) =>
    all.map((one) => [one.getAttribute('href').split('#')[1], one.dataset.means]))
  assert.ok(terms.length > 8, `${terms.length} words`)
  assert.equal(new Set(terms.map(([id]) => id)).size, terms.length, 'each once')
  for (const [id, means] of terms) assert.ok(ids.has(id) && means.length > 15 && means.endsWith('.'),
    `${id}: ${means}`)
  const tip = (pseudo) => page.locator('a.fa-term').first()
    .evaluate((one, pseudo) => getComputedStyle(one, pseudo).content, pseudo)
  assert.equal(await tip('::after'), 'none')
  await page.locator('a.fa-term').first().hover()
  assert.ok((await tip('::after')).length > 15)
}))

const asked = { 'lazy maximum': /^\/chapters\/08_/, 'how to install': /^\/(#|$|docs\/start)/,
  'bank conflict': /^\/chapters\/04_/,
  'online softmax': /^\/chapters\/0[12]_/, 'wait_group': /^\/chapters\/05_/ }
test('search: what a reader asks for is among the first four', () => with_browser(async (open) => {
  const page = await open('/')
  await page.keyboard.press('Control+k')
  for (const [words, wanted] of Object.entries(asked)) {
    await page.locator('.VPLocalSearchBox input').fill(words)
    let found = []
    for (let tries = 0; tries < 40 && !found.slice(0, 4).some((href) => wanted.test(href)); tries++) {
      await page.waitForTimeout(250)  // results appear shortly after the last key
      found = await page.locator('.VPLocalSearchBox .result')
        .evaluateAll((all) => all.map((one) => one.getAttribute('href')))
    }
    assert.ok(found.slice(0, 4).some((href) => wanted.test(href)), `${words}: ${found.slice(0, 4)}`)
    assert.ok(!found.slice(0, 4).some((href) => /CONTRIBUTING|docs\/figures/.test(href)),
      `${words}: ${found.slice(0, 4)}`)
  }
}))

test('search finds a word of a lesson, offline', () => with_browser(async (open) => {
  const page = await open('/')
  await page.keyboard.press('Control+k')
  await page.locator('.VPLocalSearchBox input').fill('wavefront')
  const first = page.locator('.VPLocalSearchBox .result').first()
  await first.waitFor()
  await first.click()
  await page.waitForURL(/chapters|docs|common|exercises/, { waitUntil: 'commit' })
  await page.locator('main', { hasText: /wavefront/i }).waitFor()
  assert.deepEqual(page.complaints, [])
}))

test('formulas are MathML, code is highlighted, quoted code names its file', () => {
  const shows = (url, what) => assert.ok(what.test(html[url]), `${url}: ${what}`)
  shows('/chapters/03_basic_kernel/', /class="fa-source"><a href="[^"]+attention.hpp.html"/)
  shows('/chapters/03_basic_kernel/', /<span class="t-k">/)
  shows('/chapters/02_tiled_cpu/', /<math /)
})
