// Edits and checks exercises in the page, as a reader does, with real typing. Solutions and mistakes of exercises have
// the verdict of ./learn check in the page's toolchain, in Node, or in Chromium where they need fibers.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { check, toolchain } from '../editor/run.mjs'
import { does_not_compile, read, verdict } from '../editor/verdict.mjs'
import { BIN, ROOT } from '../figures/programs.mjs'
import { blank_page, SITE, with_browser } from './browser.mjs'
import { panel_of } from './code_panel.mjs'
import { wrong_answers } from './mistakes.mjs'
import { toolchain_in } from './page_toolchain.mjs'

const MANIFEST = join(SITE, 'editor', 'editor.json')
const skip = existsSync(MANIFEST) ? false : 'the editor is not built: its compiler or the tools of docs/wasm are missing'
const MOST_BYTES = 25e6

const EXERCISE = '02_tiled_cpu/ex2_online_softmax', PAGE = `/exercises/${EXERCISE}/`
const TITLE = '02.2 Online softmax'
const text_of = (...path) => readFileSync(join(ROOT, ...path), 'utf8')

test('an exercise: a right answer, a wrong one, a compile error, an endless loop (also in Firefox)', { skip }, () => with_browser(async (open) => {
  const fetched = []
  const page = await open(PAGE, { quiet: true }), panel = panel_of(page)
  page.on('request', (request) => fetched.push(request.url()))
  page.on('dialog', (dialog) => dialog.accept())
  assert.equal(await panel.editor.count(), 0)
  await panel.press('Edit')
  await panel.ready()
  for (const name of ['clang', 'files']) assert.equal(fetched.filter((url) => url.includes(`/editor/${name}-`)).length, 1)

  assert.match(await panel.check(), new RegExp(`^${TITLE}: not written yet\n\n {2}TODO\\(02.2\\): `))
  await panel.type('exercise::todo', 'const float m_new = std::max(state.m, x);')
  await page.keyboard.press('Enter')
  await page.keyboard.type('state.l = state.l + std::exp(x - m_new);')
  await page.keyboard.press('Enter')
  await page.keyboard.type('state.m = m_new;')
  assert.match(await panel.check(), new RegExp(`^${TITLE}: wrong \\(\\d of 7 test cases pass\\)[^]*looks like: no-rescale: the old sum`))

  await panel.type('state.l = state.l', 'state.l = state.l * std::exp(state.m - m_new) + std::exp(x - m_new);')
  assert.equal(await panel.check(), `${TITLE}: right (7 test cases)`)

  await panel.type('state.m = m_new;', 'state.m = m_now;')
  assert.match(await panel.check(), new RegExp(`^${TITLE}: does not compile\n\nonline_softmax\\.hpp:\\d+: use of undeclared identifier 'm_now'`))
  assert.equal(await panel.root.locator('.cm-lint-marker-error').count(), 1)

  await panel.type('state.m = m_now;', 'state.m = m_new; while (x > 100) { std::printf("%s", ""); }')
  assert.match(await panel.check(), new RegExp(`^${TITLE}: wrong: still running after 20 s; is there a loop that never ends\\?\n\n`
    + ' {2}in the test case: scores whose exponential overflows'))

  await page.reload()
  await panel.press('Edit')
  await panel.ready()
  assert.match(await panel.text(), /while \(x > 100\)/)
  await panel.press('Hint 1 of')
  assert.equal(await panel.root.locator('.fa-hint-text').count(), 1)
  await panel.press('Solution')
  assert.equal(await panel.check(), `${TITLE}: right (7 test cases)`)
  await panel.press('Reset')
  assert.match(await panel.text(), /exercise::todo/)
  assert.deepEqual(page.complaints, [])
}))

test('an exercise on the emulator: a hazard, files, a test that the reader cancels', { skip }, () => with_browser(async (open) => {
  const page = await open('/exercises/debugging/ex5_transpose/', { quiet: true }), panel = panel_of(page)
  page.on('dialog', (dialog) => dialog.accept())
  await panel.press('Edit')
  await panel.ready()
  await panel.press('Solution')
  const right = await panel.text()
  assert.equal(await panel.check(), 'D.5 Right, and slow: right (1 test cases)')

  await panel.type('block_sync();', '// no barrier')
  assert.match(await panel.check(), new RegExp('^D\\.5 Right, and slow: wrong \\(0 of 1 test cases pass\\)[^]* '
    + 'my_exercises/debugging/ex5_transpose/transpose\\.hpp:\\d+: read_before_barrier: thread '))

  const saved = page.waitForEvent('download')
  await panel.press('Save as file')
  assert.equal((await saved).suggestedFilename(), 'transpose.hpp')
  assert.match(readFileSync(await (await saved).path(), 'utf8'), /FA_KERNEL void transpose/)
  await panel.root.getByLabel('Open a file').setInputFiles({ name: 'transpose.hpp', mimeType: 'text/plain', buffer: Buffer.from(
    right.replace('block_sync();', 'while (column >= 0) block_sync();')) })
  await panel.root.getByRole('button', { name: 'Check' }).click()
  await panel.press('Cancel')
  await panel.ready()
  assert.match(await panel.root.locator('[data-result]').textContent(), /: cancelled$/)
  assert.deepEqual(page.complaints, [])
}))

