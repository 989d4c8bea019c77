// The tile map of chapter 09 shows which tiles of keys each tile of queries visits, in which order, and which it
// masks, as recorded by the emulator.
import { el, group, line, path, rect, svg, text, WIDE } from './draw.js'

const BLOCK_Q = 128, BLOCK_KV = 64  // the kernel's tile at D = 128
// Returns the keys [first, end) that a query at key `at` sees, if they exist.
const MASKS = {
  full: { name: 'no mask', words: [], sees: () => [0, Infinity] },
  causal: { name: 'causal', words: ['--causal'], sees: (at) => [0, at + 1] },
  window: { name: 'window 256,0', words: ['--window', '256,0'], sees: (at) => [at - 256, at + 1] },
}
const whole = (queries, keys) => [{ queries, keys }]
const LENGTHS = {
  equal: { name: '1024 × 1024', sequences: whole(1024, 1024) },
  keys: { name: 'more keys: 512 × 1024', sequences: whole(512, 1024) },
  queries: { name: 'more queries: 1024 × 576', sequences: whole(1024, 576) },
  ragged: { name: 'ragged: 900 × 1000', sequences: whole(900, 1000) },
  packed: { name: 'packed: 300, 1, 0, 500',
    sequences: [300, 1, 0, 500].map((length) => ({ queries: length, keys: length })) },
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)
const numbers = (count) => [...Array(count).keys()]
const all = (sequences, which) => sum(sequences.map((one) => one[which]))
const starts = (sequences, which) =>
  [0, ...sequences.map((_, n) => all(sequences.slice(0, n + 1), which))].join()

const command_of = (mask, lengths) => {
  const { sequences } = LENGTHS[lengths]
  const packed = ['--cu-seqlens-q', starts(sequences, 'queries'), '--cu-seqlens-k', starts(sequences, 'keys')]
  return ['ch09_masks_and_shapes', '--device', 'emulator', '--shape',
    `1,1,${all(sequences, 'queries')},${all(sequences, 'keys')},128`, ...MASKS[mask].words,
    ...sequences.length > 1 ? packed : []]
}

// A grid has a block for each tile of the longest sequence, for one sequence after the other.
function sequences_of({ tiles }, lengths) {
  const { sequences } = LENGTHS[lengths]
  const blocks = Math.max(...sequences.map(({ queries }) => Math.ceil(queries / BLOCK_Q)))
  return sequences.map((_, n) => tiles.filter(({ block }) => Math.floor(block / blocks) === n)
    .sort((a, b) => a.row - b.row).map(({ block, columns, visits }) => ({ block, columns, visits })))
}

// Returns the keys [first, end) that a query sees. The last query is aligned with the last key.
function seen_by(mask, { queries, keys }, query) {
  const [first, end] = MASKS[mask].sees(query + keys - queries)
  return [Math.max(first, 0), Math.min(end, keys)]
}

// Returns the map of a state, as sequences of rows of cells, each { order (of the visit, from 1), masked } or
// null.
function map_of(data, { mask, lengths }) {
  const bands = data[`${mask},${lengths}`].map((rows, sequence) => rows.map(({ block, columns, visits }, row) => {
    const cells = numbers(columns).map(() => null)
    visits.forEach(([column, masked], n) => { cells[column] = { order: n + 1, masked } })
    return { block, cells, sequence, row, visits: visits.length }
  }))
  const cells = bands.flat().flatMap(({ cells }) => cells), visited = cells.filter(Boolean)
  return { bands, counts: { visited: visited.length, masked: visited.filter(({ masked }) => masked).length,
    skipped: cells.length - visited.length, all: cells.length } }
}

// Returns the boundary of the visible keys of a sequence as corners [key, query], down the end and
// up the start.
function edge_of(mask, lengths) {
  const seeing = numbers(lengths.queries).map((query) => [query, ...seen_by(mask, lengths, query)])
    .filter(([, first, end]) => first < end)
  if (!seeing.length) return []
  const side = (n) => {
    const [top, bottom] = [seeing[0], seeing.at(-1)]
    return [[top[n], top[0]], ...seeing.map((one) => [one[n], one[0] + 0.5]), [bottom[n], bottom[0] + 1]]
  }
  const corners = [...side(2), ...side(1).reverse()]
  return corners.filter(([x, y], i) => {
    const [[x0, y0], [x1, y1]] = [corners.at(i - 1), corners[(i + 1) % corners.length]]
    return (x - x0) * (y1 - y) !== (x1 - x) * (y - y0)  // not on the line between its neighbours
  })
}

const OUTLINE = { stroke: 'var(--line)' }

