// Tests reading: the first screen, predictions, controls that stay with their figure, text for screen
// readers, and the animation of drawings.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { figure_on, page_with, with_browser } from './browser.mjs'

test('the first screen says what the reader will have, with a picture and where to begin',
  () => with_browser(async (open) => {
  const page = await open('/', { width: 1440, height: 900 })
  const within = (selector) => page.locator(selector).first()
    .evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight)
  assert.match(await page.locator('.fa-headline').innerText(),
    /You write FlashAttention.*faster\s+than FlashAttention-3.*without a GPU/s)
  assert.match(await page.locator('[data-figure=ladder] svg').textContent(), /689\.7.*FA3 676/s)
  for (const selector of ['.fa-headline', '.fa-button', '[data-figure=ladder] .fa-canvas svg']) {
    assert.ok(await within(selector), `${selector} is on the first screen`)
  }
  const shows = (url) => page.waitForURL(url, { waitUntil: 'commit' })  // no page load
  await page.locator('.fa-button').click()
  await shows(/01_toy_machine/)
  await page.goBack({ waitUntil: 'commit' })
  const { root, words } = await figure_on(page, 'ladder')
  const rung = root.locator('a[data-focus="04"]'), box = await rung.boundingBox()
  const bar = { position: { x: 200, y: box.height / 2 } }, before = await words()
  await rung.hover(bar)  // it draws again, and an earlier press would be lost
  for (let tries = 0; tries < 200 && await words() === before; tries++) await page.waitForTimeout(50)
  await rung.click(bar)
  await shows(/04_swizzling/)
  for (const property of ['og:title', 'og:description', 'og:type']) {
    assert.ok((await page.locator(`meta[property="${property}"]`).getAttribute('content')).length > 5,
      property)
  }
  assert.match(await page.locator('.fa-locator .on').innerText(), /shared memory/)
  assert.deepEqual(page.complaints, [])
}))

test('a prediction is asked for before its answer, and stands beside it then',
  () => with_browser(async (open) => {
  const page = await open('/chapters/01_toy_machine/')
  const one = page.locator('.fa-prediction').first()
  assert.ok(await page.locator('.fa-prediction').count() > 2)
  assert.equal(await one.locator('pre').isVisible(), false, 'the answer is out of sight')
  await one.locator('input').fill('about 13 loads, 999 in all')
  await one.locator('button[type=submit]').click()
  assert.ok(await one.locator('pre').isVisible(), 'the answer is shown')
  const compared = await one.locator('.fa-compare').innerText()
  assert.match(compared, /You wrote\s+about 13 loads, 999 in all/)
  assert.match(compared, /13 stands in 25 cycles: 13 LOAD/)
  assert.match(compared, /999 is not among the numbers/)
  await one.getByRole('button', { name: 'write again' }).click()
  assert.equal(await one.locator('pre').isVisible(), false)
  await one.locator('summary').click()
  assert.ok(await one.locator('pre').isVisible(), 'without a prediction too')
  assert.deepEqual(page.complaints, [])
  const plain = await open('/chapters/01_toy_machine/', { scripts: false })
  await plain.locator('.fa-prediction summary').first().click()
  assert.ok(await plain.locator('.fa-prediction pre').first().isVisible(), 'without JavaScript')
}))

test('controls stay in sight while their drawing is', () => with_browser(async (open) => {
  const page = await open('/chapters/04_swizzling/', { width: 1440, height: 600 })
  const { root } = await figure_on(page, 'banks')
  const place = () => root.locator('.fa-controls').evaluate((one) => one.getBoundingClientRect().top)
  await root.locator('.fa-canvas').evaluate((one) =>
    scrollTo(0, scrollY + one.getBoundingClientRect().bottom - 260))
  await page.waitForTimeout(200)
  const [top, drawing] = [await place(), await root.locator('.fa-canvas')
    .evaluate((one) => one.getBoundingClientRect().top)]
  assert.ok(drawing < 0, 'the drawing has begun to leave')
  assert.ok(top >= 60 && top < 130, `the controls are at ${top}`)
}))

