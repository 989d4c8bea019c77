// The toy machine, one instruction at a time: what each register holds, where from, for how long, and
// what it has cost so far. The shipped programs show the program's numbers, the reader's own the model's.
import { group, svg, WIDE } from './draw.js'
import { verdict } from './toy_machine_check.js'
import { computed, computes, draw_compute, draw_cost, draw_dram, draw_links, draw_listing, draw_problem,
  draw_registers } from './toy_machine_draw.js'
import { cell_text, instruction_text, number_text, OPS, run, shortened } from './toy_machine_model.js'
import { parse, TraceError, validate } from './toy_machine_parser.js'

const PROGRAMS = { element: 'one element', four_elements: 'four elements', inner_product: 'inner product',
  inner_product_6: 'inner product, any operands', outer_product: 'outer product', best: 'fewest cycles',
  safe_softmax: 'safe softmax', online_softmax: 'online softmax', attention: 'attention', own: 'your own' }
const SHIPPED = Object.keys(PROGRAMS).filter((name) => !['best', 'own'].includes(name))
const REGISTERS = [2, 3, 4, 5, 6, 7, 8]  // of the optimum's programs

// Its text, and the number that each instruction put into its destination; null where nothing ran.
const kept = (printed, { steps }) => {
  if (!steps) return { text: printed }
  const { instructions } = parse(printed)
  return { text: printed, known: steps.map(({ registers }, i) =>
    instructions[i].op === 'STORE' ? null : registers[instructions[i].registers.at(-1)]) }
}
// Two commands for each program: its text, and what running it gave. `optimum` prints its text anyway.
const sources_of = (name, words, print) => ({
  [`${name}_text`]: ['ch01_toy_machine', ...words, ...print],
  [name]: ['ch01_toy_machine', ...words, '--json', '{json}'] })
const NAMES = [...SHIPPED, ...REGISTERS.map((registers) => `best_${registers}`)]

// What the choice stands for: { program, known, … }, or { heading, problem, line } if it cannot run.
function loaded(data, { choice, registers, program: own }) {
  const { text: source, known } = choice === 'own' ? { text: own }
    : data.programs[choice === 'best' ? `best_${registers}` : choice]
  if (source.startsWith('impossible')) {
    return { heading: 'There is no such program', problem: source.trim().split(';')[0], source: '' }
  }
  try {
    const program = parse(source)
    if (choice !== 'own') program.registers = registers
    validate(program)
    return { program, known, source, ...played(program, known) }
  } catch (error) {
    if (!(error instanceof TraceError)) throw error
    const { line, column, message } = error
    return { heading: 'The machine refuses this program', line, source,
      problem: line ? `line ${line}, column ${column}: ${message}` : message }
  }
}
const own_registers = (data, choice) => +(data.programs[choice]?.text.match(/\.registers (\d+)/)?.[1] ?? 4)

function played(program, known) {
  let last
  for (last of run(program, known)) ;
  return { last, steps: program.instructions.length, outcome: verdict(program, last) }
}

// The machine after `step` instructions, the last of them, and the numbers that it read.
function machine_at({ program, known }, step) {
  const machine = run(program, known)
  let at = machine.next().value, operands = []
  for (let i = 0; i < step; ++i) {
    const { op, registers } = program.instructions[i]
    operands = registers.slice(0, OPS[op].sources).map((r) => at.registers[r].number)
    at = machine.next().value
  }
  return { ...at, operands, instruction: program.instructions[step - 1] }
}

