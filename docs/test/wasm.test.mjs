// Compares the chapters' programs as WebAssembly with the native programs: report, counters,
// hazards, events, every byte of O. FA_EVERY_STATE=1 tests every chapter, break and three shapes,
// otherwise a selection of them.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { read } from '../editor/verdict.mjs'
import { Programs } from '../wasm/host.mjs'
import { EXERCISES, module_of, MODULES, PROGRAMS } from '../wasm/modules.mjs'
import { wrong_answers } from './mistakes.mjs'
import { apart, differences, LOSS, runNatively, trainedDifferences } from './wasm.compare.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BIN = process.env.FA_BIN ?? join(ROOT, 'build', 'bin')
const file_of = (name) => join(ROOT, 'docs', 'public', `${name}.wasm`)
const skip = MODULES.every((name) => existsSync(file_of(name))) ? false
  : 'the programs are not built as WebAssembly: the tools are missing'
const modules = skip ? {} : Object.fromEntries(MODULES.map((name) =>
  [name, new Programs(new WebAssembly.Module(readFileSync(file_of(name))))]))
const kernels = modules.ampere
const every = process.env.FA_EVERY_STATE === '1'

// Options of a chapter besides the shape.
const MORE = { 11: { page_size: 16, splits: 2 }, 22: { deterministic: true } }
const SHAPES = [[1, 1, 64, 128, 64], [1, 2, 128, 220, 128], [2, 1, 70, 130, 64]]

function breaksOf(program) {
  const text = execFileSync(join(BIN, program), ['--list-breaks'], { encoding: 'utf8' })
  return text.split('\n').filter(Boolean).map((line) => line.split(/ {2,}/)[0])
}

const NO_KERNELS = ['1', '2', '18', '20']  // they have other tests below
for (const [chapter, program] of Object.entries(PROGRAMS).filter(([chapter]) => !NO_KERNELS.includes(chapter))) {
  test(`${program}: as WebAssembly what it is natively`, { skip }, () => {
    const all = [[], ...breaksOf(program).map((name) => [name])]
    assert.ok(all.length > 3, 'the program lists its breaks')
    const shapes = every ? SHAPES : SHAPES.slice(0, 1)
    let runs = 0
    for (const shape of shapes) {
      for (const [i, breaks] of all.entries()) {
        for (const schedule_seed of every ? [0, 3] : [i % 4]) {
          const request = {
            chapter: Number(chapter), shape, ...MORE[chapter], seed: i, breaks, schedule_seed,
            profile: true, events: 1e6, outputs: true
          }
          const found = differences(runNatively(BIN, request), modules[module_of(request)].run(request))
          assert.deepEqual(found, [], JSON.stringify(request))
          ++runs
        }
      }
    }
    assert.equal(runs, shapes.length * all.length * (every ? 2 : 1))
  })
}

const TEXTS = join(ROOT, 'chapters/01_toy_machine/programs')
const SHIPPED = Object.fromEntries(readdirSync(TEXTS).map((name) => [name, readFileSync(join(TEXTS, name), 'utf8')]))
const same = (request, name = JSON.stringify(request)) =>
  assert.deepEqual(differences(runNatively(BIN, request), modules[module_of(request)].run(request)), [], name)

test('ch01_toy_machine: shipped programs, with more and fewer registers, and what it refuses', { skip }, () => {
  const [name, text] = ['my.txt', SHIPPED['element.txt']]
  const lines = text.split('\n')
  const run = (text, more = {}) => same({ chapter: 1, command: ['run', name], files: { [name]: text }, ...more })
  for (const text of Object.values(SHIPPED)) {
    for (const registers of [undefined, 2, 3, 8]) run(text, registers ? { registers } : { trace: true })
  }
  // A line is omitted, duplicated or cut off. Most results are refused, each with its own message.
  lines.forEach((line, i) => {
    for (const instead of [[], [line, line], [line.slice(0, -1)], [`${line} x`]]) run(lines.toSpliced(i, 1, ...instead).join('\n'))
  })
  same({ chapter: 1, command: ['run', 'no.txt'], files: {} }, 'a file that is not there is named')
})

// Returns random numbers that are the same in every run (mulberry32).
function random_from(seed) {
  const next = () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n) => Math.floor(next() * n)
  return { next, below, of: (list) => list[below(list.length)] }
}