test('without a network, the page says how to check an exercise', { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE, { width: 390, height: 844 }), panel = panel_of(page)
  await page.route('**/editor/clang-*', (route) => route.abort())
  await panel.press('Edit')
  await panel.root.getByText('./learn check 02.2').waitFor()
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
}))

test('the editor takes at most 25 MB from a server that does not compress', { skip }, () => {
  const scripts = ['assets/chunks', 'assets'].flatMap((folder) => readdirSync(join(SITE, folder)).map((name) => join(SITE, folder, name)))
    .filter((path) => /(code_editor|compiler|Code(Exercise|Kernel|Panel)|EditKernel|profile|verdict|worker-)[^/]*\.js$/.test(path))
  const { clang, files } = JSON.parse(readFileSync(MANIFEST, 'utf8'))
  const total = clang.bytes + files.bytes + scripts.reduce((sum, path) => sum + statSync(path).size, 0)
  assert.ok(total <= MOST_BYTES, `${total} bytes`)
})

// Returns the verdict of the native program on a mistake, as ./learn check shows it.
function native(id, mistake) {
  const { stdout } = spawnSync(join(BIN, '..', 'exercises', 'programs', `exercise_${id}`), ['--reporters=verdict'],
    { encoding: 'utf8', env: { ...process.env, EXERCISE_PROOF: mistake } })
  return read(stdout).result.text.trimEnd()
}

// The solution and one mistake of each exercise, but of those that need fibers (5 s for each check) only WITH_FIBERS.
// FA_EVERY_STATE=1: all exercises and all mistakes.
const EVERY = process.env.FA_EVERY_STATE
const WITH_FIBERS = ['03_basic_kernel/ex1_copy_tile', '15_overlap/ex1_which_wait', '19_ring_attention/ex4_two_buffers']
const { exercises } = skip ? { exercises: {} } : JSON.parse(readFileSync(MANIFEST, 'utf8'))
const has_fibers = (exercise) => ['exercise_warp', 'exercise_ring'].includes(exercises[exercise])

// A native test names the solution's file, with the lines of the solution, and a page the reader's.
const without_lines = (words) => words.replace(/(?:solutions|my_exercises)(\/\S+\.hpp):\d+/g, 'answer$1')

// Compares verdicts of a page with the native ones. `judge` returns the page's. Returns what differs.
async function compare(exercise, judge) {
  const [topic, directory] = exercise.split('/'), file = `${directory.replace(/^ex\d+_/, '')}.hpp`
  const title = /^# (.+)$/m.exec(text_of('exercises', topic, directory, 'README.md'))[1], [id] = title.split(' ')
  const verdict_of = async (text) => (await judge(title, { exercise, file, text })).lines.join('\n').trimEnd()
  const differences = []
  const solved = await verdict_of(text_of('solutions', topic, directory, file))
  if (!new RegExp(`^${id} .*: right \\(\\d+ test cases?\\)`).test(solved)) differences.push([exercise, 'solution', solved])
  const mistakes = wrong_answers(exercise).slice(0, EVERY ? undefined : 1)
  for (const [name, wrong] of mistakes) {
    const got = without_lines(await verdict_of(wrong)), expected = without_lines(`${title}: ${native(id, name)}`)
    if (got !== expected) differences.push([exercise, name, got, expected])
  }
  if (EVERY) console.log(`${exercise},${mistakes.length},${differences.length}`)
  return differences
}

async function compare_all(which, judge) {
  const differences = []
  for (const exercise of which) differences.push(...await compare(exercise, judge))
  assert.deepEqual(differences, [])
}

test('solutions are right, and mistakes have the verdict of ./learn check', { skip }, () => {
  const tools = toolchain()
  return compare_all(Object.keys(exercises).filter((exercise) => !has_fibers(exercise)), (...words) => check(tools, ...words))
})

test('the same with tests that need fibers', { skip }, () => blank_page(async (page) => {
  const with_fibers = EVERY ? Object.keys(exercises).filter(has_fibers) : WITH_FIBERS
  const run_in_page = await toolchain_in(page, { exercise: with_fibers[0] })
  await compare_all(with_fibers, async (title, request) => {
    const { compiled, run, output } = await run_in_page(request)
    return compiled ? does_not_compile(title, request.file, compiled) : verdict(title, run, output)
  })
}))
