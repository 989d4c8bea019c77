// For ldmatrix, which lane provides the address of which row, and which lane receives which elements.
import { COLOR, el, group, rect, svg, text, WIDE } from './draw.js'
import { bottom_of, box, frame, H, LEFT, pair, piece_names, piece_of, places, right_of, TOP }
  from './warp_grid.js'

const SHAPE = '1,1,128,512,128'
const COUNTED = { '05': 'ch05_pipelining', '06': 'ch06_ldmatrix_x4' }
const ROWS = { Q: 'queries', K: 'keys', V: 'keys' }

const load_of = ({ loads }, state) => loads.find(({ name }) => name === state.load)
const instruction = ({ matrices, trans }) => `ldmatrix.x${matrices}${trans ? '.trans' : ''}`

// Returns the cells of the row that a lane addresses, or none if its address is not used.
const row_of = ({ addresses }, lane) => addresses[lane]
  ? [...Array(8).keys()].map((i) => [addresses[lane][0], addresses[lane][1] + i]) : []

// Returns the registers of all lanes, [{ lane, register, cells, givers }], with cells by their
// address.
const registers_of = (load) => load.receives.flatMap((registers, lane) => registers.map((halves, register) =>
  ({ lane, register, givers: halves.map(([giver]) => giver),
    cells: halves.map(([giver, position]) => row_of(load, giver)[position]) })))

const size_of = (load) => [0, 1].map((i) =>
  1 + Math.max(...registers_of(load).flatMap(({ cells }) => cells.map((cell) => cell[i]))))

// Returns the matrix and the row in it that a lane addresses: { matrix, row }.
function given_by(load, lane) {
  const all = registers_of(load)
  const matrix = all.find(({ givers }) => givers.includes(lane))?.register
  const rows = [...new Set(all.filter(({ register }) => register === matrix).flatMap(({ givers }) => givers))]
  return { matrix, row: rows.sort((a, b) => a - b).indexOf(lane) }
}

// Returns what a focus key selects, which is a row that a lane addresses, or an element in a register.
function pointed_at(load, key) {
  const [kind, place] = (key ?? '').split(':')
  if (kind === 'row' && load.addresses[+place]) return { lane: +place }
  for (const found of kind === 'element' ? registers_of(load) : []) {
    const half = found.cells.findIndex((cell) => cell.join() === place)
    if (half >= 0) return { ...found, half, giver: found.givers[half], cell: found.cells[half] }
  }
}

function draw_addresses(load, state) {
  const color = COLOR[load.source], found = pointed_at(load, state.focus), names = {}
  const rows = load.addresses.map((address, lane) => {
    if (!address) return ''
    const [x, y, width, height] = box(row_of(load, lane)), chosen = lane === state.lane
    names[piece_of(address)] = `matrix ${given_by(load, lane).matrix}`
    return el('g', { 'data-focus': `row:${lane}` }, [
      rect(x, y, width, height, { class: chosen ? color : `soft-${color}` }),
      text(x + width / 2, y + 14, chosen ? `lane ${lane}` : lane,
        { class: `small middle${chosen ? ' strong inverse' : ''}` }),
      found?.giver === lane ? rect(x, y, width, height, { class: 'on', fill: 'none' }) : ''])
  })
  return [frame(`${load.source}: who points where`, color, ...size_of(load)), piece_names(names), rows]
}

function draw_registers(load, state) {
  const color = COLOR[load.source], names = {}, found = pointed_at(load, state.focus)
  const all = registers_of(load)
  const row = row_of(load, state.lane).join(' ').split(' ')
  const cells = (chosen, given) => all.filter(({ lane }) => (lane === state.lane) === chosen)
    .flatMap(({ cells }) => cells.filter((cell) => chosen || row.includes(`${cell}`) === given).map((cell) =>
      rect(...box(cells, cell), { 'data-focus': `element:${cell}` })))
  const labels = all.map(({ lane, register, cells }) => {
    const [x, y, width, height] = box(cells), chosen = lane === state.lane
    names[piece_of(cells[0])] = `r${register}`
    return text(x + width / 2, y + height / 2 + 4, chosen ? `r${register}` : lane,
      { class: chosen ? 'small strong inverse' : 'small' })
  })
  return [frame('who receives what', color, ...size_of(load)), piece_names(names),
    el('g', { class: `soft-${color}` }, cells(false, false)),
    el('g', { class: 'soft-f' }, cells(false, true)), el('g', { class: color }, cells(true)),
    el('g', { class: 'middle', 'pointer-events': 'none' }, [labels,
      found?.cells ? rect(...box(found.cells), { class: 'on', fill: 'none' }) : ''])]
}

