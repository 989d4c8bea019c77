// Chapter 01's toy machine in JavaScript, for programs that the reader writes: the arithmetic of
// machine.cpp and the formulas of symbol.cpp. docs/test/toy_machine.model.test.mjs holds it, the
// parser and the check beside it to ch01_toy_machine.

// ---- formulas: { text, binding }, where binding says how tightly the outermost operation binds ----
const SUM = 0, PRODUCT = 1, ATOM = 2
const LONGEST = 400  // bytes
const bytes_of = (text) => new TextEncoder().encode(text).length

// The formula in at most `width` characters: a long sum keeps its first and last terms.
export function shortened(text, width) {
  const characters = [...text]
  if (characters.length <= width) return text
  const first = text.indexOf(' + '), last = text.lastIndexOf(' + ')
  if (first !== last) {
    const ends = `${text.slice(0, first)} + …${text.slice(last)}`
    if ([...ends].length <= width) return ends
  }
  const head = width >> 1, tail = width - head - 1
  return `${characters.slice(0, head).join('')}…${characters.slice(characters.length - tail).join('')}`
}

const made = (text, binding) =>
  bytes_of(text) > LONGEST ? { text: shortened(text, 60), binding: ATOM } : { text, binding }
const atom = (text) => ({ text, binding: ATOM })
const tight = (s, needed) => s.binding < needed ? `(${s.text})` : s.text
const listed = ({ text }) =>
  text.startsWith('max(') && text.indexOf(')') === text.length - 1 ? text.slice(4, -1) : text

const plus = (a, b) => made(`${a.text} + ${b.text}`, SUM)
const minus = (a, b) => made(`${a.text} − ${tight(b, PRODUCT)}`, SUM)
const times = (a, b) => made(`${tight(a, PRODUCT)}·${tight(b, PRODUCT)}`, PRODUCT)
const over = (a, b) => made(`${tight(a, PRODUCT)}/${tight(b, ATOM)}`, PRODUCT)
const larger = (a, b) => made(`max(${listed(a)}, ${listed(b)})`, ATOM)
const e_to = (a) => made(`e^${tight(a, ATOM)}`, ATOM)

// A number as the program's tables show it: six digits, whole numbers in full, NaN, Inf.
export function number_text(value) {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? 'Inf' : '-Inf'
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return Object.is(value, -0) ? '-0' : String(value)
  const exponent = +value.toExponential(5).split('e')[1]
  if (exponent >= -4 && exponent < 6) return value.toPrecision(6).replace(/\.0+$|(\.\d*[1-9])0+$/, '$1')
  const [digits, sign, power] = value.toExponential(5).split(/e([+-])/)
  return `${digits.replace(/\.?0+$/, '')}e${sign}${power.padStart(2, '0')}`
}

// ---- the instructions ----
export const f32 = Math.fround
const MAC = ['mac'], ALU = ['alu'], BOTH = ['mac', 'alu']
export const OPS = {
  LOAD: { sources: 0, on: BOTH, flops: 0, form: 'LOAD cell, Rd' },
  STORE: { sources: 1, on: BOTH, flops: 0, form: 'STORE Rs, cell' },
  MAC_Z: { sources: 2, on: MAC, flops: 2, form: 'MAC_Z R0, R1, Rd', symbol: times,
    number: (a, b) => f32(a * b) },
  MAC: { sources: 3, on: MAC, flops: 2, form: 'MAC R0, R1, Ra, Rd', symbol: (a, b, c) => plus(c, times(a, b)),
    number: (a, b, c) => f32(f32(a * b) + c) },
  MAX: { sources: 2, on: ALU, flops: 1, form: 'MAX Ra, Rb, Rd', symbol: larger,
    number: (a, b) => Number.isNaN(a) || a > b ? a : b },
  SUB: { sources: 2, on: ALU, flops: 1, form: 'SUB Ra, Rb, Rd', symbol: minus, number: (a, b) => f32(a - b) },
  EXP: { sources: 1, on: ALU, flops: 1, form: 'EXP Ra, Rd', symbol: e_to, number: (a) => f32(Math.exp(a)) },
  ADD: { sources: 2, on: ALU, flops: 1, form: 'ADD Ra, Rb, Rd', symbol: plus, number: (a, b) => f32(a + b) },
  MUL: { sources: 2, on: ALU, flops: 1, form: 'MUL Ra, Rb, Rd', symbol: times, number: (a, b) => f32(a * b) },
  DIV: { sources: 2, on: ALU, flops: 1, form: 'DIV Ra, Rb, Rd', symbol: over, number: (a, b) => f32(a / b) },
  MOV: { sources: 1, on: ALU, flops: 0, form: 'MOV Rs, Rd', symbol: (a) => a, number: (a) => a },
}
export const size_of = (array) => array.shape.reduce((a, b) => a * b, 1)
const subscripts = ({ shape }, index) =>
  shape.length === 1 ? [index] : [Math.floor(index / shape[1]), index % shape[1]]
export const cell_text = (array, index) => array.name + subscripts(array, index).map((i) => `[${i}]`).join('')
const cell_symbol = (array, index) =>
  array.name + subscripts(array, index).join(Math.max(...array.shape) > 10 ? ',' : '')

export function instruction_text(program, { op, registers, cell }) {
  const place = cell && cell_text(program.arrays[cell.array], cell.index)
  const names = registers.map((r) => `R${r}`)
  const operands = op === 'LOAD' ? [place, ...names] : op === 'STORE' ? [...names, place] : names
  return `${op} ${operands.join(', ')}`
}

// Runs a program that validate() let pass, one instruction for each next(). Always the same object:
// `registers` and `dram` hold { number, symbol, since, uses } (cycle of writing, operand of how many
// instructions) or null; `reads[array][cell]` counts; `formula` is what a `-> name` hides. `known` are
// the numbers that the C++ machine put into the destinations, to be taken instead of computing.
export function* run(program, known = []) {
  const dram = program.arrays.map((array) => Array.from({ length: size_of(array) }, (_, i) =>
    array.is_input ? { number: array.values[i], symbol: atom(cell_symbol(array, i)) } : null))
  const reads = dram.map((cells) => cells.map(() => 0))
  const state = { registers: Array(program.registers).fill(null), dram, reads, formula: '',
    cost: { cycles: 0, loads: 0, stores: 0, macs: 0, flops: 0, passes: 0 } }
  yield state
  for (const { op, registers: r, cell, name } of program.instructions) {
    const { registers, cost } = state
    const kind = OPS[op]
    cost.flops += kind.flops
    cost.macs += op.startsWith('MAC')
    state.formula = ''
    if (op === 'STORE') {
      cost.stores++
      registers[r[0]].uses++
      dram[cell.array][cell.index] = registers[r[0]]
    } else {
      let value
      if (op === 'LOAD') {
        cost.loads++
        value = dram[cell.array][cell.index]
        const times_read = ++reads[cell.array][cell.index]
        if (program.arrays[cell.array].is_input) cost.passes = Math.max(cost.passes, times_read)
      } else {
        const sources = r.slice(0, kind.sources).map((source) => registers[source])
        for (const source of new Set(sources)) source.uses++
        value = { number: kind.number(...sources.map((s) => s.number)),
          symbol: kind.symbol(...sources.map((s) => s.symbol)) }
      }
      let { number, symbol } = value
      if (name) {
        state.formula = symbol.text
        symbol = atom(name)
      }
      registers[r.at(-1)] = { number: known[cost.cycles] ?? number, symbol, since: cost.cycles + 1, uses: 0 }
    }
    cost.cycles++
    yield state
  }
}