// Returns a random program that follows the rules of the language.
const OPERANDS = { mac: { LOAD: 0, STORE: 1, MAC_Z: 2, MAC: 3 },
  alu: { LOAD: 0, STORE: 1, MOV: 1, EXP: 1, ADD: 2, SUB: 2, MUL: 2, DIV: 2, MAX: 2 } }
function random_program({ next, below, of }) {
  const machine = of(Object.keys(OPERANDS)), ops = OPERANDS[machine], registers = 3 + below(5), any = machine === 'alu' || below(2)
  const arrays = machine === 'mac' ? ['a[2][2]', 'b[2][2]', 'c[2][2]'] : ['x[5]', 'out[5]'], output = arrays.at(-1)
  const values = (name) => Array.from({ length: name.match(/\d/g).reduce((a, b) => a * b) }, () => next() * of([1e-3, 1, -5, 100]))
  const cell_of = (name) => name.replace(/\d/g, (n) => below(n))
  const lines = [`.machine ${machine}`, `.registers ${registers}`, `.operands ${any ? 'any' : 'fixed'}`,
    ...arrays.map((name) => name === output ? `.output ${name}` : `.input ${name} = ${values(name)}`), `.check ${machine === 'mac' ? 'matmul' : 'softmax'}`]
  const full = new Set(), written = new Set(), end = lines.length + 5 + below(25)
  while (lines.length < end) {
    const op = of(Object.keys(ops)), target = `R${below(registers)}`
    const sources = Array.from({ length: ops[op] }, () => below(registers))
    if (op.startsWith('MAC') && !any) sources.splice(0, 2, 0, 1)
    const cell = cell_of(op === 'STORE' ? output : of(arrays))
    if (sources.some((r) => !full.has(`R${r}`)) || op === 'LOAD' && cell.startsWith(output.split('[')[0]) && !written.has(cell)) continue
    const list = sources.map((r) => `R${r}`)
    lines.push(`${op} ${[...op === 'LOAD' ? [cell] : [], ...list, op === 'STORE' ? cell : target].join(', ')}${op === 'STORE' || below(4) ? '' : ` -> t${lines.length}`}`)
    op === 'STORE' ? written.add(cell) : full.add(target)
  }
  return `${lines.join('\n')}\n`
}

test('ch01_toy_machine: random programs', { skip }, () => {
  const random = random_from(1)
  for (let i = 0; i < 50; ++i) {
    const text = random_program(random), request = { chapter: 1, command: ['run', 'my.txt'], files: { 'my.txt': text }, trace: true }
    const native = runNatively(BIN, request)
    assert.notEqual(native.status, 2, `${native.error}\n${text}`)
    assert.deepEqual(differences(native, modules.toy.run(request)), [], text)
  }
})

test('ch01_toy_machine: its other commands', { skip }, () => {
  for (const request of [{ command: ['matmul'], order: 'outer', n: 3, operands: 'any' }, { command: ['matmul'], n: 9 },
    { command: ['softmax'], algorithm: 'online', n: 6, x: '3,1,4,1,5,-9', trace: true },
    { command: ['softmax'], x: '1,2,3,4,5,200', breaks: ['no-max'] }, { command: ['softmax'], x: '1,1e39' },
    { command: ['attention'], n: 4, dim: 2 }, { command: ['optimum'], registers: 3 }, { command: ['optimum'], registers: 1 },
    { command: ['no-such-command'], report: false }, { command: ['run'], report: false },
    { command: ['softmax', '--n'], report: false }]) same({ chapter: 1, ...request })
})

test('exercises 01.1 to 01.5: the verdicts of ./learn check', { skip }, () => {
  let judged = 0
  for (const [exercise, directory] of Object.entries(EXERCISES)) {
    const file = `${directory.replace(/^ex\d+_/, '')}.txt`, of = (tree) => join(ROOT, tree, '01_toy_machine', directory)
    const program = join(BIN, `ex${exercise}_${file.slice(0, -4)}`)
    const paths = [join(of('exercises'), file), join(of('solutions'), file), join(TEXTS, 'element.txt')]
    const texts = [...paths.map((path) => [path, readFileSync(path, 'utf8')]), ...wrong_answers(`01_toy_machine/${directory}`)]
    const stub = texts[0][1]
    for (const [name, text] of texts) {
      const folder = mkdtempSync(join(tmpdir(), 'judge-'))
      writeFileSync(join(folder, file), text)  // its messages name the file
      const native = spawnSync(program, ['--reporters=verdict'],
        { encoding: 'utf8', env: { ...process.env, EXERCISE_ANSWER: join(folder, file) } })
      rmSync(folder, { recursive: true })
      const answer = modules.toy.run({ exercise, stub, answer: text })
      assert.equal(answer.text, read(native.stdout).result.text, `${exercise} ${name}`)
      assert.equal(answer.status, native.status, `${exercise} ${name}`)
      ++judged
    }
  }
  assert.ok(judged > 50)
})