// Returns the use of a register in the mma that follow: "= b0, second mma".
function becomes(load, register) {
  const [name, mma] = load.becomes[register]
  return `= ${name}${load.becomes.at(-1)[1] ? `, ${['first', 'second'][mma]} mma` : ''}`
}

// Draws K x2 next to K x4, with the matrices that one instruction loads, and the number of instructions.
function draw_both(data, state, width) {
  const both = ['K x2', 'K x4'].map((wanted) => data.loads.find(({ name }) => name === wanted))
  const kernels = [['x2', '05'], ['x4', '06']], shown = width >= WIDE ? [0, 1] : [state.part === 'x2' ? 0 : 1]
  const step = right_of(16) + 22
  return svg(width, bottom_of(16) + 108, shown.map((n, place) => {
    const load = both[n], bottom = bottom_of(16) + 34, [name, chapter] = kernels[n]
    const products = new Set(load.becomes.map(([, mma]) => mma)).size
    return group(place * step, 0, [draw_registers(load, { ...state, focus: undefined }),
      text(LEFT, bottom, `${name}: ${load.matrices} matrices, operand B of ${products} mma`,
        { class: 'strong' }),
      text(LEFT, bottom + 22, `chapter ${chapter}: ${data.counts[chapter].ldmatrix} ldmatrix for ${data.counts[chapter].mma} mma`,
        { name: `count_${name}` }),
      text(LEFT, bottom + 40, `${(data.counts[chapter].mma / data.counts[chapter].ldmatrix).toFixed(2)} mma for each ldmatrix`,
        { class: 'strong b', name: `ratio_${name}` }),
      text(LEFT, bottom + 58, `at ${SHAPE}, on the emulator`, { class: 'small muted' })])
  }))
}

function draw_list(load, state) {
  const color = COLOR[load.source], found = pointed_at(load, state.focus)
  const address = load.addresses[state.lane], given = given_by(load, state.lane)
  return [text(LEFT, 0, `Lane ${state.lane}`, { class: 'strong' }), text(LEFT, 22, 'points to'),
    address ? [rect(LEFT + 63, 8, 182, 20, { class: 'soft-f' }),
      text(LEFT + 67, 22, pair(address), { name: 'address' }),
      text(LEFT + 126, 22, `row ${given.row} of matrix ${given.matrix}`, { name: 'row' })]
      : text(LEFT + 67, 22, 'nowhere: not used', { name: 'address' }),
    text(LEFT, 44, 'receives'),
    registers_of(load).filter(({ lane }) => lane === state.lane).map(({ register, cells }, i) => [
      text(LEFT + 67, 44 + 18 * i, `r${register}`, { class: `strong ${color}` }),
      places(LEFT + 89, 44 + 18 * i, cells, `r${register}`, found?.register === register && found.half),
      text(LEFT + 212, 44 + 18 * i, becomes(load, register), { name: `r${register}_becomes` })])]
}

