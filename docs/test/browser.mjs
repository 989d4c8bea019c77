// Opens the built site in a browser for tests. Pages with errors fail, and figures are used as by a
// reader.
import assert from 'node:assert/strict'
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, resolve } from 'node:path'
import { after } from 'node:test'
import { chromium, firefox } from 'playwright-core'

import { ROOT } from '../figures/programs.mjs'

export const SITE = resolve(process.env.FA_SITE ?? join(ROOT, 'docs/.vitepress/dist'))
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml',
  '.json': 'application/json', '.woff2': 'font/woff2', '.wasm': 'application/wasm' }
// Chromium has two compilers of WebAssembly. The second one makes programs faster, but in a short test of the editor it
// takes more than half of the CPU time. FA_EVERY_STATE=1 has both.
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
  // The headless shell does not detect the hinting of text and the speed of the line, as Chromium does.
  '--font-render-hinting=none', '--blink-settings=lazyLoadingImageMarginPxUnknown=1250']
let one_compiler = process.env.FA_EVERY_STATE ? [] : ['--js-flags=--liftoff-only']

/// Chromium, when it starts, has both of its compilers.
export const use_both_compilers = () => { one_compiler = [] }

const CHROMIUM = process.env.FA_CHROMIUM ?? '/usr/bin/chromium'
const FIREFOX = process.env.FA_FIREFOX  // tests run in it instead, if it is set

const BLANK = '/blank', ICON = '/favicon.ico'  // not pages of the site
const LONGEST = 90_000  // milliseconds for any action, because CI machines can be busy

// Starts a Firefox of a system's package, over WebDriver BiDi. Firefox 153 lacks a command that Playwright sends for each page.
async function start_firefox() {
  const browser = await firefox.launch({ channel: 'moz-firefox', executablePath: FIREFOX, timeout: LONGEST,
    firefoxUserPrefs: { 'ui.prefersReducedMotion': 1 } })
  const session = Object.getPrototypeOf(browser._connection.toImpl(browser)._browserSession), { send } = session
  session.send = function (method, ...rest) {
    return method === 'emulation.setMediaFeaturesOverride' ? {} : send.call(this, method, ...rest)
  }
  return browser
}

// The pages of the lessons. A chapter can have several.
export const lesson_urls = () => ['/', ...readdirSync(join(SITE, 'chapters'), { recursive: true })
  .filter((path) => path.endsWith('.html')).sort().map((path) => `/chapters/${path.replace(/index\.html$/, '')}`)]

/// Returns the page of a chapter that shows a picture, for example 'tiles' of '02_tiled_cpu'.
export function page_with(chapter, picture) {
  const still = `data-still="chapters/${chapter}/figures/${picture}.svg"`
  const url = lesson_urls().find((url) => readFileSync(join(SITE, url.replace(/\/$/, '/index.html')), 'utf8').includes(still))
  assert.ok(url, `a page of chapter ${chapter} shows ${picture}.svg`)
  return url
}

function serve() {
  const server = createServer((request, response) => {
    let path = join(SITE, decodeURIComponent(new URL(request.url, 'http://site').pathname))
    if (existsSync(path) && statSync(path).isDirectory()) path = join(path, 'index.html')
    const found = path.startsWith(SITE) && existsSync(path)
    response.writeHead(found || [BLANK, ICON].includes(request.url) ? 200 : 404,
      { 'content-type': TYPES[extname(path) || '.html'] ?? 'application/octet-stream' })
    found ? createReadStream(path).pipe(response) : response.end()
  })
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)))
}

// One browser and one server per test file, because starting a browser takes as long as loading ten
// pages.
let browser, server
const started = async () => {
  browser ??= FIREFOX ? start_firefox() : chromium.launch({ executablePath: CHROMIUM,
    args: [...FLAGS, ...one_compiler] })
  server ??= serve()
  return [await browser, `http://127.0.0.1:${(await server).address().port}`]
}
after(async () => {
  await (await browser)?.close();
  (await server)?.close()
})

/// Runs `body(open)` with a browser. `open(url, { width, height, scheme, scripts, quiet })` loads
/// a page of the site and returns Playwright's page when its scripts run, or with `quiet` when
/// nothing more is fetched. `page.complaints` are its console errors, exceptions and failed
/// requests. `page.done()` returns a page for reuse, because a new page costs more than everything
/// else.
export async function with_browser(body) {
  const [browser, site] = await started()
  const contexts = [], idle = []
  const new_page = async (scripts) => {
    const context = await browser.newContext({ reducedMotion: 'reduce', javaScriptEnabled: scripts })
    contexts.push(context)
    context.setDefaultTimeout(LONGEST)
    const page = await context.newPage()
    page.on('console', (message) => message.type() === 'error' && page.complaints.push(message.text()))
    page.on('pageerror', (problem) => page.complaints.push(String(problem)))
    page.on('requestfailed', (request) =>
      page.complaints.push(`${request.url()}: ${request.failure()?.errorText}`))
    page.done = async () => {
      await page.mouse.move(0, 0)
      await page.goto(site + BLANK)
      await page.evaluate(() => { localStorage.clear(); sessionStorage.clear() })
      if (scripts) idle.push(page)
    }
    return page
  }
  try {
    await body(async (url,
      { width = 1280, height = 900, scheme = 'light', scripts = true, quiet = false } = {}) => {
      const page = scripts && idle.pop() || await new_page(scripts)
      page.complaints = []
      await page.setViewportSize({ width, height })
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
      await page.goto(site + url, { waitUntil: quiet ? 'networkidle' : 'load' })
      if (scripts) await page.waitForFunction(() => document.querySelector('#app').__vue_app__)
      return page
    })
  } finally {
    await Promise.all(contexts.map((context) => context.close()))
  }
}

