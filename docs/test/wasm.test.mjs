// The kernels as WebAssembly against the programs themselves: report, counters, hazards, events, every byte of O.
// FA_EVERY_STATE=1: every chapter, break and three shapes; otherwise a choice of them.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { Kernels, module_of, MODULES, PROGRAMS } from '../wasm/host.mjs'
import { differences, runNatively } from './wasm.compare.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BIN = process.env.FA_BIN ?? join(ROOT, 'build', 'bin')
const file_of = (name) => join(ROOT, 'docs', 'public', `${name}.wasm`)
const skip = MODULES.every((name) => existsSync(file_of(name))) ? false
  : 'the kernels are not built as WebAssembly: the tools are missing'
const modules = skip ? {} : Object.fromEntries(MODULES.map((name) =>
  [name, new Kernels(new WebAssembly.Module(readFileSync(file_of(name))))]))
const kernels = modules.ampere
const every = process.env.FA_EVERY_STATE === '1'

const SHAPES = [[1, 1, 64, 128, 64], [1, 2, 128, 220, 128], [2, 1, 70, 130, 64]]

function breaksOf(program) {
  const text = execFileSync(join(BIN, program), ['--list-breaks'], { encoding: 'utf8' })
  return text.split('\n').filter(Boolean).map((line) => line.split(/ {2,}/)[0])
}

for (const [chapter, program] of Object.entries(PROGRAMS)) {
  test(`${program}: as WebAssembly what it is natively`, { skip }, () => {
    const all = [[], ...breaksOf(program).map((name) => [name])]
    assert.ok(all.length > 3, 'the program lists its breaks')
    const shapes = every ? SHAPES : SHAPES.slice(0, 1)
    let runs = 0
    for (const shape of shapes) {
      for (const [i, breaks] of all.entries()) {
        for (const schedule_seed of every ? [0, 3] : [i % 4]) {
          const request = {
            chapter: Number(chapter), shape, seed: i, breaks, schedule_seed,
            profile: true, events: 1e6, outputs: true
          }
          const found = differences(runNatively(BIN, request), modules[module_of(chapter)].run(request))
          assert.deepEqual(found, [], JSON.stringify(request))
          ++runs
        }
      }
    }
    assert.equal(runs, shapes.length * all.length * (every ? 2 : 1))
  })
}

test('a page loads at most 180 KB of kernels, compressed', { skip }, () => {
  for (const name of MODULES) {
    const size = brotliCompressSync(readFileSync(file_of(name)), {
      params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22 } }).length
    assert.ok(size <= 180_000, `${name}.wasm: ${size} bytes`)
  }
})

const BAD = [
  { chapter: 4, shape: [1, 1, 64, 128] },
  { chapter: 4, shape: [1, 1, 64, 128, 65] },
  { chapter: 4, shape: [1, 1, 0, 128, 64] },
  { chapter: 4, seed: -1 },
  { chapter: 4, seed: 1.5 },
  { chapter: 4, breaks: ['no-such-break'] },
  { chapter: 4, causal: true },
  { chapter: 4, window: '1,1' },
  { chapter: 9, kv_heads: 3, shape: [1, 4, 64, 64, 64] },
  { chapter: 9, softcap: -1 },
  { chapter: 9, scale: 'much' },
  { chapter: 9, layout: 'dhlb' },
  { chapter: 4, no_such_option: true }
]
test('a bad request gets the program\'s sentence, and the next one runs', { skip }, () => {
  for (const request of BAD) {
    const native = runNatively(BIN, request)
    assert.equal(native.status, 2, JSON.stringify(request))
    assert.deepEqual(differences(native, kernels.run(request)), [], JSON.stringify(request))
  }
  const good = { chapter: 4, shape: SHAPES[0], profile: true }
  assert.deepEqual(differences(runNatively(BIN, good), kernels.run(good)), [])
})

test('a request that no command line has is refused', { skip }, () => {
  for (const request of [null, [], {}, { chapter: 99 }, { chapter: 'toString' }, { chapter: 4, breaks: 'x' },
    { chapter: 4, events: -1 }, { chapter: 4, json: 'x' }, { chapter: 4, device: 'gpu' }]) {
    const answer = kernels.run(request)
    assert.equal(answer.status, 2, JSON.stringify(request))
    assert.match(answer.error, /^[^\n]+$/)
  }
})

test('memory does not grow over 200 runs', { skip }, () => {
  const request = { chapter: 7, shape: SHAPES[0], breaks: ['missing-barrier'], profile: true, events: 10 }
  for (let i = 0; i < 5; ++i) kernels.run({ ...request, schedule_seed: i })
  const before = kernels.memoryBytes()
  for (let i = 0; i < 200; ++i) {
    assert.equal(kernels.run({ ...request, schedule_seed: i % 5 }).status, 1)
  }
  assert.equal(kernels.memoryBytes(), before)
})

test('run.mjs: answer, exit status, sentence', { skip }, () => {
  const run = (request) => spawnSync('node', [join(ROOT, 'docs/wasm/run.mjs'), request], { encoding: 'utf8' })
  const answer = run('{"chapter":4,"shape":[1,1,64,128,64],"breaks":["missing-barrier"],"events":2}')
  assert.equal(answer.status, 1)
  assert.equal(JSON.parse(answer.stdout).events.length, 2)
  const bad = run('{"chapter":4,"shape":[1]}')
  assert.equal(bad.status, 2)
  assert.match(bad.stderr, /^error: --shape 1: expected five numbers B,H,Lq,Lkv,D\n$/)
  assert.equal(run('{').status, 2)
})
