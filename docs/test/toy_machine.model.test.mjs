// The toy machine in JavaScript against ch01_toy_machine: the shipped programs, random programs, and
// broken ones. Every number after every instruction is equal, but e^x: within 2 steps of fp32.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { expected, verdict } from '../figures/toy_machine_check.js'
import { instruction_text, OPS, run, shortened } from '../figures/toy_machine_model.js'
import { parse, TraceError, validate } from '../figures/toy_machine_parser.js'
import { BIN, ROOT } from '../figures/programs.mjs'

const PROGRAM = join(BIN, 'ch01_toy_machine')
const PROGRAMS = join(ROOT, 'chapters/01_toy_machine/programs')
const folder = mkdtempSync(join(tmpdir(), 'toy-machine-'))
after(() => rmSync(folder, { recursive: true }))

// Random numbers that are the same each time (mulberry32).
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

// What the program makes of the text: { report }, or { problem }.
function of_program(text) {
  const file = join(folder, 'p.txt'), json = join(folder, 'p.json')
  writeFileSync(file, text)
  const result = spawnSync(PROGRAM, ['run', file, '--json', json], { encoding: 'utf8' })
  if (result.status === 2) return { problem: result.stderr.trim().replace(`error: ${file}:`, '') }
  assert.ok(result.status === 0 || result.status === 1, `exit ${result.status}: ${result.stderr}`)
  return { report: JSON.parse(readFileSync(json, 'utf8')) }
}

function of_model(text) {
  try {
    const program = parse(text)
    validate(program)
    expected(program)
    return { program }
  } catch (error) {
    if (!(error instanceof TraceError)) throw error
    return { problem: `${error.line ? `${error.line}:${error.column}:` : ''} ${error.message}` }
  }
}

// Neighbours in fp32 are 1 apart.
const ulps = (number) => {
  const bits = new Int32Array(Float32Array.of(number).buffer)[0]
  return bits < 0 ? -(2 ** 31) - bits : bits
}
const finite = (number) => Number.isFinite(number) ? number : null  // as JSON has it

function compare(text) {
  const theirs = of_program(text), ours = of_model(text)
  assert.equal(ours.problem, theirs.problem, text)
  if (theirs.problem) return 'refused'
  const { report } = theirs, { program } = ours
  const exponentials = report.steps.map(({ registers }, i) =>
    program.instructions[i].op === 'EXP' ? registers[program.instructions[i].registers.at(-1)] : null)
  let before = [], last
  const machine = run(program, exponentials)
  machine.next()
  program.instructions.forEach((instruction, i) => {
    last = machine.next().value
    const { registers, symbols, formula, instruction: words } = report.steps[i]
    const where = `step ${i + 1} of\n${text}`
    assert.equal(instruction_text(program, instruction), words)
    assert.deepEqual(last.registers.map((r) => r && finite(r.number)), registers, where)
    assert.deepEqual(last.registers.map((r) => r && r.symbol.text), symbols, where)
    assert.equal(last.formula, formula, where)
    if (exponentials[i] !== null) {
      const own = OPS.EXP.number(before[instruction.registers[0]])
      assert.ok(Math.abs(ulps(own) - ulps(exponentials[i])) <= 2, `${own} and ${exponentials[i]}, ${where}`)
    }
    before = last.registers.map((r) => r?.number)
  })
  const { cycles, loads, stores, macs, flops, passes } = report
  assert.deepEqual(last.cost, { cycles, loads, stores, macs, flops, passes })
  program.arrays.forEach(({ name, is_input }, a) => {
    if (is_input) return
    assert.deepEqual(last.dram[a].map((cell) => finite(cell?.number)), report.outputs[name], text)
  })
  const { mismatches, passed } = verdict(program, last)
  assert.equal(mismatches, report.check.mismatches, text)
  assert.equal(passed, report.check.passed, text)
  return passed ? 'agrees' : 'wrong'
}

const SHAPES = {
  matmul: () => [['a', [2, 3]], ['b', [3, 2]], ['c', [2, 2]]],
  softmax: (n) => [['x', [n]], ['out', [n]]],
  attention: (n) => [['q', [2]], ['k', [n, 2]], ['v', [n, 2]], ['o', [2]]],
  ratio: () => [['x', [2]], ['out', [1]]],
  sum: (n) => [['x', [n]], ['out', [1]]],
  variance: (n) => [['x', [n + 1]], ['out', [1]]],
}