const fill_of = (cell, on) => on ? 'soft-f' : !cell ? 'cell' : cell.masked ? 'soft-b' : 'soft-d'
function draw_cell(cell, width, height, on) {
  const box = (inset, more) => rect(inset, inset, width - 2 * inset, height - 2 * inset, more)
  return [box(0, { class: fill_of(cell, on), ...OUTLINE }), cell?.masked ? box(2, { class: 'line-b' }) : '']
}

// Draws the order of a visit, next to the line that bounds the visible keys.
function draw_order(cell, x, y, on, name) {
  const half = cell.order > 9 ? 7 : 4.5
  return [cell.masked ? rect(x - half, y - 6, 2 * half, 12, { class: fill_of(cell, on) }) : '',
    text(x, y + 4, cell.order, { class: 'small middle', name })]
}

const length_words = ({ queries, keys }) => queries !== keys ? `${queries} queries, ${keys} keys`
  : queries === 1 ? '1 query, 1 key' : `${queries} queries and keys`

function draw_map(state, bands, left, width, height, top) {
  const { sequences } = LENGTHS[state.lengths], packed = sequences.length > 1
  const parts = [], edges = [], orders = []
  let y = top
  bands.forEach((rows, sequence) => {
    const label = packed ? `sequence ${sequence}: ` : ''
    parts.push(text(left, y + 11, label + length_words(sequences[sequence]), { class: 'small muted' }))
    y += 16
    const start = y
    for (const { block, cells, row, visits } of rows) {
      const middle = y + height / 2
      parts.push(text(0, middle + 4, block, { class: 'small' }),
        text(left - 8, middle + 4, visits, { class: 'small end', name: `visits_${sequence}_${row}` }))
      cells.forEach((cell, column) => {
        const key = `${sequence},${row},${column}`, x = left + column * width, on = state.focus === key
        parts.push(el('g', { 'data-focus': key, transform: `translate(${x} ${y})` },
          draw_cell(cell, width, height, on)))
        if (cell) orders.push(draw_order(cell, x + width / 2, middle, on, `order_${key.replaceAll(',', '_')}`))
      })
      y += height
    }
    const corners = edge_of(state.mask, sequences[sequence]).map(([key, query]) =>
      [left + key * width / BLOCK_KV, start + query * height / BLOCK_Q])
    if (corners.length) edges.push(path([...corners, corners[0]], { class: 'on', fill: 'none' }))
    y += rows.length ? 6 : 2
  })
  return { drawing: [parts, el('g', { 'pointer-events': 'none' }, [edges, orders])], bottom: y }
}

const percent = ({ skipped, all }) => `${Math.round(100 * skipped / all)} %`

function draw_legend({ visited, masked, skipped, all }, wide) {
  const swatch = [{ masked: false }, { masked: true }, null].map((cell) =>
    draw_cell(cell, 16, 16))
  const lines = [[`${visited} visited`, 'visited'], [`${masked} of them masked`, 'masked'],
    [`${skipped} skipped`, 'skipped']]
  const place = (n) => wide ? [0, n * 24] : [n % 2 * 160, (n >> 1) * 22]
  return [lines.map(([words, name], n) => group(...place(n), [swatch[n],
    text(24, 13, words, { class: 'strong', name })])),
    group(...place(3), [line(0, 8, 16, 8, { class: 'on' }),
      text(24, 12, 'what each query sees', { class: 'small' })]),
    text(0, wide ? 122 : 58, wide ? '1, 2, …: order of visits' : '1, 2, …: order', { class: 'small muted' }),
    text(wide ? 0 : 160, wide ? 158 : 58, wide ? 'work saved against all tiles' : 'work saved:',
      { class: 'small' }),
    text(wide ? 0 : 348, wide ? 180 : 58, percent({ skipped, all }),
      { class: wide ? 'large strong' : 'strong end', name: 'saved' })]
}

// Returns "0 to 12, 14" for 0 … 12, 14.
const ranges = (columns) => columns.reduce((list, column) =>
  list.length && list.at(-1)[1] === column - 1 ? [...list.slice(0, -1), [list.at(-1)[0], column]]
    : [...list, [column, column]], [])
  .map(([first, last]) => first === last ? `${first}` : `${first} to ${last}`).join(', ')

