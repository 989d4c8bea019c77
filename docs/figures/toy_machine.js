// The toy machine, one instruction at a time: what each register holds, where from, for how long, and
// what it has cost so far. The shipped programs show the program's numbers, the reader's own the model's.
import { el, group, line, rect, svg, text, WIDE } from './draw.js'
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

// Programs for one and the same 2 × 2 product: from 28 cycles to the floor.
const BOARD = ['four_elements:3', 'best:3', 'best:4', 'best:6', 'inner_product_6:6']
const cycles_of = (data, key) => {
  const [choice, registers] = key.split(':')
  return parse(data.programs[choice === 'best' ? `best_${registers}` : choice].text).instructions.length
}
const BOARD_WORDS = [['each on its own', 'alone'], ['3 registers', '3 reg.'], ['4 registers', '4 reg.'],
  ['6 registers', '6 reg.'], ['6, any operands', '6, any']]

function draw_scoreboard(data, { choice, registers }, width) {
  const here = BOARD.findIndex((key) => key === `${choice}:${registers}` || key === `best:${registers}`
    && choice === 'inner_product' && registers === 3)
  if (here < 0 && !['four_elements', 'inner_product', 'inner_product_6', 'outer_product',
    'best'].includes(choice)) {
    return { height: 0, parts: [] }
  }
  const cell = width / BOARD.length, wide = cell > 100
  return { height: 56, parts: [line(0, 1, width, 2),
    text(0, 15, 'the same 2 × 2 product, in cycles', { class: 'small muted' }),
    BOARD.map((key, i) => el('g', { 'data-focus': `board:${key}` }, [
      rect(i * cell + 1, 20, cell - 4, 35, { class: i === here ? 'soft-f on' : 'soft', rx: 4 }),
      text(i * cell + 8, wide ? 43 : 36, cycles_of(data, key), { class: 'large strong', name: `board_${i}` }),
      text(i * cell + (wide ? 34 : 8), wide ? 42 : 51, BOARD_WORDS[i][wide ? 0 : 1], { class: 'small' })]))] }
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

  parts: (data, state, width) => width >= WIDE ? null
    : [['machine', 'machine'], ['program', 'program and cost']],
  focus(data, state, key) {
    const [, choice, registers] = key.split(':')
    return { ...state, focus: key, choice, shown: choice, step: 0, registers: +registers }
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
    const { part } = state
    const parts = part === 'program' ? [] : [
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
    const board = draw_scoreboard(data, state, width - 4),
      cost = draw_cost(view, machine, state.step, width - 4)
    if (part === 'machine') return svg(width, height + 4, stacked(2, 0, parts))
    const listing = wide ? draw_listing(view, state.step, 232, Math.floor((height - 38) / 20))
      : draw_listing(view, state.step, width - 4, part ? 12 : 7)
    const top = wide ? height + 10 : listing.height + 10 + (part ? 0 : height + 14)
    return svg(width, top + cost.height + board.height, [
      ...stacked(2, 0, [listing]), ...part ? [] : stacked(wide ? 254 : 2, wide ? 0 : listing.height + 10,
        parts),
      ...stacked(2, top, [cost, board])])
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
