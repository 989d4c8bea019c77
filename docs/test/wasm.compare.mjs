// One run natively and as WebAssembly: what differs, in words; [] if nothing does.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandLine } from '../wasm/host.mjs'

// What the program answers to a request, in host.mjs's form.
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
      answer.outputs = Object.fromEntries(['out', 'dq', 'dk', 'dv'].filter((name) => existsSync(file(name)))
        .map((name) => [name, new Uint8Array(readFileSync(file(name)))]))
    }
    return answer
  } finally {
    rmSync(directory, { recursive: true })
  }
}

// float64 goes through two C libraries, whose exp differs in the last place: the checker's errors and
// bounds may differ so much, and nothing else.
function close(a, b) {
  if (typeof a !== 'number' || typeof b !== 'number' || Number.isInteger(a)) {
    return JSON.stringify(a) === JSON.stringify(b)
  }
  return Math.abs(a - b) <= 1e-6 * Math.abs(a)
}
const sameCheck = (a, b) => a && b && typeof a === 'object'
  ? JSON.stringify(Object.keys(a)) === JSON.stringify(Object.keys(b)) && Object.keys(a).every((key) => sameCheck(a[key], b[key]))
  : close(a, b)

// .npy files, byte by byte; which of its bits make a float32 a NaN is left open by WebAssembly.
function sameOutput(one, other) {
  if (!other || one.length !== other.length) return false
  const begin = 10 + one[8] + 256 * one[9]  // of the numbers
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
