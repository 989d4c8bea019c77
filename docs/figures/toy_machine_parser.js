// Reads the trace files of the toy machine as chapter 01's parser.cpp does, with the same messages.
import { cell_text, f32, OPS, size_of } from './toy_machine_model.js'

export class TraceError extends Error {
  constructor(message, line, column) {
    super(message.slice(0, 300))
    Object.assign(this, { line, column })  // from 1; undefined: it is about the whole program
  }
}

const CHECKS = ['matmul', 'softmax', 'attention', 'ratio', 'sum', 'variance']
const CHECK_LIST = 'matmul, softmax, attention, ratio, sum or variance'
const MAX_LENGTH = 1 << 16, MAX_REGISTERS = 128

// One line, from left to right.
class Scanner {
  constructor(text, number) {
    this.text = text.split('#')[0]
    this.number = number
    this.at = 0
  }
  take(pattern) {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0] ?? ''
    this.at += found.length
    return found
  }
  skip_space() { this.take(/[ \t\r]+/y) }
  place() {
    this.skip_space()
    return [...this.text.slice(0, this.at)].length + 1
  }
  at_end() { return this.place() && this.at === this.text.length }
  fail(message, column) { throw new TraceError(message, this.number, column) }
  fail_here(message) {
    const column = this.place()
    this.fail(this.at_end() ? `${message}, found the end of the line` : message, column)
  }
  accept(character) {
    if (this.at_end() || this.text[this.at] !== character) return false
    this.at++
    return true
  }
  expect(character, after) {
    if (!this.accept(character)) this.fail_here(`expected '${character}' after ${after}`)
  }
  word() { return this.place() && this.take(/[A-Za-z0-9_.-]+/y) }
  symbol() { return this.place() && this.take(/[^ \t\r]+/y) }
  expect_end() {
    if (this.at_end()) return
    const column = this.place()
    this.fail(`unexpected '${this.symbol()}' at the end of the line`, column)
  }
  whole_number(what, maximum) {
    const column = this.place(), digits = this.take(/\d+/y)
    if (!digits) this.fail(`expected ${what}, a whole number`, column)
    if (digits.length > 9 || +digits > maximum) this.fail(`${what} ${digits}: at most ${maximum}`, column)
    return +digits
  }
  number_fp32(what) {
    const column = this.place(), text = this.take(/[^, \t\r]+/y)
    const value = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? f32(+text) : NaN
    if (!Number.isFinite(value)) {
      this.fail(`${what} '${text}': expected a finite number that fp32 can hold`, column)
    }
    return value
  }
}

// The program of a trace file. Throws TraceError for the first thing that is wrong with a line.
export function parse(text) {
  const program = { machine: null, registers: 0, operands: 'fixed', arrays: [], check: null, check_cell: -1,
    promised: -1, instructions: [] }
  const seen = new Set()
  const lines = text.split('\n')
  lines.forEach((line, i) => parse_line(program, seen, new Scanner(line, i + 1)))
  if (!program.instructions.length) throw new TraceError('no instructions', 1, 1)
  if (!program.check) {
    throw new TraceError(`no .check line: expected .check and what the output must be: ${CHECK_LIST}`, 1, 1)
  }
  return program
}

function parse_line(program, seen, scan) {
  if (scan.at_end()) return
  const column = scan.place()
  if (/\d/.test(scan.text[scan.at])) {
    if (program.promised >= 0) scan.fail('a second promise of cycles', column)
    program.promised = scan.whole_number('the number of cycles', 1 << 24)
    const unit = scan.place()
    if (scan.word() !== 'cycles') scan.fail("expected 'cycles' after a number", unit)
  } else {
    const word = scan.word()
    if (word.startsWith('.')) parse_directive(program, seen, scan, column, word)
    else parse_instruction(program, scan, column, word)
  }
  scan.expect_end()
}

function parse_directive(program, seen, scan, column, word) {
  const value_column = scan.place()
  const once = () => {
    if (seen.has(word)) scan.fail(`${word} stands twice`, column)
    if (program.instructions.length && word !== '.check') {
      scan.fail(`${word} must stand before the first instruction`, column)
    }
    seen.add(word)
  }
  const one_of = (accepted) => {
    const value = scan.word()
    if (!accepted.includes(value)) {
      scan.fail(`${word} '${value}': accepted: ${accepted.join(', ')}`, value_column)
    }
    once()
    return value
  }
  if (word === '.machine') program.machine = one_of(['mac', 'alu'])
  else if (word === '.operands') program.operands = one_of(['fixed', 'any'])
  else if (word === '.registers') {
    once()
    program.registers = scan.whole_number('.registers', MAX_REGISTERS)
    if (program.registers < 1) scan.fail('.registers 0: at least 1', value_column)
  } else if (word === '.input' || word === '.output') parse_array(program, scan, word === '.input')
  else if (word === '.check') {
    once()
    const name = scan.word()
    if (!CHECKS.includes(name)) scan.fail(`.check '${name}': accepted: ${CHECK_LIST}`, value_column)
    program.check = name
    if (scan.at_end()) return
    const cell_column = scan.place(), cell = parse_cell(program, scan)
    if (program.arrays[cell.array].is_input) {
      scan.fail('only a cell of the output can be checked', cell_column)
    }
    program.check_cell = cell.index
  } else {
    const known = '.machine .registers .operands .input .output .check'
    scan.fail(`unknown directive '${word}': accepted: ${known}`, column)
  }
}