test('ch02_tiled_cpu: every algorithm and break; its walks and tables', { skip }, () => {
  const shape = '1,2,70,130,16'
  for (const algorithm of ['naive', 'safe', 'online', 'tiled']) same({ chapter: 2, shape, algorithm, profile: true })
  for (const name of breaksOf(PROGRAMS[2])) same({ chapter: 2, shape, input_scale: 40, breaks: [name], trace: true, profile: true })
  for (const more of [{ dtype: 'f16' }, { dtype: 'bf16', causal: true, outputs: true }, { block_q: 7, block_kv: 5 },
    { algorithm: 'no-such' }, { window: 3 }, { memory_limit: 1000, algorithm: 'safe' }]) same({ chapter: 2, shape, ...more })
  for (const command of ['walkthrough', 'loop-order']) same({ chapter: 2, command: [command], report: false })
  same({ chapter: 2, command: ['traffic'], length: 9, dim: 3, block_q: 2, block_kv: 4, causal: true })
  for (const keys of [null, 100, 512]) same({ chapter: 2, command: ['overflow'], keys })
})

test('ch18_systolic_array: every command; products of many sizes, whole and broken', { skip }, () => {
  for (const [m, k, n, rows, cols] of [[2, 3, 2, 128, 128], [8, 4, 4, 4, 4], [13, 37, 21, 8, 5], [300, 300, 300, 128, 128], [5000, 5000, 5000, 128, 128]]) {
    for (const more of [{}, { dataflow: 'output' }, { double_buffer: true }, { trace: true }, { seed: 7, dataflow: 'output', trace: true },
      { dataflow: 'output', double_buffer: true }, ...breaksOf(PROGRAMS[18]).map((name) => ({ breaks: [name], double_buffer: true, trace: true }))]) {
      same({ chapter: 18, command: ['matmul'], m, k, n, rows, cols, ...more })
    }
  }
  for (const accounting of ['seed', 'array', 'pipelined', 'overlapped']) same({ chapter: 18, command: ['attention'], accounting, causal: true, mxus: 4 })
  for (const words of ['assumptions', 'loop', 'loops', 'roofline', 'traffic', 'inside']) same({ chapter: 18, command: [words], report: false })
  for (const as of ['fori', 'vmap', 'pallas', 'splash', 'none']) same({ chapter: 18, command: ['loop'], as, report: false })
  for (const bad of [{ m: 0 }, { k: 'x' }, { breaks: ['no-such'] }, { device: 'gpu', report: false }]) {
    const answer = modules.systolic.run({ chapter: 18, command: ['matmul'], ...bad })
    assert.equal(answer.status, 2)
    assert.match(answer.error, /^[^\n]+$/)
  }
  same({ chapter: 18, report: false })
})

// Chapter 20 on a fixed text, with a context that is not a multiple of its tiles.
const TEXT = readFileSync(join(ROOT, 'LICENSE'), 'utf8')
const training = (more) => ({ chapter: 20, command: ['train'], text: 'my.txt', files: { 'my.txt': TEXT },
  steps: 20, context: 30, layers: 2, heads: 2, channels: 32, batch: 4, ...more })
const trains = (request) => {
  const { files, ...named } = request, native = runNatively(BIN, request), answer = modules.gpt.run(request)
  assert.deepEqual(trainedDifferences(native, answer), [], JSON.stringify(named))
  return { native, answer }
}