// A program that keeps every rule, and computes whatever comes.
function random_program(random) {
  const check = random.of(Object.keys(SHAPES))
  const arrays = SHAPES[check](1 + random.below(random.of([4, 14])))
  const machine = check === 'matmul' ? random.of(['mac', 'mac', 'alu']) : 'alu'
  const operands = random.of(['fixed', 'any'])
  const registers = 2 + random.below(6)
  const bracketed = (numbers) => numbers.map((n) => `[${n}]`).join('')
  const number = () => random.next() * random.of([1e-3, 1, -5, 100])
  const lines = [`.machine ${machine}`, `.registers ${registers}`, `.operands ${operands}`]
  arrays.forEach(([name, shape], i) => {
    const values = Array.from({ length: shape.reduce((a, b) => a * b) }, number).join(', ')
    if (i === arrays.length - 1) lines.push(`.output ${name}${bracketed(shape)}`)
    else lines.push(`.input ${name}${bracketed(shape)}${random.below(3) ? ` = ${values}` : ''}`)
  })
  lines.push(`.check ${check}`)
  const full = new Set(), written = new Set()
  const cell_of = ([name, shape]) => name + bracketed(shape.map((n) => random.below(n)))
  const output = arrays.at(-1), count = 3 + random.below(25)
  const known = Object.keys(OPS).filter((op) => OPS[op].on.includes(machine))
  while (lines.length < count + arrays.length + 4) {
    const op = random.of(['LOAD', ...known])
    const target = random.below(registers)
    if (op === 'LOAD') {
      const array = random.of(arrays), cell = cell_of(array)
      if (array === output && !written.has(cell)) continue
      lines.push(`LOAD ${cell}, R${target}`)
    } else {
      const sources = Array.from({ length: OPS[op].sources }, () => random.below(registers))
      if (op.startsWith('MAC') && operands === 'fixed') sources.splice(0, 2, 0, 1)
      if (sources.some((r) => !full.has(r))) continue
      const cell = cell_of(output)
      if (op === 'STORE') written.add(cell)
      const list = op === 'STORE' ? [`R${sources[0]}`, cell] : [...sources, target].map((r) => `R${r}`)
      lines.push(`${op} ${list.join(', ')}${op === 'STORE' || random.below(4) ? '' : ` -> t${lines.length}`}`)
    }
    if (op !== 'STORE') full.add(target)
  }
  return `${lines.join('\n')}\n`
}

// One thing goes wrong: a character, a token or a line is lost, doubled or replaced.
function broken(text, random) {
  const parts = random.of([() => [...text], () => text.split(/(\b|(?<=\W))/), () => text.split(/(?<=\n)/)])()
  const at = random.below(parts.length)
  const other = random.of([...parts, 'R9', '@no-max', '@no-min', '->', '- >', 'x', '[', ']', ',', '\n', '#',
    ' ', '\t', '.check sum\n', '7 cycles\n', '0', '99999', '1e39', 'MAC', 'EXP R0, R0\n', 'a[0][0]', '.',
    'R'])
  parts.splice(at, random.below(2), ...random.of([[], [other], [parts[at], parts[at]]]))
  return parts.join('')
}

test('the shipped programs', () => {
  const outcomes = readdirSync(PROGRAMS)
    .map((file) => [file, compare(readFileSync(join(PROGRAMS, file), 'utf8'))])
  assert.ok(outcomes.length >= 14)
  const wrong = outcomes.filter(([, outcome]) => outcome !== 'agrees').map(([file]) => file)
  assert.deepEqual(wrong.sort(), ['ratio_unsafe.txt', 'sum_plain.txt', 'variance_textbook.txt'])
})

test('random programs', () => {
  const random = random_from(1)
  for (let i = 0; i < 400; ++i) assert.notEqual(compare(random_program(random)), 'refused')
})

