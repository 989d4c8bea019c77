// Compares the timeline of an event log with docs/timeline.py on the same log, and the hazards with
// the instructions that they name.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { output_of, ROOT } from '../figures/programs.mjs'
import timeline from '../figures/timeline.js'
import { count, meanwhile, missing_in, name_of, reduce, track_of } from '../figures/timeline_log.js'

const folder = mkdtempSync(join(tmpdir(), 'timeline-'))
after(() => rmSync(folder, { recursive: true }))

const logs = Object.fromEntries(Object.entries(timeline.sources)
  .map(([key, command]) => [key, output_of(command)]))
const runs = Object.fromEntries(Object.entries(logs).map(([key, log]) => [key, reduce(log)]))

// Returns the rows of the text picture: [name, count].
function rows_of(log, warp) {
  const file = join(folder, 'log.json')
  writeFileSync(file, JSON.stringify(log))
  const words = ['-B', join(ROOT, 'docs/timeline.py'), '--warp', `${warp}`, file]
  const { stdout, status } = spawnSync('python3', words, { encoding: 'utf8' })
  assert.equal(status, 0)
  const [title, , , , ...rows] = stdout.trimEnd().split('\n')
  return { steps: +title.match(/(\d+) instructions/)[1], rows: rows.map((row) => {
    const [, name, number] = row.match(/^(.*?) +(\d+)(?: [ =|#^]*)?$/)
    return [name, +number]
  }) }
}

test('names, order and mma of the copies are those of docs/timeline.py', () => {
  let warp = 0
  for (const [key, log] of Object.entries(logs)) {
    if (/missing/.test(key)) continue  // to save time
    warp = (warp + 1) % 4
    const track = track_of(runs[key], warp), { steps, rows } = rows_of(log, warp)
    assert.equal(track.code.length, steps, key)
    assert.deepEqual([...track.copies.map((copy) => [name_of(copy), meanwhile(track, copy)]),
      ['mma', count(track.code, 'm')], ['barriers', count(track.code, 'b')]], rows, `${key}, warp ${warp}`)
  }
})

test('kernels as they are have no hazard, broken ones have, at the instructions that collide', () => {
  for (const [key, { hazards, ...run }] of Object.entries(runs)) {
    assert.equal(hazards.length > 0, !key.endsWith(' '), key)
    for (const { kind, at, other } of hazards) {
      const letter = ({ warp, step }) => track_of(run, warp).code[step]
      const [late, early] = { read_before_wait: [/[qkv]/, /c/], read_before_barrier: [/[qkv]/, /c/],
        overwrite_while_read: [/c/, /[qkv]/], write_write: [/c/, /c/] }[kind]
      assert.match(letter(at), late, `${key}: ${kind}`)
      assert.match(letter(other), early, `${key}: ${kind}`)
    }
  }
})

test('a hazard is where the picture shows it: no wait, or no barrier, between the two', () => {
  for (const [key, { hazards, ...run }] of Object.entries(runs)) {
    for (const { kind, at, other } of hazards) {
      const [late, early] = [at, other].map(({ warp, step }) => ({ ...track_of(run, warp), warp, step }))
      if (kind === 'read_before_wait' || kind === 'write_write') {
        const copy = early.copies.findLast(({ first }) => first <= early.step)
        assert.ok(late.step < (copy.end ?? Infinity), `${key}: the wait comes behind the read`)
      } else {
        const passed = ({ code, step }) => count(code, 'b', 0, step)
        assert.equal(passed(late), passed(early), `${key}: a barrier stands between`)
      }
    }
  }
})

test('what a break leaves out is what its name says', () => {
  const letters = { 'missing-wait': 'w', 'missing-barrier': 'b', 'conditional-commit': 'g' }
  for (const [key, run] of Object.entries(runs)) {
    const [chapter, broken] = key.split(' ')
    // A warp whose maximum grew votes twice in a row, but not if its scores are NaN.
    const code_of = (one) => track_of(one, 0).code.replace(/a(s*)a/g, 'a$1')
    const missing = missing_in(code_of(run), code_of(runs[`${chapter} `]))
    const kinds = new Set(missing.map(({ letter }) => letter))
    assert.deepEqual([...kinds], broken in letters ? [letters[broken]] : [], key)
  }
})
