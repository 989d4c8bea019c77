// The toy machine, one instruction at a time, with the content of each register with its origin and lifetime, and
// the cost so far. Every number and formula comes from ch01_toy_machine: stored output, or the output in the page
// for the reader's program.
import { el, group, line, rect, svg, text, WIDE } from './draw.js'
import { computed, computes, draw_compute, draw_cost, draw_dram, draw_links, draw_listing, draw_problem,
  draw_registers, shortened } from './toy_machine_draw.js'

const PROGRAMS = { element: 'one element', four_elements: 'four elements', inner_product: 'inner product',
  inner_product_6: 'inner product, any operands', outer_product: 'outer product', best: 'fewest cycles',
  safe_softmax: 'safe softmax', online_softmax: 'online softmax', attention: 'attention', own: 'your own' }
const SHIPPED = Object.keys(PROGRAMS).filter((name) => !['best', 'own'].includes(name))
const REGISTERS = [2, 3, 4, 5, 6, 7, 8]  // those of the optimum's programs

// Returns a report of the program without the parts that are not drawn. Each step keeps only the
// number and the formula that it wrote.
const kept = (source, { machine, register_count, arrays, steps, check }) => ({ source, machine,
  registers: register_count, arrays, passed: check.passed,
  sentence: check.first_bad || check.broken_promise || 'agrees with the direct computation in float64',
  steps: steps.map(({ op, instruction, line, reads, writes, number, cell, symbols, formula }) => ({ op, instruction,
    line, reads, ...cell && { cell }, ...writes !== undefined && { writes, number, symbol: symbols[writes] },
    ...formula && { formula } })) })

// Returns two commands for each program, one for its text and one to run it.
const sources_of = (name) => ({ [`${name}_text`]: ['ch01_toy_machine', 'run', name, '--print'],
  [name]: ['ch01_toy_machine', 'run', name, '--json', '{json}'] })
const optimum_of = (count) => ({ [`best_${count}`]: ['ch01_toy_machine', 'optimum', '--registers', `${count}`, '--json', '{json}'] })

// ---- what the choice stands for ----

const FILE = 'own.txt'
const recorded = (data, { choice, registers }) => data.programs[choice === 'best' ? `best_${registers}` : choice]
const refused = (problem, source, line) => ({ heading: 'The machine refuses this program', problem, source, line })

// A program that was not run with so few registers, or the reader's program. The page must run it.
function live(data, { choice, registers, program }) {
  const own = choice === 'own', known = own ? data.programs.element : recorded(data, { choice, registers })
  if (own ? program === known.source : !known.steps || registers >= known.registers) return null
  const source = own ? program : known.source, key = own ? program : `${choice}:${registers}`
  if (data.live?.key === key) return null
  return { key, source, request: { chapter: 1, command: ['run', FILE], files: { [FILE]: source }, ...!own && { registers } } }
}

function heard(data, { key, source }, { error, report }) {
  const [, line, column, what] = new RegExp(`^${FILE}:(\\d+):(\\d+): ([^]*)$`).exec(error) ?? []
  const view = report ? kept(source, report)
    : line ? refused(`line ${line}, column ${column}: ${what}`, source, +line)
      : refused(error.replace(`${FILE}: `, ''), source)
  return { ...data, live: { key, view } }
}

// Returns the run to draw, or { heading, problem, line } if there is none.
function loaded(data, state) {
  const { choice, registers } = state, wanted = live(data, state)
  if (wanted) {
    // While the reader types, keep the previous state.
    return choice === 'own' && data.live || { view: refused('it was not run: only the page can', wanted.source) }
  }
  if (choice === 'own') return data.live?.key === state.program ? data.live : { view: data.programs.element }
  if (data.live?.key === `${choice}:${registers}`) return data.live
  const known = recorded(data, state)
  if (known.impossible) return { view: { heading: 'There is no such program', problem: known.impossible, source: '' } }
  return { view: { ...known, registers } }
}
const view_of = (data, state) => loaded(data, state).view
const steps_of = (view) => view.steps?.length ?? 0
const own_registers = (data, choice) => data.programs[choice]?.registers ?? 4

// ---- the machine after `count` steps, computed from their reads and writes ----