export default {
  title: 'The toy machine, one instruction at a time',
  sources: Object.assign({}, ...SHIPPED.map((name) => sources_of(name, ['run', name], ['--print'])),
    ...REGISTERS.map((count) => sources_of(`best_${count}`, ['optimum', '--registers', `${count}`], []))),
  data: (outputs) => ({ programs: Object.fromEntries(
    NAMES.map((name) => [name, kept(outputs[`${name}_text`], outputs[name])])) }),
  stills: { 'chapters/01_toy_machine/figures/toy_machine.svg': { step: 6 } },
  initial: (data) => ({ choice: 'element', shown: 'element', registers: 3, step: 0,
    program: data.programs.element.text }),

  controls: (data, state) => [
    { key: 'step', type: 'step', label: 'cycle', min: 0, max: loaded(data, state).steps ?? 0, play: 700 },
    { key: 'choice', type: 'choice', label: 'program', options: Object.entries(PROGRAMS) },
    ...(state.choice === 'own' ? [{ key: 'program', type: 'text', label: 'your program', rows: 16 }]
      : [{ key: 'registers', type: 'step', label: 'registers', min: 2, max: 8 }]),
  ],
  // Another program starts from its beginning, with the registers that it needs.
  settle(data, state) {
    const next = state.choice === state.shown ? state
      : { ...state, shown: state.choice, step: 0, registers: own_registers(data, state.choice) }
    return { ...next, step: Math.min(next.step, loaded(data, next).steps ?? 0) }
  },

  draw(data, state, width) {
    const view = loaded(data, state)
    if (view.problem) return draw_problem(view, width)
    const wide = width >= WIDE, machine_width = wide ? 464 : width - 4
    const machine = machine_at(view, state.step)
    const { instruction } = machine, { cell } = instruction ?? {}
    const place = cell && cell_text(view.program.arrays[cell.array], cell.index)
    const moves = { LOAD: 'down', STORE: 'up' }[instruction?.op]
    const register = `R${instruction?.registers.at(-1)}`
    const parts = [
      draw_dram(view, machine, machine_width),
      draw_links(machine_width, [moves === 'down' ? `LOAD ${place} → ${register}` : 'LOAD',
        moves === 'up' ? `STORE ${register} → ${place}` : 'STORE'], moves),
      draw_registers(view, machine, machine_width),
      draw_links(machine_width, ['operands', computes(instruction) ? `result → ${register}` : 'result'],
        computes(instruction) && 'both'),
      draw_compute(view, machine, machine_width)]
    const stacked = (x, y, blocks) => blocks.map((block) => {
      const drawn = group(x, y, block.parts)
      y += block.height
      return drawn
    })
    const height = parts.reduce((sum, { height: one }) => sum + one, 0)
    const listing = wide ? draw_listing(view, state.step, 232, Math.floor((height - 38) / 20))
      : draw_listing(view, state.step, width - 4, 7)
    const top = wide ? height + 18 : listing.height + 10 + height + 14
    return svg(width, top + 124, [
      ...stacked(2, 0, [listing]), ...stacked(wide ? 254 : 2, wide ? 0 : listing.height + 10, parts),
      ...stacked(2, top, [draw_cost(view, machine, state.step, width - 4)])])
  },

  describe(data, state) {
    const view = loaded(data, state)
    if (view.problem) return `${view.heading}: ${view.problem}.`
    const machine = machine_at(view, state.step)
    const { instruction, cost, operands } = machine
    const others = cost.cycles - cost.loads - cost.stores
    const counts = `loads ${cost.loads}, stores ${cost.stores}, `
      + `${view.program.machine === 'mac' ? 'MACs' : 'ALU operations'} ${others}`
    const held = machine.registers.flatMap((register, r) => register
      ? `R${r} = ${shortened(register.symbol.text, 40)} = ${number_text(register.number)}` : []).join('; ')
    const head = `Cycle ${state.step} of ${view.steps}`
    if (!instruction) return `${head}: nothing has run yet; ${machine.registers.length} registers, all empty.`
    const result = computes(instruction) ? `: ${computed(instruction, operands, machine)}` : ''
    return `${head}: ${instruction_text(view.program, instruction)}${result}. ${held}. So far ${counts}.`
      + (state.step === view.steps ? ` Result: ${view.outcome.sentence}.` : '')
  },
}