test('the reader’s own steps are said aloud, those of Play are not', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'online_softmax'))
  const { root, forward } = await figure_on(page, 'online_softmax')
  assert.equal(await root.locator('[role=img]').count(), 0, 'nothing with parts is an image')
  assert.equal(await root.locator('.fa-canvas').getAttribute('role'), 'group')
  const described = await root.locator('.fa-canvas').getAttribute('aria-describedby')
  assert.ok((await page.locator(`[id="${described}"]`).innerText()).length > 30)
  assert.equal(await root.locator('[aria-live]').count(), 1)
  const said = root.locator('[aria-live=polite]')
  assert.equal(await said.innerText(), '', 'nothing before the first step')
  await forward('step')
  await page.waitForTimeout(700)
  const first = await said.textContent()
  assert.match(first, /^Number \d of 6/)
  await root.getByRole('button', { name: 'Play' }).click()
  await page.waitForTimeout(1900)
  assert.match(await root.locator('.fa-words').first().innerText(), /^Number \d of 6/)
  assert.notEqual(await root.locator('.fa-words').first().innerText(), first, 'Play has gone on')
  assert.equal(await said.textContent(), first, 'and has said nothing')
  await root.getByRole('button', { name: 'Pause' }).click()
  await page.waitForTimeout(700)
  assert.notEqual(await said.textContent(), first, 'where it was stopped is said')
}))

test('a drawing moves to its next state, and jumps for readers who ask for that',
  () => with_browser(async (open) => {
  for (const motion of ['no-preference', 'reduce']) {
    const page = await open(page_with('02_tiled_cpu', 'merge'))
    await page.emulateMedia({ reducedMotion: motion })
    const { root, slide } = await figure_on(page, 'merge')
    const widths = () => root.locator('.fa-canvas rect')
      .evaluateAll((all) => all.map((one) => one.getAttribute('height')).join())
    await page.evaluate(() => {  // time only advances by the test's steps
      let now = 0
      const waiting = []
      performance.now = () => now
      window.requestAnimationFrame = (next) => waiting.push(next)
      window.cancelAnimationFrame = () => { waiting.length = 0 }
      window.advance = (by) => { now += by; waiting.splice(0).forEach((next) => next(now)) }
    })
    const before = await widths()
    await root.locator('[data-control=preset]').getByText('6 to 1', { exact: true }).click()
    const start = await widths()
    await page.evaluate(() => advance(125))
    const middle = await widths()
    await page.evaluate(() => advance(200))
    const end = await widths()
    assert.notEqual(end, before)
    if (motion === 'reduce') assert.deepEqual([start, middle], [end, end], 'it jumps')
    else {
      assert.equal(start, before, 'it starts where it was')
      assert.ok(middle !== start && middle !== end, 'it is on its way')
    }
    await slide('cut', 3)
    await page.done()
  }
}))

test('online softmax: scores follow the pointer', () => with_browser(async (open) => {
  const page = await open(page_with('02_tiled_cpu', 'online_softmax'))
  const figure = await figure_on(page, 'online_softmax')
  await figure.choose('preset', 'your own')
  await figure.slide('step', 6)
  const scores = async () => (await figure.root.locator('[data-control=scores] input').inputValue())
    .split(', ').map(Number)
  const before = await scores()
  const box = await figure.root.locator('[data-drag=score]').nth(1).boundingBox()
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width / 2, box.y + 14, { steps: 4 })
  await page.mouse.up()
  const after = await scores()
  assert.ok(after[1] >= 7 && after[1] > before[1], `${before} became ${after}`)
  assert.deepEqual(after.toSpliced(1, 1), before.toSpliced(1, 1), 'the others stay')
  await figure.root.locator('[data-control=scores] input').fill('1, 2, 3')
  assert.match(await figure.words(), /Your own numbers: expected 6 numbers/)
  assert.deepEqual(page.complaints, [])
}))

test('banks: the reader’s own formula', () => with_browser(async (open) => {
  const page = await open('/chapters/04_swizzling/')
  const figure = await figure_on(page, 'banks')
  await figure.choose('remedy', 'your formula')
  assert.match(await figure.value('wavefronts_own'), /^1 /)
  await figure.root.locator('[data-control=formula] input').fill('chunk')
  assert.match(await figure.value('wavefronts_own'), /^8 /)
  await figure.root.locator('[data-control=formula] input').fill('chunk + row')
  assert.match(await figure.words(), /Your formula: row 1, chunk 7 goes to 8/)
  await figure.root.locator('[data-control=formula] input').fill('(chunk + row) % 8')
  assert.match(await figure.value('wavefronts_own'), /^1 /)
  assert.deepEqual(page.complaints, [])
}))
