// The positions of the eight rows of an ldmatrix matrix in shared memory, and the cost of reading
// them.
import { layout_of } from './banks_formula.js'
import { el, group, line, rect, svg, text, WIDE, wrapped } from './draw.js'

const ORDERS = { plain: 'plain', padded: 'padded by 16 bytes', swizzled: 'swizzled',
  half_lines: 'XOR by half lines', own: 'your formula' }
const SLOTS = 8  // 16-byte chunks in a line of 32 banks

const width_of = (data, state) => data.widths.find((w) => w.row_bytes === state.row_bytes)
const slot_of = (address) => address / 16 % SLOTS
const layout_in = (data, state, order) =>
  order === 'own' ? layout_of(state.formula, state.row_bytes) : width_of(data, state).orders[order]
const panels = (data, state) => ['plain', 'padded', state.remedy]
  .map((order) => ({ order, layout: layout_in(data, state, order) }))

// ---- the kernels with the reader's shape, run in the page ----
const live = (data, state) => !state.shape.trim() || data.live?.key === state.shape.trim() ? null
  : { key: state.shape.trim(), request: { chapter: 4, shape: state.shape.trim(), profile: true } }
const heard = (data, { key }, { error, report }) => ({ ...data, live: { key, ...error ? { problem: error }
  : { counts: { '03': report.profile.previous, '04': report.profile } } } })
// Returns a line for each chapter, or the reason why there is none.
function kernels(data, state) {
  const shape = state.shape.trim().slice(0, 40)
  if (!shape) return {}
  const { counts, problem } = live(data, state) ? { problem: 'not run yet' } : data.live
  if (problem) return { problem: `shape ${shape}: ${problem}` }
  return { head: `Kernels at ${shape}: wavefronts of loads`, rows: Object.entries(counts).map(([chapter, count]) => {
    const { shared_load_wavefronts: all, shared_load_wavefronts_ideal: ideal } = count
    return [chapter, `chapter ${chapter}: ${all}, at best ${ideal}: × ${(all / ideal).toFixed(2)}`]
  }) }
}

// Returns how many rows of the chosen column are in each group of four banks.
const hits_of = (layout, column) => {
  const hits = Array(SLOTS).fill(0)
  layout.addresses.forEach((row) => hits[slot_of(row[column])]++)
  return hits
}

function draw_panel({ order, layout }, state, cell) {
  const parts = [text(0, 14, ORDERS[order], { class: 'strong' })]
  if (!layout) {
    return { height: 60, drawing: [...parts, text(0, 38, 'only for powers of two', { class: 'muted' })] }
  }
  if (layout.problem) {
    return { height: 120, drawing: [...parts, wrapped(layout.problem, 8 * cell).map((words, i) =>
      text(0, 38 + 18 * i, words, { class: 'e' }))] }
  }
  const top = 40, row_height = 20
  for (let slot = 0; slot < SLOTS; slot++) {
    parts.push(text((slot + 0.5) * cell, 33, slot * 4, { class: 'small muted middle' }))
  }
  const lines = 1 + Math.max(...layout.addresses.flat().map((address) => address >> 7))
  for (let row = 0; row < lines * SLOTS; row++) {
    parts.push(rect(row % SLOTS * cell, top + (row / SLOTS | 0) * row_height, cell, row_height,
      { class: 'cell' }))
  }
  const hits = hits_of(layout, state.column)
  layout.addresses.forEach((chunks, row) => chunks.forEach((address, chunk) => {
    const x = slot_of(address) * cell, y = top + (address >> 7) * row_height
    const asked = chunk === state.column
    const color = asked ? (hits[slot_of(address)] > 1 ? 'soft-e' : 'soft-c') : 'soft'
    const key = `${order}:${row},${chunk}`
    parts.push(el('g', { 'data-focus': key }, [
      rect(x + 1, y + 1, cell - 2, row_height - 2, { class: `${color}${state.focus === key ? ' on' : ''}` }),
      text(x + cell / 2, y + 14, `${row},${chunk}`,
        { class: `small middle ${asked ? 'strong' : 'muted'}` })]))
  }))
  const bottom = top + lines * row_height
  hits.forEach((count, slot) => {
    const shade = count > 1 ? 'e strong' : count ? 'c' : 'muted'
    parts.push(text((slot + 0.5) * cell, bottom + 16, count,
      { class: `small middle ${shade}`, name: `hits_${order}_${slot}` }))
  })
  const cost = layout.wavefronts[state.column]
  parts.push(text(0, bottom + 38, `${cost} wavefront${cost > 1 ? 's' : ''}`,
    { class: `strong ${cost > 1 ? 'e' : 'c'}`, name: `wavefronts_${order}` }))
  return { height: bottom + 46, drawing: parts }
}

