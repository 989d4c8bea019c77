// Where the eight rows of one ldmatrix matrix lie in shared memory, and what reading them costs.
import { el, group, rect, svg, text, WIDE } from './draw.js'

const ORDERS = {
  plain: 'plain', padded: 'padded by 16 bytes', swizzled: 'swizzled', half_lines: 'XOR by half lines' }
const SLOTS = 8  // 16-byte chunks in a line of 32 banks

const width_of = (data, state) => data.widths.find((w) => w.row_bytes === state.row_bytes)
const slot_of = (address) => address / 16 % SLOTS
const panels = (data, state) => ['plain', 'padded', state.remedy]
  .map((order) => ({ order, layout: width_of(data, state).orders[order] }))

// How many rows of the chosen column fall on each slot of four banks.
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
        { class: `small mono middle ${asked ? 'strong' : 'muted'}` })]))
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

export default {
  title: 'Which banks a column of eight rows hits',
  sources: { layout: ['ch04_banks', '--layout', '{json}'] },
  data: ({ layout }) => layout,
  stills: { 'chapters/04_swizzling/figures/banks.svg': {} },
  initial: () => ({ row_bytes: 128, column: 0, remedy: 'swizzled' }),

  controls: (data, state) => [
    { key: 'row_bytes', type: 'step', label: 'bytes in a row', min: 16, max: 256, step: 16 },
    { key: 'column', type: 'step', label: 'chunk that is read', min: 0, max: state.row_bytes / 16 - 1 },
    { key: 'remedy', type: 'choice', label: 'third panel',
      options: ['swizzled', 'half_lines'].map((order) => [order, ORDERS[order]]) },
  ],
  // A narrower row may no longer have the chosen chunk.
  settle: (data, state) => ({ ...state, column: Math.min(state.column, state.row_bytes / 16 - 1) }),
  focus: (data, state, key) => ({ ...state, focus: key, column: +key.split(',')[1] }),

  draw(data, state, width) {
    const side_by_side = width >= WIDE
    const cell = side_by_side ? 28 : 43
    let x = 4, y = 0, height = 0
    const drawing = panels(data, state).map((panel) => {
      const drawn = draw_panel(panel, state, cell)
      const placed = group(x, y, drawn.drawing)
      height = Math.max(height, y + drawn.height)
      if (side_by_side) x += 8 * cell + 20
      else y += drawn.height + 12
      return placed
    })
    return svg(width, height, drawing)
  },

  describe(data, state) {
    const costs = panels(data, state).map(({ order, layout }) => layout
      ? `${ORDERS[order]} ${layout.wavefronts[state.column]}` : `${ORDERS[order]} none`)
    const all = `Rows of ${state.row_bytes} bytes, chunk ${state.column} of rows 0 to 7. `
      + `Wavefronts: ${costs.join(', ')}.`
    const [order, place] = (state.focus ?? '').split(':')
    const layout = width_of(data, state).orders[order]
    const [row, chunk] = (place ?? '').split(',').map(Number)
    const address = layout?.addresses[row]?.[chunk]
    if (address === undefined) return `${all} A cell is 16 bytes, four banks; above it its first bank.`
    const bank = slot_of(address) * 4
    const others = layout.addresses.map((chunks, other) => [other, slot_of(chunks[chunk])])
      .filter(([other, slot]) => other !== row && slot === slot_of(address)).map(([other]) => other)
    return `${all} ${ORDERS[order]}: row ${row}, chunk ${chunk} is at address ${address}, `
      + `banks ${bank} to ${bank + 3}, `
      + (others.length ? `where rows ${others.join(', ')} are too.` : 'alone.')
  },
}
