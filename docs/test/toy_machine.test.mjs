import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { output_of, ROOT } from '../figures/programs.mjs'
import { figure_on, SITE, with_browser } from './browser.mjs'

const skip = existsSync(join(SITE, 'toy.wasm')) ? false : 'the programs are not built as WebAssembly: the tools are missing'

const PAGE = '/chapters/01_toy_machine/'
const six_digits = (number) => Number(number.toPrecision(6))
const optimum_of = (registers) =>
  output_of(['ch01_toy_machine', 'optimum', '--registers', `${registers}`, '--json', '{json}'])
const run_of = (name) => output_of(['ch01_toy_machine', 'run', name, '--json', '{json}'])

// Compares the figure after step `i` + 1 of a run with that run.
function assert_shows(shown, { steps }, i, where) {
  const { registers, symbols } = steps[i]
  registers.forEach((number, r) => {
    assert.equal(shown[`symbol_${r}`] === undefined, symbols[r] === null, `${where}: is R${r} empty`)
    if (symbols[r] === null) return
    const words = shown[`register_${r}`]
    if (number === null) assert.match(words, /^(NaN|-?Inf)$/, `${where}: R${r}`)  // not in JSON
    else assert.equal(Number(words), six_digits(number), `${where}: R${r}`)
    assert.equal(shown[`symbol_${r}`].split(' = ')[0], symbols[r], `${where}: the formula of R${r}`)
  })
  const count = (word) =>
    steps.slice(0, i + 1).filter(({ instruction }) => instruction.startsWith(word)).length
  assert.equal(+shown.cycles, i + 1)
  assert.equal(+shown.loads, count('LOAD'), `${where}: loads`)
  assert.equal(+shown.stores, count('STORE'), `${where}: stores`)
}

test('toy machine: registers, formulas, costs are what the program says', () => with_browser(async (open) => {
  const page = await open(PAGE)
  const figure = await figure_on(page, 'toy_machine')
  const chosen = { element: 'one element', outer_product: 'outer product', online_softmax: 'online softmax' }
  for (const [name, label] of Object.entries(chosen)) {
    const report = run_of(name)
    await figure.choose('choice', label)
    for (const i of new Set([0, 3, 8, 13, report.steps.length - 1].filter((i) => i < report.steps.length))) {
      await figure.slide('step', i + 1)
      assert_shows(await figure.values(), report, i, `${name}, step ${i + 1}`)
    }
    const shown = await figure.values()
    assert.equal(shown.macs ?? shown.alu, String(report.macs || report.cycles - report.loads - report.stores))
    assert.equal(shown.bytes, String(report.dram_bytes))
    assert.match(shown.verdict, /^agrees/)
  }
  assert.deepEqual(page.complaints, [])
}))

test('toy machine: the fewest cycles for each number of registers', () => with_browser(async (open) => {
  const page = await open(PAGE)
  const figure = await figure_on(page, 'toy_machine')
  await figure.choose('choice', 'fewest cycles')
  for (const registers of [3, 4, 6]) {
    const { cycles } = optimum_of(registers)
    await figure.slide('registers', registers)
    await figure.slide('step', cycles)
    assert.equal(await figure.value('cycles'), String(cycles))
    assert.match(await figure.words(), new RegExp(`Cycle ${cycles} of ${cycles}.*agrees`))
  }
  await figure.slide('registers', 2)
  assert.match(await figure.words(), /impossible: a MAC reads two operands and a partial sum/)
  assert.deepEqual(page.complaints, [])
}))

test('toy machine: forwards, back, too few registers, on a phone', { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE, { width: 390 })
  const figure = await figure_on(page, 'toy_machine')
  await figure.slide('step', 2)
  await figure.forward('step')
  assert.match(await figure.words(), /^Cycle 3 of 7: MAC_Z R0, R1, R2: 1 · 5 = 5\./)
  await figure.back('step')
  assert.match(await figure.words(), /^Cycle 2 of 7: LOAD b\[0\]\[0\], R1\./)
  await figure.choose('choice', 'outer product')
  assert.match(await figure.words(), /^Cycle 0 of 22/)
  await figure.slide('registers', 3)
  const { line } = find_refusal('outer_product')
  await figure.says(new RegExp(`line ${line}, column \\d+: R\\d does not exist: the machine has R0 to R2`))
  assert.deepEqual(page.complaints, [])
}))

// Finds a program for which three registers are too few.
function find_refusal(name) {
  const lines = readFileSync(join(ROOT, `chapters/01_toy_machine/programs/${name}.txt`), 'utf8').split('\n')
  return { line: 1 + lines.findIndex((words) => /^[A-Z].*R[3-9]/.test(words)) }
}

test("toy machine: the reader's own program, run in the page", { skip }, () => with_browser(async (open) => {
  const page = await open(PAGE)
  const figure = await figure_on(page, 'toy_machine')
  await figure.choose('choice', 'your own')
  const head = '.machine alu\n.registers 2\n.input x[2] = 0.5, -1\n.output out[1]\n.check ratio\n'
  await figure.write('program', `${head}LOAD x[0], R0\nSUB R0, R1, R0\n`)
  await figure.says(/refuses this program: line 7, column 9: R1 is empty: nothing was put into it/)
  await figure.write('program', `${head}LOAD x[0], R0\nLOAD x[1], R1\nSUM R0, R1, R0\n`)
  await figure.says(/line 8, column 1: unknown instruction 'SUM': the ALU machine has LOAD/)
  const own = `${head}LOAD x[0], R0\nLOAD x[1], R1\nSUB R0, R1, R0\nEXP R0, R0\nSTORE R0, out[0]\n`
  await figure.write('program', own)
  await figure.says(/^Cycle \d of 5/)
  await figure.slide('step', 5)
  await figure.says(/Cycle 5 of 5: STORE R0, out\[0\]\. R0 = e\^\(x0 − x1\) = 4\.48169;.*agrees/)
  assert.equal(await figure.value('dram_out_0'), '4.48169')
  await figure.write('program', own.replace('EXP', 'MOV'))
  await figure.says(/Cycle 5 of 5.*out\[0\] is 1\.5, expected 4\.48169/)
  await figure.write('program', '')
  await figure.says(/no instructions/)
  assert.deepEqual(page.complaints, [])
}))

test('toy machine: a copy without programs shows the recorded runs, and says so', () => with_browser(async (open) => {
  const page = await open(PAGE)
  await page.route('**/toy.wasm', (route) => route.fulfill({ status: 404, body: '' }))
  const figure = await figure_on(page, 'toy_machine')
  await figure.choose('choice', 'outer product')
  assert.match(await figure.words(), /^Cycle 0 of 22/)
  await figure.slide('registers', 3)
  await figure.says(/built without the programs/)
}))