function machine_at({ arrays, registers: size, steps }, count) {
  const dram = arrays.map(({ shape, input, values }) =>
    Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => input ? values[i] : null))
  const reads = dram.map((cells) => cells.map(() => 0)), registers = Array(size).fill(null)
  const cost = { cycles: count, loads: 0, stores: 0, macs: 0 }
  let operands = []
  steps.slice(0, count).forEach(({ op, reads: read, writes, number, symbol, cell }, i) => {
    operands = read.map((r) => registers[r].number)
    for (const r of new Set(read)) registers[r] = { ...registers[r], uses: registers[r].uses + 1 }
    if (op === 'LOAD') reads[cell.array][cell.index]++
    if (op === 'STORE') dram[cell.array][cell.index] = operands[0]
    else registers[writes] = { number, symbol, since: i + 1, uses: 0 }
    cost.loads += op === 'LOAD'
    cost.stores += op === 'STORE'
    cost.macs += op.startsWith('MAC')
  })
  return { registers, dram, reads, cost, operands, step: steps[count - 1] }
}

// Programs for the same 2 × 2 product, from 28 cycles to the minimum.
const BOARD = ['four_elements:3', 'best:3', 'best:4', 'best:6', 'inner_product_6:6']
const cycles_of = (data, key) => {
  const [choice, registers] = key.split(':')
  return recorded(data, { choice, registers }).steps.length
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
  sources: Object.assign({}, ...SHIPPED.map(sources_of), ...REGISTERS.map(optimum_of)),
  data: (outputs) => ({ programs: Object.fromEntries([
    ...SHIPPED.map((name) => [name, kept(outputs[`${name}_text`], outputs[name])]),
    ...REGISTERS.map((count) => [`best_${count}`, outputs[`best_${count}`].possible
      ? kept(outputs[`best_${count}`].text, outputs[`best_${count}`])
      : { impossible: 'impossible: a MAC reads two operands and a partial sum, three registers at once' }])]) }),
  stills: { 'chapters/01_toy_machine/figures/toy_machine.svg': { step: 6 } },
  initial: (data) => ({ choice: 'element', shown: 'element', registers: 3, step: 0,
    program: data.programs.element.source }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'step', type: 'step', label: 'cycle', min: 0, max: steps_of(view_of(data, state)), play: 700 },
    { key: 'choice', type: 'choice', label: 'program', options: Object.entries(PROGRAMS) },
    ...(state.choice === 'own' ? [{ key: 'program', type: 'text', label: 'your program', rows: 16 }]
      : [{ key: 'registers', type: 'step', label: 'registers', min: 2, max: 8 }]),
  ],
  // Another program starts from its beginning, with the registers that it needs.
  settle(data, state) {
    const next = state.choice === state.shown ? state
      : { ...state, shown: state.choice, step: 0, registers: own_registers(data, state.choice) }
    return { ...next, step: Math.min(next.step, steps_of(view_of(data, next))) }
  },

  parts: (data, state, width) => width >= WIDE ? null
    : [['machine', 'machine'], ['program', 'program and cost']],
  focus(data, state, key) {
    const [, choice, registers] = key.split(':')
    return { ...state, focus: key, choice, shown: choice, step: 0, registers: +registers }
  },

  draw(data, state, width) {
    const view = view_of(data, state)
    if (view.problem) return draw_problem(view, width)
    const wide = width >= WIDE, machine_width = wide ? 464 : width - 4
    const machine = machine_at(view, state.step), last = machine_at(view, view.steps.length)
    const { op, cell, writes, reads } = machine.step ?? {}
    const place = cell?.name, register = `R${writes ?? reads?.[0]}`
    const moves = { LOAD: 'down', STORE: 'up' }[op]
    const { part } = state
    const parts = part === 'program' ? [] : [
      draw_dram(view, machine, last, machine_width),
      draw_links(machine_width, [moves === 'down' ? `LOAD ${place} → ${register}` : 'LOAD',
        moves === 'up' ? `STORE ${register} → ${place}` : 'STORE'], moves),
      draw_registers(machine, machine_width),
      draw_links(machine_width, ['operands', computes(machine.step) ? `result → ${register}` : 'result'],
        computes(machine.step) && 'both'),
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
    const view = view_of(data, state)
    if (view.problem) return `${view.heading}: ${view.problem}.`
    const machine = machine_at(view, state.step), { step, cost } = machine
    const others = cost.cycles - cost.loads - cost.stores
    const counts = `loads ${cost.loads}, stores ${cost.stores}, `
      + `${view.machine === 'mac' ? 'MACs' : 'ALU operations'} ${others}`
    const held = machine.registers.flatMap((register, r) => register
      ? `R${r} = ${shortened(register.symbol, 40)} = ${register.number}` : []).join('; ')
    const head = `Cycle ${state.step} of ${view.steps.length}`
    if (!step) return `${head}: nothing has run yet; ${view.registers} registers, all empty.`
    const result = computes(step) ? `: ${computed(machine)}` : ''
    return `${head}: ${step.instruction}${result}. ${held}. So far ${counts}.`
      + (state.step === view.steps.length ? ` Result: ${view.sentence}.` : '')
  },
}