// Returns the selected chunk, or row 1 of the column.
function pointed(data, state) {
  const [order, place] = (state.focus ?? '').split(':')
  const [row, chunk] = (place ?? '').split(',').map(Number)
  const found = panels(data, state).find((panel) => panel.order === order)
  const address = found?.layout?.addresses?.[row]?.[chunk]
  if (address !== undefined) return { order, row, chunk, address, layout: found.layout }
  const third = panels(data, state)[2], layout = third.layout?.addresses ? third.layout
    : panels(data, state)[0].layout
  return { order: layout === third.layout ? third.order : 'plain', row: 1, chunk: state.column, layout,
    address: layout.addresses[1][state.column] }
}

// Draws the bits of the number of the chunk, the XOR operand, the position in the row, the banks.
function draw_bits(data, state, width) {
  const { order, row, chunk, address, layout } = pointed(data, state), wide = width >= WIDE
  const places = state.row_bytes / 16, digits = Math.max(3, Math.ceil(Math.log2(places)))
  const place = order === 'padded' ? chunk : (address - row * state.row_bytes) / 16
  const bits = (number) => number.toString(2).padStart(digits, '0')
  const rows = [['chunk', chunk, 'b'], ['⊕ term of its row', place ^ chunk, 'a'],
    ['place in the row', place, 'c']]
  const left = wide ? 132 : 120
  const table = rows.map(([label, number, color], i) => [
    text(0, 36 + 19 * i, label, { class: 'small' }),
    [...bits(number)].map((bit, n) => text(left + 14 * n, 36 + 19 * i, bit,
      { class: `mono strong middle ${color}` })),
    text(left + 14 * digits + 8, 36 + 19 * i, `= ${number}`,
      { name: `bits_${['chunk', 'term', 'place'][i]}` })])
  const others = terms_of(pointed(data, state), state)
  return { height: wide ? 96 : 84, parts: [line(0, 0, width - 8, 0),
    text(0, 17, `${ORDERS[order]}: row ${row}, chunk ${chunk}`, { class: 'strong' }), table,
    line(left - 8, 60, left + 14 * digits, 60),
    wide ? [text(330, 17, 'term of each row, 0 to 7', { class: 'small muted' }),
      others.map((term, n) => [rect(330 + 45 * n, 24, 42, 22,
        { class: n === row ? 'soft-f on' : 'soft', rx: 3 }),
        text(351 + 45 * n, 39, term, { class: 'small mono middle', name: `term_${n}` })]),
      text(330, 68, new Set(others).size === 8 ? 'All eight differ: the column meets eight places.'
        : new Set(others).size === 1 ? 'All equal: XOR changes nothing between rows.'
          : `${new Set(others).size} different terms for eight rows, ${layout.wavefronts[chunk]} wavefronts.`,
        { class: 'small' }),
      text(330, 86, `Byte ${address} of shared memory: banks ${slot_of(address) * 4} to ${slot_of(address) * 4 + 3}.`,
        { class: 'small muted' })] : ''] }
}

// Returns the XOR operand of each row, or '–' if it is not the same for the whole row.
function terms_of({ order, layout }, { row_bytes }) {
  const start = (row) => order === 'padded' ? layout.addresses[row][0] : row * row_bytes
  return layout.addresses.map((addresses, row) => {
    const terms = new Set(addresses.map((address, chunk) => (address - start(row)) / 16 ^ chunk))
    return terms.size === 1 ? [...terms][0].toString(2).padStart(3, '0') : '–'
  })
}

