// The parts of the figure of the toy machine. Each is { height, parts }, with its upper left corner
// at 0, 0.
import { line, path, rect, svg, text } from './draw.js'

const SHOWN_CELLS = 64, SHOWN_REGISTERS = 16  // a reader's program can have more

// Returns a formula in at most `width` characters. A long sum keeps its first and last terms, as in
// the program's tables.
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

export const computes = (step) => step && !['LOAD', 'STORE'].includes(step.op)

const WORDS = {
  MAC_Z: (a, b) => `${a} · ${b}`, MAC: (a, b, c) => `${a} · ${b} + ${c}`, MAX: (a, b) => `max(${a}, ${b})`,
  SUB: (a, b) => `${a} − ${b}`, EXP: (a) => `e^(${a})`, ADD: (a, b) => `${a} + ${b}`,
  MUL: (a, b) => `${a} · ${b}`, DIV: (a, b) => `${a} / ${b}`, MOV: (a) => `copy of ${a}`,
}

// Returns the last instruction in numbers: 2 · 7 + 5 = 19.
export const computed = ({ step, operands }) => `${WORDS[step.op](...operands)} = ${step.number}`

// Inputs are blue, orange and green, and the output is purple.
const kind_of = (arrays, array) => arrays[array].input
  ? 'abc'[arrays.slice(0, array).filter(({ input }) => input).length] ?? 'a' : 'd'
const clipped = (words, length) => words.length > length ? `${words.slice(0, length - 1)}…` : words

