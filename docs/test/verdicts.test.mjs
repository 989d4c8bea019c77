// Solutions and mistakes of exercises have the verdict of ./learn check in the page's toolchain, in Node, or in Chromium
// where they need fibers.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { check, toolchain } from '../editor/run.mjs'
import { does_not_compile, read, verdict } from '../editor/verdict.mjs'
import { BIN, ROOT } from '../figures/programs.mjs'
import { blank_page, SITE, use_both_compilers } from './browser.mjs'
import { wrong_answers } from './mistakes.mjs'
import { toolchain_in } from './page_toolchain.mjs'

const MANIFEST = join(SITE, 'editor', 'editor.json')
const skip = existsSync(MANIFEST) ? false : 'the editor is not built: its compiler or the tools of docs/wasm are missing'
const text_of = (...path) => readFileSync(join(ROOT, ...path), 'utf8')

use_both_compilers()  // because clang runs 80 times in one page

// Returns the verdict of the native program on a mistake, as ./learn check shows it.
function native(id, mistake) {
  const { stdout } = spawnSync(join(BIN, '..', 'exercises', 'programs', `exercise_${id}`), ['--reporters=verdict'],
    { encoding: 'utf8', env: { ...process.env, EXERCISE_PROOF: mistake } })
  return read(stdout).result.text.trimEnd()
}

// The solution and one mistake of each exercise. FA_EVERY_STATE=1: all mistakes.
const EVERY = process.env.FA_EVERY_STATE
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
  const with_fibers = Object.keys(exercises).filter(has_fibers)
  const run_in_page = await toolchain_in(page, { exercise: with_fibers[0] })
  await compare_all(with_fibers, async (title, request) => {
    const { compiled, run, output } = await run_in_page(request)
    return compiled ? does_not_compile(title, request.file, compiled) : verdict(title, run, output)
  })
}))