test('ch20_train_a_gpt: the losses of 20 steps, plain, tiled and with each break', { skip }, () => {
  const intact = trains(training({ attention: 'tiled' }))
  assert.equal(intact.answer.report.loss.length, 20)
  assert.equal(intact.answer.status, 0)
  trains(training({ attention: 'plain' }))
  trains(training({ attention: 'tiled', block: 7, heads: 4, channels: 36, seed: 3, learning_rate: 0.001 }))
  // For these products Eigen would copy blocks to the stack, which is smaller here.
  for (const context of [64, 128]) trains(training({ context, batch: 8, steps: 2 }))
  const names = breaksOf(PROGRAMS[20])
  assert.equal(names.length, 5)
  assert.deepEqual(Object.keys(modules.gpt.breaks(20)), names)
  for (const name of names) {
    const { answer } = trains(training({ attention: 'tiled', breaks: [name] }))
    assert.equal(answer.status, 1, name)
    const moved = Math.max(...intact.answer.report.loss.map((loss, i) => apart(loss, answer.report.loss[i])))
    assert.ok(moved > 5 * LOSS, `${name}: moves the loss by ${moved}, more than what the C libraries do`)
  }
})

test('ch20_train_a_gpt: gradients against central differences', { skip }, () => {
  for (const attention of ['plain', 'tiled']) same({ chapter: 20, command: ['gradients'], report: false, attention })
  for (const name of breaksOf(PROGRAMS[20])) trains({ chapter: 20, command: ['gradients'], report: false, breaks: [name] })
})

test('ch20_train_a_gpt: a checkpoint goes on, here and there, and writes the same', { skip }, () => {
  const whole = modules.gpt.run(training({ outputs: true })), half = modules.gpt.run(training({ steps: 9, outputs: true }))
  const go_on = training({ files: { 'my.txt': TEXT, checkpoint: half.outputs.checkpoint }, resume: true, outputs: true })
  const { native, answer } = trains(go_on)
  assert.deepEqual(answer.report.loss, whole.report.loss)
  assert.ok(Buffer.from(answer.outputs.checkpoint).equals(Buffer.from(whole.outputs.checkpoint)))
  for (const gpt of [native.outputs.checkpoint, answer.outputs.checkpoint]) {
    same({ chapter: 20, command: ['generate'], report: false, checkpoint: 'gpt', prompt: 'The ', tokens: 50, files: { gpt } }, 'generate')
  }
})

test('ch20_train_a_gpt: what it refuses, and what a page has not, has a sentence', { skip }, () => {
  for (const more of [{ context: 0 }, { heads: 3 }, { steps: -1 }, { attention: 'flash' }, { attention: 'plain', breaks: ['no-d'] },
    { breaks: ['x'] }, { text: 'no.txt' }, { files: { 'my.txt': 'abc' } }, { files: { 'my.txt': new Uint8Array([97, 0, 255]) } },
    { resume: true }, { learning_rate: 0 }, { no_such_option: true }, { attention: 'plain', memory_limit: 1000 },
    { attention: 'ch16' }, { command: ['train', '--device', 'tpu'] }]) {
    assert.equal(trains(training(more)).answer.status, 2, JSON.stringify(more))
  }
  const { text, ...without_text } = training()
  for (const [request, says] of [[training({ attention: 'ch10' }), 'without kernels'], [training({ attention: 'ch16', heads: 1, channels: 64 }), 'without kernels'],
    [training({ attention: 'ch19' }), 'chapter 19'], [training({ command: ['train', '--device', 'emulator'] }), 'without kernels'],
    [training({ command: ['train', '--device', 'gpu'] }), 'without kernels'], [without_text, '--text'], [{ chapter: 20 }, 'not expected'],
    [{ chapter: 20, report: false }, 'no story'],
    [training({ channels: 4096, layers: 8 }), 'memory']]) {
    const { status, error } = modules.gpt.run(request)
    assert.equal(status, 2, says)
    assert.match(error, new RegExp(`^[^\\n]*${says}[^\\n]*$`))
    assert.equal(modules.gpt.run(training({ steps: 1 })).status, 0, 'the next request runs')
  }
})

test('ch10_backward: its algorithms on the CPU are not in the page, and it says so', { skip }, () => {
  for (const algorithm of ['naive', 'rows', 'columns', 'tiled']) {
    const { status, error } = modules.backward.run({ chapter: 10, shape: SHAPES[0], algorithm })
    assert.equal(status, 2)
    assert.match(error, /^--algorithm: a page runs chapter 10's kernels, not its algorithms on the CPU$/)
  }
})

test('a page loads at most 190 KB of kernels, compressed', { skip }, () => {
  for (const name of MODULES) {
    const size = brotliCompressSync(readFileSync(file_of(name)), {
      params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22 } }).length
    assert.ok(size <= 190_000, `${name}.wasm: ${size} bytes`)
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