// Describes the selected tile and the keys that its first and last query see.
function said_of(bands, { mask, lengths, focus }) {
  const [sequence, row, column] = focus.split(',').map(Number), of = LENGTHS[lengths].sequences[sequence]
  const { cells, visits } = bands[sequence][row], cell = cells[column]
  const from = row * BLOCK_Q, to = Math.min(from + BLOCK_Q, of.queries) - 1
  const sees = [...new Set([from, to])].map((query) => {
    const [first, end] = seen_by(mask, of, query)
    return `query ${query} sees ${first < end ? `keys ${first} to ${end - 1}` : 'no key'}`
  }).join(', ')
  const what = cell ? `visit ${cell.order} of ${visits}, ${cell.masked ? 'masked' : 'clear'}` : 'skipped'
  return `${bands.length > 1 ? `Sequence ${sequence}, queries` : 'Queries'} ${from} to ${to}, keys `
    + `${column * BLOCK_KV} to ${Math.min((column + 1) * BLOCK_KV, of.keys) - 1}: ${what}; ${sees}.`
}

export default {
  title: 'The tile map: which tiles of keys a tile of queries needs',
  sources: Object.fromEntries(Object.keys(MASKS).flatMap((mask) => Object.keys(LENGTHS).map((lengths) =>
    [`${mask},${lengths}`, [...command_of(mask, lengths), '--events', '{json}']]))),
  data: (outputs) => Object.fromEntries(Object.entries(outputs).map(([key, log]) =>
    [key, sequences_of(log, key.split(',')[1])])),
  stills: {
    'chapters/09_masks_and_shapes/figures/tile_map.svg': {},
    'chapters/09_masks_and_shapes/figures/window.svg': { mask: 'window' },
  },
  initial: () => ({ mask: 'causal', lengths: 'equal' }),

  controls: () => [
    { key: 'mask', type: 'choice', label: 'mask',
      options: Object.entries(MASKS).map(([key, { name }]) => [key, name]) },
    { key: 'lengths', type: 'choice', label: 'queries × keys',
      options: Object.entries(LENGTHS).map(([key, { name }]) => [key, name]) },
  ],
  // Chooses the selected tile, or the nearest existing one.
  settle(data, state) {
    if (!state.focus) return state
    const { bands } = map_of(data, state), [sequence, row, column] = state.focus.split(',').map(Number)
    const rows = bands[sequence]?.length ? bands[sequence] : bands.findLast(({ length }) => length)
    const there = rows[Math.min(row, rows.length - 1)]
    return { ...state,
      focus: `${there.sequence},${there.row},${Math.min(column, there.cells.length - 1)}` }
  },

  draw(data, state, full_width) {
    const { bands, counts } = map_of(data, state), wide = full_width >= WIDE
    const width = wide ? 26 : 18, left = wide ? 94 : 66
    const map = draw_map(state, bands, left, width, 2 * width, 40)
    const legend = draw_legend(counts, wide)
    return svg(full_width, wide ? map.bottom : map.bottom + 66, group(2, 0, [
      text(0, 14, `${MASKS[state.mask].name}, ${LENGTHS[state.lengths].name}`, { class: 'strong' }),
      text(left, 32, wide ? 'a row of tiles: 128 queries; a column: 64 keys' : 'a tile: 128 queries, 64 keys',
        { class: 'small muted' }),
      text(0, wide ? 51 : 32, 'block', { class: 'small muted' }),
      text(left - 8, 51, 'visits', { class: 'small muted end' }),
      map.drawing, wide ? group(left + 16 * width + 22, 56, legend) : group(0, map.bottom, legend)]))
  },

  describe(data, state) {
    const { bands, counts } = map_of(data, state), packed = bands.length > 1
    const mask = MASKS[state.mask].name
    const rows = bands.flat().sort((a, b) => a.block - b.block).map(({ block, cells, sequence }) => {
      const which = (masked) => ranges(cells.flatMap((one, at) => one?.masked === masked ? [at] : []))
      const list = [[false, 'clear'], [true, 'masked']].filter(([masked]) => which(masked))
        .map(([masked, name]) => `${name} ${which(masked)}`)
      return `block ${block}: ${packed ? `of sequence ${sequence}, ` : ''}${list.join(', ') || 'none'}`
    })
    return `${mask[0].toUpperCase()}${mask.slice(1)}, ${LENGTHS[state.lengths].name}: of ${counts.all} tiles `
      + `${counts.visited} are visited, ${counts.masked} of them masked, and ${counts.skipped} skipped, which `
      + `saves ${percent(counts)} of the work.${state.focus ? ` ${said_of(bands, state)}` : ''}\n`
      + `Tiles that each block visits: ${rows.join('; ')}. A tile is clear when each of its queries sees each of `
      + 'its 64 keys; a tile of which no query sees a key is skipped. Blocks start in the order of their numbers.'
  },
}