function parse_array(program, scan, is_input) {
  const column = scan.place(), name = scan.word(), shape = []
  if (!name) scan.fail("expected the array's name, such as x[4]", column)
  if (program.arrays.some((a) => a.name === name)) scan.fail(`array ${name} stands twice`, column)
  while (scan.accept('[')) {
    const length_column = scan.place()
    if (shape.length === 2) scan.fail('arrays have one or two subscripts', length_column)
    shape.push(scan.whole_number('length', MAX_LENGTH))
    if (!shape.at(-1)) scan.fail('length 0: at least 1', length_column)
    if (size_of({ shape }) > MAX_LENGTH) {
      scan.fail(`array ${name} is too big: at most ${MAX_LENGTH} cells`, column)
    }
    scan.expect(']', 'the length')
  }
  if (!shape.length) scan.fail_here("expected '[' after the array's name")
  const size = size_of({ shape })
  let values = []
  if (is_input && scan.accept('=')) {
    do values.push(scan.number_fp32('value')); while (scan.accept(','))
    if (values.length !== size) {
      scan.fail(`array ${name} has ${size} cells, but ${values.length} values stand here`, column)
    }
  } else if (is_input) values = Array.from({ length: size }, (_, i) => i + 1)
  program.arrays.push({ name, shape, is_input, values })
}

function parse_instruction(program, scan, column, word) {
  const { machine, arrays } = program
  if (!machine) scan.fail('no .machine line before the first instruction: accepted: mac, alu', column)
  const op = Object.hasOwn(OPS, word) && OPS[word]
  if (!op || !op.on.includes(machine)) {
    const known = Object.keys(OPS).filter((name) => OPS[name].on.includes(machine)).join(' ')
    const what = op ? `${word} is not on this machine` : `unknown instruction '${word || scan.symbol()}'`
    scan.fail(`${what}: the ${machine.toUpperCase()} machine has ${known}`, column)
  }
  const instruction = { op: word, line: scan.number, registers: [], register_columns: [], cell: null,
    name: '' }
  const form = ` (${op.form})`
  const take_cell = () => {
    instruction.cell_column = scan.place()
    instruction.cell = parse_cell(program, scan)
  }
  if (word === 'LOAD') {
    take_cell()
    scan.expect(',', `the cell${form}`)
  }
  for (let i = 0; i < op.sources + (word !== 'STORE'); ++i) {
    if (i) scan.expect(',', `the register${form}`)
    const place = scan.place()
    if (!scan.accept('R') && !scan.accept('r')) scan.fail_here(`expected a register, such as R0${form}`)
    instruction.registers.push(scan.whole_number("the register's number", 999))
    instruction.register_columns.push(place)
  }
  if (word === 'STORE') {
    scan.expect(',', `the register${form}`)
    take_cell()
    const array = arrays[instruction.cell.array]
    if (array.is_input) scan.fail(`array ${array.name} is an input: read-only`, instruction.cell_column)
  }
  if (scan.accept(',')) scan.fail(`too many operands${form}`, scan.place())
  const arrow = scan.place()
  if (scan.accept('-')) {
    if (!scan.accept('>')) scan.fail("expected '->' and a name for the result", arrow)
    instruction.name = scan.symbol()
    if (!instruction.name) scan.fail_here("expected a name after '->'")
    if (word === 'STORE') scan.fail('STORE has no result to name', arrow)
  }
  for (let place = scan.place(); scan.accept('@'); place = scan.place()) {
    const name = scan.word()
    if (!['no-max', 'no-rescale'].includes(name)) {
      scan.fail(`'@${name}' is not a break: accepted: @no-max, @no-rescale`, place)
    }
  }
  program.instructions.push(instruction)
}

function parse_cell({ arrays }, scan) {
  const column = scan.place(), name = scan.word()
  if (!name) scan.fail_here('expected a cell, such as a[0][1]')
  const array = arrays.findIndex((a) => a.name === name)
  if (array < 0) scan.fail(`no array '${name}': declare it with .input or .output`, column)
  const { shape } = arrays[array]
  let index = 0
  for (const length of shape) {
    scan.expect('[', `array ${name}, which has ${shape.length} subscripts,`)
    const place = scan.place(), subscript = scan.whole_number('a subscript', MAX_LENGTH)
    if (subscript >= length) {
      scan.fail(`subscript ${subscript} is outside array ${name}: 0 to ${length - 1}`, place)
    }
    scan.expect(']', 'the subscript')
    index = index * length + subscript
  }
  if (scan.accept('[')) scan.fail(`array ${name} has ${shape.length} subscripts`, column)
  return { array, index }
}

// Walks the program without computing; throws TraceError. A program that passes runs to its end.
export function validate(program) {
  if (!program.registers) throw new TraceError('no .registers line and no --registers')
  const full = new Set()
  const written = program.arrays.map((array) => array.is_input ? null : new Set())
  for (const { op, line, registers, register_columns, cell, cell_column } of program.instructions) {
    registers.forEach((r, i) => {
      const fail = (message) => { throw new TraceError(message, line, register_columns[i]) }
      if (r >= program.registers) {
        fail(`R${r} does not exist: the machine has R0 to R${program.registers - 1}`)
      }
      if (op.startsWith('MAC') && i < 2 && program.operands === 'fixed' && r !== i) {
        fail(`the ${i ? 'second' : 'first'} operand of ${op} is R${i}, not R${r} (.operands any lifts this)`)
      }
      if (i < OPS[op].sources && !full.has(r)) fail(`R${r} is empty: nothing was put into it yet`)
    })
    if (op === 'LOAD' && written[cell.array]?.has(cell.index) === false) {
      const place = cell_text(program.arrays[cell.array], cell.index)
      throw new TraceError(`${place} was not written yet: nothing to load`, line, cell_column)
    }
    if (op === 'STORE') written[cell.array].add(cell.index)
    else full.add(registers.at(-1))
  }
}