test('broken programs: the same line, column and sentence', () => {
  const random = random_from(2)
  const shipped = readdirSync(PROGRAMS).map((file) => readFileSync(join(PROGRAMS, file), 'utf8'))
  let refused = 0
  for (let i = 0; i < 600; ++i) {
    const text = random.below(3) ? random_program(random) : random.of(shipped)
    refused += compare(broken(text, random)) === 'refused'
  }
  assert.ok(refused > 200, `${refused} refused`)
})

test('every rule of the language is broken once', () => {
  const head = '.machine mac\n.registers 3\n.input a[2][2]\n.input b[2][2]\n.output c[2][2]\n'
  const body = 'LOAD a[0][0], R0\nLOAD b[0][0], R1\nMAC_Z R0, R1, R2\nSTORE R2, c[0][0]\n'
  const cases = ['', '# nothing\n', body, `${head}${body}`, `${head}.check matmul\n${body}.registers 4\n`,
    `${head}.check matmul c[0][0]\n${body}`, `${head}.check matmul a[0][0]\n${body}`,
    `${head}.check matmul\n${body}LOAD c[1][1], R0\n`, `${head}.check matmul\n${body}STORE R2, a[0][0]\n`,
    `${head}.check matmul\n${body}MAC_Z R1, R0, R2\n`, `${head}.check matmul\n${body}MUL R1, R0, R2\n`,
    `${head}.check matmul\n${body}MAC R0, R1, R3, R2\n`,
    `${head}.check matmul\n${body}STORE R2, c[0][0] -> x\n`,
    `${head}.check matmul\n5 cycles\n${body}`, `${head}.check matmul\n5 cycles\n5 cycles\n${body}`,
    `${head}.check matmul\n5 years\n${body}`, `${head}.input a[1]\n`, `${head}.input z[0]\n`,
    `${head}.input z[70000]\n`, `${head}.input z[400][400]\n`, `${head}.input z[1][1][1]\n`,
    `${head}.input z\n`,
    `${head}.input\n`, `${head}.input z[2] = 1\n`, `${head}.input z[1] = 1e39\n`, `${head}.input z[1] = +1\n`,
    `${head}.input z[1] = .5\n.check matmul\n${body}`, `${head}.input z[1] = nan\n`,
    `${head}.check everything\n`,
    `${head}.check sum\n${body}`, '.machine gpu\n', '.machine alu\n.machine alu\n', '.registers 0\n',
    '.registers 129\n', '.registers 1234567890\n', '.operands some\n', `.machine mac\n${body}`,
    `${head}.check matmul\nLOAD a[0][2], R0\n`, `${head}.check matmul\nLOAD a[0], R0\n`,
    `${head}.check matmul\nLOAD a[0][0][0], R0\n`, `${head}.check matmul\nLOAD a[0][0] R0\n`,
    `${head}.check matmul\nLOAD a[0][0], 0\n`, `${head}.check matmul\nLOAD a[0][0], R\n`,
    `${head}.check matmul\nLOAD a[0][0], R0, R1\n`, `${head}.check matmul\nLOAD a[0][0], R0 R1\n`,
    `${head}.check matmul\nLOAD , R0\n`, `${head}.check matmul\nLOAD q[0], R0\n`,
    `${head}.check matmul\n!LOAD\n`,
    `${head}.check matmul\nLOAD a[0][0], R0 ->\n`, `${head}.check matmul\nLOAD a[0][0], R0 -\n`,
    `${head}.check matmul\nLOAD a[0][0], R0 @no-way\n`,
    '.machine mac\n.input a[1]\n.check sum\nLOAD a[0], R0\n',
    `${head.replace('c[2][2]', 'c[2][3]')}.check matmul\n${body}`, `${head}.check matmul\r\n${body}`]
  const outcomes = cases.map(compare)
  assert.ok(outcomes.filter((outcome) => outcome === 'refused').length > 40)
})

test('a long formula is shortened as the program does it', () => {
  const doubling = 'ADD R0, R0, R0\n'.repeat(12)
  const head = '.machine alu\n.registers 1\n.input x[1] = 1\n.output out[1]\n.check sum\nLOAD x[0], R0\n'
  assert.equal(compare(head + doubling), 'wrong')
  assert.equal(shortened('a + b + c + d', 9), 'a + … + d')
})