export default {
  title: 'ldmatrix: who gives an address, who receives what',
  sources: { layout: ['ch03_layout', '--layout', '{json}'],
    ...Object.fromEntries(Object.entries(COUNTED).map(([chapter, program]) =>
      [chapter, [program, '--device', 'emulator', '--shape', SHAPE, '--profile', '--json', '{json}']])) },
  data: ({ layout: { loads }, ...outputs }) => ({ loads,
    counts: Object.fromEntries(Object.entries(outputs).map(
    ([chapter, { profile }]) => [chapter, { ldmatrix: profile.ldmatrix_instructions,
      mma: profile.mma_instructions }])) }),
  stills: {
    'chapters/03_basic_kernel/figures/ldmatrix.svg': {},
    'chapters/03_basic_kernel/figures/ldmatrix_k.svg': { load: 'K x2' },
    'chapters/03_basic_kernel/figures/ldmatrix_trans.svg': { load: 'V x2.trans' },
    'chapters/06_ldmatrix_x4/figures/ldmatrix_x4.svg': { load: 'K x4', lane: 17 },
  },
  initial: () => ({ load: 'Q x4', lane: 9 }),

  controls: ({ loads }) => [
    { key: 'load', type: 'choice', label: 'load', options:
      [...loads.map(({ name }) => [name, name]), ['both', 'K x2 beside K x4']] },
    { key: 'lane', type: 'step', label: 'lane', min: 0, max: 31, play: 700 },
  ],
  focus: (data, state, key) => {
    const found = pointed_at(load_of(data, state.load === 'both' ? { load: 'K x4' } : state), key)
    return { ...state, focus: key, lane: found?.lane ?? state.lane }
  },
  // Clear the selected element if it no longer exists or does not belong to the chosen lane.
  settle: (data, state) => state.load === 'both' ? { ...state, focus: undefined } : ({ ...state,
    focus: pointed_at(load_of(data, state), state.focus)?.lane === state.lane ? state.focus : undefined }),

  parts: (data, state, width) => width >= WIDE ? null : state.load === 'both'
    ? [['x2', 'x2'], ['x4', 'x4']] : size_of(load_of(data, state))[1] <= 8 ? null
    : [['point', 'who points where'], ['receive', 'who receives what']],

  draw(data, state, width) {
    if (state.load === 'both') return draw_both(data, state, width)
    const load = load_of(data, state), [rows, columns] = size_of(load)
    const right = right_of(columns), height = bottom_of(rows) + (rows > 8 ? 22 : 4)
    const pointing = draw_addresses(load, state), receiving = draw_registers(load, state)
    const list = draw_list(load, state), list_height = 32 + 18 * load.matrices
    if (width >= WIDE) {
      const beside = columns <= 8  // the list fits next to the matrices
      const arrow = group(right + 32, TOP + rows * H / 2 - 12, [
        text(0, 0, 'ldmatrix', { class: 'small middle' }),
        text(0, 15, instruction(load).replace('ldmatrix', ''), { class: 'small middle' }),
        text(0, 36, '→', { class: 'middle large strong' })])
      return svg(width, beside ? Math.max(height, TOP + list_height) : height + 22 + list_height,
        [group(0, 0, pointing), arrow, group(right + 60, 0, receiving),
          beside ? group(2 * right + 84, TOP + 14, list) : group(0, height + 22, list)])
    }
    if (columns <= 8) {
      return svg(width, height + 42 + list_height, [pointing, group(right + 12, 0, receiving),
        text(right + 6, height + 18, `→ ${instruction(load)}`, { class: 'middle' }),
          group(0, height + 46, list)])
    }
    return svg(width, height + 18 + list_height,
      [state.part === 'receive' ? receiving : pointing, group(0, height + 18, list)])
  },

  describe(data, state) {
    if (state.load === 'both') {
      const [two, four] = ['05', '06'].map((chapter) => data.counts[chapter])
      return `One x2 brings operand B of one mma, one x4 that of two. Chapter 05, with x2: ${two.ldmatrix} ldmatrix for `
        + `${two.mma} mma; chapter 06, with x4: ${four.ldmatrix} for ${four.mma}, counted at ${SHAPE}.`
    }
    const load = load_of(data, state), { lane } = state, address = load.addresses[lane]
    const found = pointed_at(load, state.focus), given = given_by(load, lane)
    const here = !found?.cell ? '' : `Row ${found.cell[0]}, column ${found.cell[1]}: lane ${found.giver} `
      + `points to its row, lane ${lane} has it in r${found.register}, ${['low', 'high'][found.half]} half. `
    const points = !address ? 'gives an address that is not used' : `points to row ${address[0]}, `
      + `column ${address[1]}: row ${given.row} of matrix ${given.matrix}`
    const receives = registers_of(load).filter((r) => r.lane === lane).map(({ register, cells }) =>
      `in r${register} ${cells.map(pair).join(' ')} ${becomes(load, register)}`)
    return `${here}${instruction(load)}; rows of ${load.source} are ${ROWS[load.source]}, columns d. `
      + `Lane ${lane} ${points}. It receives, as (row, column), ${receives.join('; ')}.`
  },
}
