// Compares a native run with the same run as WebAssembly. Returns the differences in words, or [].

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandLine } from '../wasm/host.mjs'

// Returns the native program's answer to a request, in host.mjs's form.
export function runNatively(bin, request) {
  const directory = mkdtempSync(join(tmpdir(), 'wasm-'))
  const file = (name) => join(directory, name)
  try {
    const [program, ...words] = commandLine(request)
    for (const [name, text] of Object.entries(request.files ?? {})) writeFileSync(file(name), text)
    const answer = { status: 0 }
    try {
      answer.text = execFileSync(join(bin, program), words, {
        encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, FA_THREADS: '1' }, cwd: directory
      })
    } catch (failure) {
      if (!(failure.status >= 0)) throw failure
      answer.status = failure.status
      answer.text = failure.stdout
      if (failure.status === 2) answer.error = failure.stderr.replace(/^error: /, '').trimEnd()
    }
    if (answer.status === 2) return answer
    if (existsSync(file('report'))) answer.report = JSON.parse(readFileSync(file('report')))
    if (existsSync(file('events'))) {
      const { events, tiles, hazards } = JSON.parse(readFileSync(file('events')))
      answer.events = events.slice(0, request.events)
      answer.events_left_out = events.length - answer.events.length
      answer.hazards = hazards
      if (tiles) answer.tiles = tiles
    }
    if (request.outputs) {
      answer.outputs = Object.fromEntries(['out', 'dq', 'dk', 'dv', 'checkpoint'].filter((name) => existsSync(file(name)))
        .map((name) => [name, new Uint8Array(readFileSync(file(name)))]))
    }
    return answer
  } finally {
    rmSync(directory, { recursive: true })
  }
}

// float64 uses the exp of two C libraries, which differ in the last place. The checker's errors and
// bounds may differ by this much, and nothing else.
function close(a, b) {
  if (typeof a !== 'number' || typeof b !== 'number' || Number.isInteger(a)) {
    return JSON.stringify(a) === JSON.stringify(b)
  }
  return Math.abs(a - b) <= 1e-6 * Math.abs(a)
}
const sameCheck = (a, b) => a && b && typeof a === 'object'
  ? JSON.stringify(Object.keys(a)) === JSON.stringify(Object.keys(b)) && Object.keys(a).every((key) => sameCheck(a[key], b[key]))
  : close(a, b)

// Compares .npy files byte by byte. WebAssembly does not specify the bits of a float32 NaN.
function sameOutput(one, other) {
  if (!other || one.length !== other.length) return false
  const begin = 10 + one[8] + 256 * one[9]  // start of the numbers
  if (!Buffer.from(one.subarray(0, begin)).equals(Buffer.from(other.subarray(0, begin)))) return false
  if (!Buffer.from(one.subarray(0, begin)).includes("'<f4'")) return Buffer.from(one).equals(Buffer.from(other))
  const [words, others] = [one, other].map((bytes) => new Uint32Array(bytes.slice(begin).buffer))
  const is_nan = (word) => (word & 0x7fffffff) > 0x7f800000
  return words.every((word, i) => word === others[i] || is_nan(word) && is_nan(others[i]))
}

const LINES = { text: (text) => text?.replace(/^ {2}time .*\n/m, '') }

export function differences(native, wasm) {
  const found = []
  const compare = (what, a, b) => {
    if (JSON.stringify(a) !== JSON.stringify(b)) found.push(what)
  }
  compare('status', native.status, wasm.status)
  if (native.status === 2) {
    compare('error', native.error, wasm.error)
    return found
  }
  compare('text', LINES.text(native.text), LINES.text(wasm.text))
  const { time_ms: a, ...first } = native.report ?? {}, { time_ms: b, ...second } = wasm.report ?? {}
  for (const key of new Set([...Object.keys(first), ...Object.keys(second)])) {
    if (key !== 'check') compare(key, first[key], second[key])
    else if (!sameCheck(first.check, second.check)) found.push('check')
  }
  compare('events', native.events, wasm.events)
  compare('tiles', native.tiles, wasm.tiles)
  compare('hazards of the log', native.hazards, wasm.hazards)
  compare('outputs', Object.keys(native.outputs ?? {}), Object.keys(wasm.outputs ?? {}))
  for (const [name, bytes] of Object.entries(native.outputs ?? {})) {
    if (!sameOutput(bytes, wasm.outputs?.[name])) found.push(name)
  }
  return found
}

// Chapter 20 trains in fp32 with exp, log and tanh of another C library, and Eigen has no vectors
// in the module, so some sums have another order. These are the relative differences that are
// allowed: for a loss in 20 steps; for the check of a wrong gradient (8e-6 was seen in the norm,
// 1e-4 in the largest number, 1 mismatch of 30873); for printed numbers. For a correct gradient the
// check prints only its rounding error.
export const LOSS = 2e-7  // 4e-8 was seen; 5e-6 in 100 steps
const NORM = 1e-4, ONE = 1e-3, PRINTED = 1e-6, ROUNDING = 1e-5
export const apart = (a, b) => Math.abs(a - b) / Math.abs(a)
const NUMBER = /-?\d+(?:\.\d+)?(?:e[-+]?\d+)?/g
// The losses are in the report, with all their digits.
const without_times = (text) => text.replace(/^(step \d+) .*$/gm, '$1').replace(/(agree with .*: relative error )\S+/, '$1small')

export function trainedDifferences(native, wasm) {
  if (native.status !== wasm.status || native.status === 2) return differences(native, wasm)
  const found = []
  const near = (what, a, b, most) => {
    if (!(a === b || apart(a, b) <= most)) found.push(`${what}: ${a}, ${b}`)
  }
  const first = without_times(native.text), second = without_times(wasm.text)
  if (first.replace(NUMBER, '0') !== second.replace(NUMBER, '0')) found.push('text')
  const printed = second.match(NUMBER) ?? []
  for (const [i, number] of (first.match(NUMBER) ?? []).entries()) near('text', Number(number), Number(printed[i]), PRINTED)
  const [{ check: a, loss: losses, ...one }, { check: b, loss: others, ...other }] = [native, wasm].map(({ report }) => {
    const { seconds, ms_per_step, ...rest } = report ?? { loss: [] }
    return rest
  })
  if (JSON.stringify(one) !== JSON.stringify(other)) found.push('report')
  if (losses.length !== others.length) found.push('losses')
  losses.forEach((loss, i) => near(`loss of step ${i + 1}`, loss, others[i], LOSS))
  if (!a && !b) return found
  for (const key of ['passed', 'elements', 'nonfinite']) if (a?.[key] !== b?.[key]) found.push(`check: ${key}`)
  if (!a?.passed) {
    if (a.worst !== b.worst) found.push('check: worst')
    near('check: relative_error', a.relative_error, b.relative_error, NORM)
    near('check: max_abs_error', a.max_abs_error, b.max_abs_error, ONE)
    near('check: mismatches', a.mismatches, b.mismatches, ONE)
  } else if (a.mismatches || b.mismatches || !(a.relative_error < ROUNDING && b.relative_error < ROUNDING)) {
    found.push('check: errors')
  }
  return found
}
