// The kernels in the page: run, broken, cancelled, reloaded; bad input; without them.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { SITE, with_browser } from './browser.mjs'

const skip = existsSync(join(SITE, 'ampere.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'
const CHAPTER_4 = '/chapters/04_swizzling/', ALL = '/docs/break-it.html'

async function panel_of(page) {
  const root = page.locator('.fa-try'), field = (name) => root.locator(`[data-field="${name}"]`)
  await root.scrollIntoViewIfNeeded()  // its script comes
  await root.and(page.locator('[data-ready]')).waitFor()
  return {
    root, field,
    async run() {
      await root.getByRole('button', { name: 'Run' }).click()
      const result = root.locator('[data-result]')
      await result.waitFor()
      return (await result.textContent()).trim()
    },
    text: () => root.locator('pre').textContent(),
    async choose(name, value) {
      await root.locator('[data-field="shape"]').focus()  // the first touch: the list of breaks comes
      if (name === 'break') await root.locator(`option[value="${value}"]`).waitFor({ state: 'attached' })
      await field(name).selectOption(value)
    },
  }
}

test('try it: runs, breaks, compares with the prediction, and leads to the line', { skip }, () => with_browser(async (open) => {
  const page = await open(CHAPTER_4), panel = await panel_of(page)
  await panel.choose('prediction', 'right')
  assert.equal(await panel.run(), 'You said: the result is right. It is so: the result is right.')
  assert.match(await panel.text(), /^ch04_swizzling: bf16, shape 1,1,64,128,64, on emulator\n/)
  assert.match(await panel.text(), /ldmatrix_instructions +\d+ +\d+\n/)
  await panel.choose('break', 'missing-barrier')
  const verdict = await panel.run()
  assert.match(verdict, /^You said: the result is right\. It is not so: a hazard is reported; finite, and wrong\.$/)
  const place = panel.root.locator('pre a').first()
  assert.match(await place.textContent(), /^chapters\/04_swizzling\/attention\.hpp:\d+$/)
  const line = (await place.textContent()).split(':')[1]
  assert.equal(await place.getAttribute('href'), `/docs/source/chapters/04_swizzling/attention.hpp.html#L${line}`)
  assert.deepEqual(page.complaints, [])
}))

test('try it: the address carries what was run', { skip }, () => with_browser(async (open) => {
  const page = await open(ALL), panel = await panel_of(page)
  await panel.choose('chapter', '9')
  await panel.choose('break', 'top-left')
  await panel.field('shape').fill('1,1,64,130,64')
  await panel.choose('schedule', '2')
  await panel.field('causal').check()
  const first = await panel.run(), text = await panel.text()
  assert.match(first, /finite, and wrong/)
  const address = new URL(page.url())
  const again = await open(address.pathname + address.search + address.hash), copy = await panel_of(again)
  assert.equal(await copy.field('chapter').inputValue(), '9')
  assert.equal(await copy.field('break').inputValue(), 'top-left')
  assert.equal(await copy.field('schedule').inputValue(), '2')
  assert.equal(await copy.run(), first)
  const without_time = (words) => words.replace(/^ +time .*\n/m, '')
  assert.equal(without_time(await copy.text()), without_time(text))
  assert.deepEqual([...page.complaints, ...again.complaints], [])
}))

test('try it: a run is cancelled, bad input has its sentence, and the panel goes on', { skip }, () => with_browser(async (open) => {
  const page = await open(CHAPTER_4), panel = await panel_of(page)
  await panel.field('shape').fill('1,8,1024,1024,128')
  await panel.root.getByRole('button', { name: 'Run' }).click()
  await panel.root.getByText(/^Running, \d+ s$/).waitFor()
  await panel.root.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await panel.root.locator('[data-result]').count(), 0)
  assert.equal(await panel.root.getByRole('button', { name: 'Cancel' }).count(), 0)
  for (const [shape, says] of [['1,1,64,128,65', /^error: head size 65/], ['1,1,64', /^error: --shape/], ['', /^error: /]]) {
    await panel.field('shape').fill(shape)
    assert.match(await panel.run(), says)
  }
  await panel.field('shape').fill('1,1,64,64,64')
  assert.match(await panel.run(), /the result is right/)
  assert.deepEqual(page.complaints, [])
}))

test('try it: every chapter that has a program here runs; on a phone nothing is wider than the page', { skip },
  () => with_browser(async (open) => {
    const page = await open(ALL, { width: 360, height: 780 }), panel = await panel_of(page)
    const chapters = await panel.field('chapter').locator('option').allTextContents()
    assert.deepEqual(chapters, ['02', '03', '04', '05', '06', '07', '08', '09', '10', '11', '12', '13', '14', '15', '16', '17', '18', '20', '21', '22', '23'])
    for (const chapter of chapters) {
      await panel.field('chapter').selectOption({ label: chapter })
      if (chapter === '20') await panel.field('shape').fill('32,1,1,16,2,20')
      assert.match(await panel.run(), /the (result is|first gradients are) right/, chapter)
    }
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
    assert.deepEqual(page.complaints, [])
  }))

test('try it: what proves nothing is not called wrong', { skip }, () => with_browser(async (open) => {
  const page = await open('/chapters/23_fp8/'), panel = await panel_of(page)
  await panel.choose('break', 'lse-uncorrected')
  assert.match(await panel.run(), /finite, and wrong/)
  await panel.field('break').selectOption('')
  await panel.field('shape').fill('1,1,64,20,64')
  await panel.field('causal').check()
  await panel.choose('prediction', 'right')
  assert.match(await panel.run(), /It is so: the result is right\.$/)
  assert.match(await panel.text(), /^ch23_fp8: /)
  await panel.field('shape').fill('1,1,16,16,128')
  await panel.field('input_scale').fill('30')
  const open_verdict = /That stays open: no number is out of bounds, .* too wide to prove it right\.$/
  assert.match(await panel.run(), open_verdict)
  assert.match(await panel.text(), /^ch23_fp8: [^]*INCONCLUSIVE/)
  const again = await open(page.url().replace(/^.*?\/chapters/, '/chapters')), copy = await panel_of(again)
  await copy.choose('prediction', 'right')
  assert.match(await copy.run(), open_verdict)
  await copy.field('input_scale').fill('much')
  assert.match(await copy.run(), /^error: --input-scale much/)
  assert.deepEqual([...page.complaints, ...again.complaints], [])
}))

test('try it: chapter 18 asks for its own sizes; what was only counted is not called right', { skip }, () => with_browser(async (open) => {
  const page = await open('/chapters/18_systolic_array/'), panel = await panel_of(page)
  assert.match(await panel.run(), /^It is so: the result is right\.$/)
  assert.match(await panel.text(), /^8 × 4 times 4 × 4 on a weight-stationary array of 4 × 4: 1 tile\n14 cycles, counted tick by tick/)
  await panel.choose('break', 'weights-swapped-early')
  await panel.choose('double_buffer', 'on')
  await panel.field('shape').fill('8 4 8 4 4')
  await panel.choose('prediction', 'right')
  assert.match(await panel.run(), /^You said: the result is right\. It is not so: finite, and wrong\.$/)
  const again = await open(page.url().replace(/^.*?\/chapters/, '/chapters')), copy = await panel_of(again)
  assert.match(await copy.run(), /^It is so: finite, and wrong\.$/)
  await panel.field('break').selectOption('')
  await panel.field('shape').fill('5000,5000,5000,128,128')
  assert.match(await panel.run(), /^You said: the result is right\. That stays open: it was too large to be computed here, and only counted\.$/)
  await panel.field('shape').fill('8,4')
  assert.equal(await panel.run(), 'error: m, k, n, rows, cols: expected 5 numbers, such as 8,4,4,4,4')
  await panel.field('shape').fill('8,4,0,4,4')
  assert.equal(await panel.run(), 'error: --n 0: expected a whole number from 1 to 1000000')
  assert.deepEqual([...page.complaints, ...again.complaints], [])
}))

test('try it: chapter 20 trains on the words of its page, and writes', { skip }, () => with_browser(async (open) => {
  const page = await open('/chapters/20_train_a_gpt/'), panel = await panel_of(page)
  await panel.field('shape').fill('32,1,2,32,4,60')
  await panel.choose('prediction', 'right')
  assert.equal(await panel.run(), 'You said: the first gradients are right. It is so: the first gradients are right.')
  const text = await panel.text(), losses = [...text.matchAll(/^step \d+ +loss ([\d.]+)/gm)].map(([, loss]) => Number(loss))
  assert.match(text, /^page\.txt: \d{4,5} characters, \d+ different;[^]*, tiled attention\n/)
  assert.equal(losses.length, 11)
  assert.ok(losses.every((loss) => loss > 0) && losses.at(-1) < losses[0] - 0.5, `${losses}`)
  assert.ok(text.split('It writes, from "The " on:\n\n')[1].length > 290)
  await panel.choose('break', 'no-d')
  assert.match(await panel.run(), /It is not so: a gradient is wrong\.$/)
  const broken = await panel.text()
  const again = await open(page.url().replace(/^.*?\/chapters/, '/chapters')), copy = await panel_of(again)
  assert.match(await copy.run(), /^It is so: a gradient is wrong\.$/)
  const without_times = (words) => words.replace(/^(step \d+ +loss [\d.]+).*$/gm, '$1').replace(/^attention allocated.*\n/m, '')
  assert.equal(without_times(await copy.text()), without_times(broken))
  await panel.choose('attention', 'plain')
  assert.match(await panel.run(), /^error: --break: the breaks are in the tiled attention/)
  await panel.field('break').selectOption('')
  await panel.field('shape').fill('32,1,5,32,4,10')
  assert.match(await panel.run(), /^error: [^\n]+$/)
  assert.deepEqual([...page.complaints, ...again.complaints], [])
}))

test('try it: nothing is fetched before the first touch; a copy without kernels says so', () => with_browser(async (open) => {
  const page = await open(CHAPTER_4, { quiet: true }), asked = []
  page.on('request', (request) => asked.push(new URL(request.url()).pathname))
  await page.route('**/ampere.wasm', (route) => route.fulfill({ status: 404, body: '' }))
  const panel = await panel_of(page)
  assert.ok(!asked.includes('/ampere.wasm'))
  await panel.field('shape').focus()
  await panel.root.getByText('built without the kernels').waitFor()
  assert.ok(asked.includes('/ampere.wasm'))
}))

test('offline, what was loaded once goes on running', { skip }, () => with_browser(async (open) => {
  const page = await open(CHAPTER_4), panel = await panel_of(page)
  await panel.field('shape').fill('1,1,64,64,64')
  await panel.run()
  await page.context().setOffline(true)
  await panel.choose('break', 'missing-barrier')
  assert.match(await panel.run(), /a hazard is reported/)
  await panel.field('shape').fill('1,8,1024,1024,128')
  await panel.root.getByRole('button', { name: 'Run' }).click()
  await panel.root.getByRole('button', { name: 'Cancel' }).click()  // the worker is gone, and begins anew
  await panel.field('shape').fill('1,1,64,64,64')
  assert.match(await panel.run(), /a hazard is reported/)
  await page.context().setOffline(false)
}))