export function draw_listing({ steps, source }, step, width, rows) {
  const header = source.split('\n').findLastIndex((words) => /^\s*[.\d]/.test(words))
  const at_line = new Map(steps.map((one, i) => [one.line, { ...one, step: i + 1 }]))
  const items = source.split('\n').flatMap((words, i) => {
    const comment = i > header && words.match(/^\s*#\s*(.*)/)
    return at_line.get(i + 1) ?? (comment ? { comment: comment[1] } : [])
  })
  const here = items.findIndex((item) => item.step === Math.max(step, 1))
  const first = Math.max(0, Math.min(here - (rows >> 1), items.length - rows))
  const parts = [text(0, 14, 'program', { class: 'strong' })]
  items.slice(first, first + rows).forEach((item, i) => {
    const y = 22 + i * 20
    if (item.comment !== undefined) {
      const words = clipped(item.comment, Math.floor(width / 6.4 - 5))
      return parts.push(text(34, y + 14, words, { class: 'small muted' }))
    }
    const now = item.step === step, words = item.instruction + (item.formula ? ` → ${item.symbol}` : '')
    if (now) parts.push(rect(0, y, width, 20, { class: 'soft-f', rx: 3 }))
    const shade = now ? 'strong' : item.step > step ? 'muted' : ''
    parts.push(text(24, y + 14, item.step, { class: `small end ${shade}` }),
      text(34, y + 14, clipped(words, (width - 34) / 7.8 | 0), { class: `mono ${shade}` }))
  })
  const hidden = items.length - first - rows
  if (hidden > 0) parts.push(text(34, 22 + rows * 20 + 12, `… ${hidden} more`, { class: 'small muted' }))
  return { height: 22 + rows * 20 + 16, parts }
}

export function draw_dram({ arrays }, machine, last, width) {
  const parts = [text(0, 14, 'DRAM', { class: 'strong' }),
    text(50, 14, 'large, far away; 2×: read twice', { class: 'muted small' })]
  const touched = machine.step?.cell
  let x = 0, y = 22, tallest = 0
  arrays.forEach((array, a) => {
    const cells = machine.dram[a].slice(0, SHOWN_CELLS)
    const finals = last.dram[a].slice(0, SHOWN_CELLS)
    const longest = Math.max(1, ...finals.map((cell) => cell?.length ?? 0))
    const small = longest > 6, cell_width = Math.max(28, longest * (small ? 6.4 : 7.4) + 8)
    const fit = Math.floor(width / cell_width), [columns] = array.shape.slice(-1)
    const wanted = columns > 1 && columns <= fit ? columns : cells.length
    const across = Math.ceil(wanted / Math.ceil(wanted / fit))
    const down = Math.ceil(cells.length / across)
    if (x > 0 && x + across * cell_width > width) [x, y, tallest] = [0, y + tallest + 6, 0]
    const color = kind_of(arrays, a), label = `${array.name}${array.shape.map((n) => `[${n}]`).join('')}`
    const more = machine.dram[a].length - cells.length
    parts.push(text(x + 1, y + 13, more ? `${label}, the first ${cells.length}` : label,
      { class: `small strong mono ${color}` }))
    cells.forEach((cell, i) => {
      const cx = x + i % across * cell_width, cy = y + 18 + Math.floor(i / across) * 32
      const now = touched?.array === a && touched.index === i
      const shade = now ? 'soft-f on' : cell ? `soft-${color}` : 'cell', reads = machine.reads[a][i]
      parts.push(rect(cx + 1, cy + 1, cell_width - 2, 30, { class: shade, rx: 3 }))
      if (cell) {
        parts.push(text(cx + cell_width / 2, cy + 15, cell,
          { class: `middle${small ? ' small' : ''}`, name: `dram_${array.name}_${i}` }))
      }
      if (reads) {
        parts.push(text(cx + cell_width / 2, cy + 27, `${reads}×`,
          { class: `small middle ${reads > 1 ? 'strong' : 'muted'}` }))
      }
    })
    tallest = Math.max(tallest, 18 + down * 32)
    x += Math.max(across * cell_width, label.length * 6.8) + 12
  })
  return { height: y + tallest + 4, parts }
}

// Draws two arrows, down and up, with their words. `used` selects the highlighted one: 'down',
// 'up', 'both' or nothing.
export function draw_links(width, [down, up], used) {
  const arrow = (x, y0, y1, on) => {
    const tip = y1 > y0 ? -5 : 5
    return [line(x, y0, x, y1, { class: on ? 'line-f' : 'axis' }),
      path([[x - 4, y1 + tip], [x, y1], [x + 4, y1 + tip]], { class: on ? 'line-f' : 'axis' })]
  }
  const shade = (on) => on ? 'strong' : 'muted'
  return { height: 30, parts: [
    ...arrow(12, 2, 26, used !== 'up' && used), text(24, 19, down, { class: shade(used !== 'up' && used) }),
    ...arrow(width / 2, 26, 2, used !== 'down' && used),
    text(width / 2 + 12, 19, up, { class: shade(used !== 'down' && used) })] }
}

export function draw_registers(machine, width) {
  const wide = width > 400
  const [number_at, used_at] = wide ? [width - 158, width - 8] : [width - 72, width - 6]
  const parts = [text(0, 14, 'registers', { class: 'strong' }),
    text(72, 14, 'few, close', { class: 'muted small' })]
  const { reads: read = [], writes: written, formula: named } = machine.step ?? {}
  // Many registers are closer together.
  const count = machine.registers.length, pitch = count > 5 ? 20 : 30, tall = pitch - 4
  machine.registers.slice(0, SHOWN_REGISTERS).forEach((register, r) => {
    const y = 22 + r * pitch, words = y + tall / 2 + 5
    const shade = `${r === written ? 'soft-f' : register ? 'soft' : 'cell'}${read.includes(r) ? ' on' : ''}`
    parts.push(rect(1, y + 1, width - 2, tall, { class: shade, rx: 3 }),
      text(10, words, `R${r}`, { class: 'strong mono' }))
    if (!register) return parts.push(text(40, words, 'empty', { class: 'muted' }))
    const { number, symbol } = register, formula = named && r === written ? `${symbol} = ${named}` : symbol
    const characters = Math.floor((number_at - 48 - number.length * 9) / 7.8)
    const used = register.uses ? `used ${register.uses}×` : 'not used'
    parts.push(text(40, words, shortened(formula, characters), { class: 'mono', name: `symbol_${r}` }),
      text(number_at, words, number, { class: 'end strong', name: `register_${r}` }),
      text(used_at, words, wide ? `since cycle ${register.since}, ${used}` : used,
        { class: 'end small muted' }))
  })
  const more = machine.registers.length - SHOWN_REGISTERS
  const rows = Math.min(machine.registers.length, SHOWN_REGISTERS)
  if (more > 0) parts.push(text(10, 22 + rows * pitch + 14, `and ${more} more`, { class: 'muted' }))
  return { height: 22 + rows * pitch + (more > 0 ? 20 : 0), parts }
}

export function draw_compute(view, machine, width) {
  const { step } = machine
  const unit = view.machine === 'mac' ? 'MAC unit' : 'ALU'
  const parts = [rect(1, 1, width - 2, 34, { class: computes(step) ? 'soft-c' : 'cell', rx: 3 }),
    text(10, 23, unit, { class: 'strong' })]
  if (computes(step)) {
    parts.push(text(84, 23, computed(machine), { class: 'large', name: 'computed' }))
  } else parts.push(text(84, 23, step ? 'idle: a number is on its way' : 'idle', { class: 'muted' }))
  return { height: 40, parts }
}

export function draw_cost({ machine: kind, steps, passed, sentence }, { cost }, step, width) {
  const parts = [text(0, 14, `cycle ${step} of ${steps.length}`, { class: 'strong' }),
    text(width, 14, 'tall: computes, low: moves a number', { class: 'small muted end' })]
  const bar = Math.min(24, width / steps.length)
  steps.forEach((one, i) => {
    const height = computes(one) ? 26 : 11, done = i < step
    parts.push(rect(i * bar + 0.5, 46 - height, bar - (bar > 3 ? 1.5 : 0.5), height,
      { class: `${done ? (computes(one) ? 'c' : 'muted') : 'cell'}${i === step - 1 ? ' on' : ''}` }))
  })
  const other = cost.cycles - cost.loads - cost.stores - cost.macs
  const counts = [['cycles', cost.cycles], ['loads', cost.loads], ['stores', cost.stores],
    kind === 'mac' ? ['MACs', cost.macs, 'macs'] : ['ALU', other, 'alu'],
    ['bytes moved', 4 * (cost.loads + cost.stores), 'bytes']]
  counts.forEach(([label, count, name = label], i) => parts.push(
    text(i * width / 5.3, 70, count, { class: 'large strong', name }),
    text(i * width / 5.3, 85, label, { class: 'small muted' })))
  const done = step === steps.length
  const result = `${passed ? '' : 'wrong: '}${sentence}`
  const shown = done ? clipped(result, Math.floor(width / 7.5)) : 'The result is checked at the end.'
  parts.push(text(0, 106, shown,
    { class: done ? (passed ? 'c strong' : 'e strong') : 'muted', name: 'verdict' }))
  return { height: 112, parts }
}

// Draws the line that the machine rejects, its neighbours, and the reason.
export function draw_problem({ heading, problem, line: number, source }, width) {
  const parts = [text(0, 14, heading, { class: 'strong e' })]
  let y = 26
  source.split('\n').forEach((words, i) => {
    if (!number || Math.abs(i + 1 - number) > 3) return
    if (i + 1 === number) parts.push(rect(0, y, width, 20, { class: 'soft-e', rx: 3 }))
    parts.push(text(24, y + 14, i + 1, { class: 'small end muted' }), text(34, y + 14,
      clipped(words, (width - 34) / 7.8 | 0), { class: `mono ${i + 1 === number ? 'strong' : 'muted'}` }))
    y += 20
  })
  const words = problem.split(' ').reduce((lines, word) => {
    if ((lines.at(-1) + word).length * 7 > width) lines.push('')
    lines[lines.length - 1] += `${word} `
    return lines
  }, [''])
  words.forEach((part, i) => parts.push(text(0, y + 22 + i * 20, part.trim(), { class: 'e' })))
  return svg(width, y + 30 + words.length * 20, parts)
}