export default {
  title: 'Which banks a column of eight rows hits',
  sources: { layout: ['ch04_banks', '--layout', '{json}'] },
  data: ({ layout }) => layout,
  stills: { 'chapters/04_swizzling/figures/banks.svg': {} },
  initial: () => ({ row_bytes: 128, column: 0, remedy: 'swizzled', formula: 'chunk ^ row', shape: '' }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'row_bytes', type: 'step', label: 'bytes in a row', min: 16, max: 256, step: 16 },
    { key: 'column', type: 'step', label: 'chunk that is read', min: 0, max: state.row_bytes / 16 - 1 },
    { key: 'remedy', type: 'choice', label: 'third panel',
      options: ['swizzled', 'half_lines', 'own'].map((order) => [order, ORDERS[order]]) },
    ...state.remedy === 'own'
      ? [{ key: 'formula', type: 'line', label: 'chunk of a row goes to place, from row and chunk' }] : [],
    { key: 'shape', type: 'line', label: 'kernels 03 and 04 at your shape' },
  ],
  // A narrower row may not have the chosen chunk.
  settle: (data, state) => ({ ...state, column: Math.min(state.column, state.row_bytes / 16 - 1) }),
  focus: (data, state, key) => ({ ...state, focus: key, column: +key.split(',')[1] }),

  parts: (data, state, width) => width >= WIDE ? null
    : panels(data, state).map(({ order }) => [order, order === 'padded' ? 'padded' : ORDERS[order]])
      .toReversed(),

  draw(data, state, width) {
    const wide = width >= WIDE, cell = wide ? 28 : 43
    let x = 4, height = 0
    const all = panels(data, state), shown = wide ? all
      : all.filter(({ order }) => order === (state.part ?? all[2].order))
    const drawing = shown.map((panel) => {
      const drawn = draw_panel(panel, state, cell)
      const placed = group(x, 0, drawn.drawing)
      height = Math.max(height, drawn.height)
      x += 8 * cell + 20
      return placed
    })
    const bits = draw_bits(data, state, width)
    const costs = wide ? '' : all.map(({ order, layout }, n) => text(4 + 118 * n, height + 8,
      `${order === 'padded' ? 'padded' : ['plain', 'swizzled'].includes(order) ? order : 'third'}: `
        + `${layout?.wavefronts?.[state.column] ?? 'none'}`,
      { class: 'small strong' }))
    const top = height + (wide ? 4 : 16)
    const { head, rows = [] } = kernels(data, state), below = top + bits.height
    return svg(width, below + (head ? 60 : 0), [drawing, costs, group(4, top, bits.parts),
      head ? text(4, below + 12, head, { class: 'small strong' }) : '',
      rows.map(([chapter, words], i) => text(4, below + 30 + 17 * i, words, { class: 'small', name: `kernel_${chapter}` }))])
  },

  describe(data, state) {
    const costs = panels(data, state).map(({ order, layout }) => layout?.wavefronts
      ? `${ORDERS[order]} ${layout.wavefronts[state.column]}` : `${ORDERS[order]} none`)
    const { problem: why, rows } = kernels(data, state)
    const said = rows ? `${rows.map(([, words]) => words).join('; ')}. `.replace(/^c/, 'C') : why ? `${why}. ` : ''
    const all = `${said}Rows of ${state.row_bytes} bytes, chunk ${state.column} of rows 0 to 7. `
      + `Wavefronts: ${costs.join(', ')}.`
    const problem = state.remedy === 'own' && layout_in(data, state, 'own').problem
    if (problem) return `${all} Your formula: ${problem}.`
    const [order, place] = (state.focus ?? '').split(':')
    const layout = panels(data, state).find((panel) => panel.order === order)?.layout
    const [row, chunk] = (place ?? '').split(',').map(Number)
    const address = layout?.addresses?.[row]?.[chunk]
    if (address === undefined) return `${all} A cell is 16 bytes, four banks; above it its first bank.`
    const bank = slot_of(address) * 4
    const others = layout.addresses.map((chunks, other) => [other, slot_of(chunks[chunk])])
      .filter(([other, slot]) => other !== row && slot === slot_of(address)).map(([other]) => other)
    return `${all} ${ORDERS[order]}: row ${row}, chunk ${chunk} is at address ${address}, `
      + `banks ${bank} to ${bank + 3}, `
      + (others.length ? `where rows ${others.join(', ')} are too.` : 'alone.')
  },
}