/// Scrolls to a figure until it can be used and has its size, because figures above it can load
/// meanwhile and move it. A figure in a folded answer is unfolded first, as a reader would do.
export async function ready(root) {
  await root.evaluate(async (figure, longest) => {
    for (let fold = figure.closest('details'); fold; fold = fold.parentElement.closest('details')) fold.open = true
    const frame = () => new Promise(requestAnimationFrame), start = performance.now()
    for (; figure.dataset.ready === undefined; await frame()) {
      if (performance.now() - start > longest) throw new Error(`${figure.dataset.figure} does not load`)
      figure.scrollIntoView({ block: 'center' })
    }
    for (let i = 0; i < 3; i++) await frame()  // it is drawn for its width
  }, LONGEST)
}

/// Returns a figure of a page when it can be used. `place` selects among figures of the same
/// name: a number, from 0, or the name of its picture.
export async function figure_on(page, name, place = 0) {
  const all = `[data-figure="${name}"]`
  const root = typeof place === 'number' ? page.locator(all).nth(place)
    : page.locator(`${all}[data-still$="/${place}.svg"]`)
  await ready(root)
  const control = (key) => root.locator(`[data-control="${key}"]`)
  // For a figure that is shown one part at a time, calls `look` in each part until it finds
  // something.
  const in_parts = async (look) => {
    const parts = control('part').locator('label')
    const count = await parts.count()
    for (let i = 0; i < Math.max(count, 1); i++) {
      if (count) await parts.nth(i).click()
      if (await look()) return
    }
  }
  return {
    root,
    /// Returns the text below the drawing, including text that unfolds.
    words: async () => (await root.locator('.fa-words').allTextContents()).join(' '),
    /// Waits until the text is `words`, because a program may have to run.
    async says(words) {
      await root.locator('.fa-words').first().filter({ hasText: words }).waitFor()
    },
    /// Returns the text of the number `name` in the drawing.
    async value(name) {
      const found = root.locator(`.fa-canvas [data-name="${name}"]`)
      if (!await found.count()) await in_parts(() => found.count())
      assert.equal(await found.count(), 1, `${name}: one such number in the drawing`)
      return (await found.textContent()).trim()
    },
    /// Returns all numbers in the drawing, by name.
    async values() {
      const all = {}
      await in_parts(async () => { Object.assign(all,
        await root.locator('.fa-canvas [data-name]').evaluateAll(
        (found) => Object.fromEntries(found.map((element) =>
          [element.dataset.name, element.textContent.trim()])))) })
      return all
    },
    /// Moves a slider, like dragging.
    slide: (key, value) => control(key).locator('input[type=range]').fill(String(value)),
    forward: (key) => control(key).getByRole('button', { name: 'forward' }).click(),
    back: (key) => control(key).getByRole('button', { name: 'back' }).click(),
    async choose(key, label) {
      if (await control(key).locator('select').count()) await control(key).locator('select')
        .selectOption({ label })
      else await control(key).getByText(label, { exact: true }).click()
    },
    tick: (key) => control(key).locator('input[type=checkbox]').click(),
    write: (key, text) => control(key).locator('textarea').fill(text),
    async point(key) {
      const found = root.locator(`[data-focus="${key}"]`)
      if (!await found.count()) await in_parts(() => found.count())
      await found.first().hover()
    },
    async press(key) {
      await root.locator('.fa-canvas').focus()
      await page.keyboard.press(key)
    },
    /// Presses the pointer at `from` and drags it to `to`: [x, y] as parts of the drawing, 0 to
    /// 1.
    async drag(from, to) {
      const box = await root.locator('.fa-canvas svg').boundingBox()
      const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height]
      await page.mouse.move(...at(from))
      await page.mouse.down()
      await page.mouse.move(...at(to), { steps: 5 })
      await page.mouse.up()
    },
  }
}

/// Runs `body(page)` with an empty page of a browser.
export async function blank_page(body) {
  const [browser] = await started()
  const page = await browser.newPage()
  try {
    await body(page)
  } finally {
    await page.close()
  }
}
