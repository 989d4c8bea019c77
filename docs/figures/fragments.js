// Which lane of a warp has which element of A, B and C in which register, and why P needs no data
// movement.
import { el, group, rect, svg, text, WIDE } from './draw.js'
import { bottom_of, box, frame, H, LEFT, pair, piece_names, piece_of, places, right_of, TOP, y_of }
  from './warp_grid.js'

const MATRICES = {
  A: { title: 'A: Q or P', color: 'a', name: 'a' },
  B: { title: 'B: Kᵀ or V', color: 'b', name: 'b' },
  C: { title: 'C: S or O', color: 'd', name: 'c' },
  S: { title: 'S: two tiles of C, fp32', color: 'd', name: 'c' },
  P: { title: 'P: operand A, bf16', color: 'd', name: 'a' },
}
const SHOWN = { abc: ['A', 'B', 'C'], s_to_p: ['S', 'P'] }

// Returns the registers of a matrix: { lane, register, tile, cells: [[row, column], …] }, low half
// first.
function registers_of({ mma }, matrix) {
  const of = (lanes, tile) => lanes.flatMap((registers, lane) => registers.map((cells, register) =>
    ({ lane, register, tile, cells: cells.map(([row, column]) => [row, column + 8 * (tile ?? 0)]) })))
  if (matrix === 'S') return [...of(mma.C, 0), ...of(mma.C, 1)]
  return of(matrix === 'P' ? mma.A : mma[matrix])
}

const own = (data, matrix, lane) => registers_of(data, matrix).filter((r) => r.lane === lane)
const key_of = (matrix, [row, column]) => `${matrix}:${row},${column}`

// Returns the register with the element of a focus key, and the index of its cell.
function holder(data, key) {
  const [matrix] = (key ?? '').split(':')
  for (const found of matrix in MATRICES ? registers_of(data, matrix) : []) {
    const half = found.cells.findIndex((cell) => key_of(matrix, cell) === key)
    if (half >= 0) return { ...found, matrix, half, cell: found.cells[half] }
  }
}

// Returns the lanes that have the same rows of C as a lane.
const quad_of = ({ mma }, lane) => {
  const [[row]] = mma.C[lane][0]
  return mma.C.flatMap((registers, other) => registers.some(([[r]]) => r === row) ? [other] : [])
}

// Returns the names of the registers in each 8 x 8 piece.
function names_of(registers, { name }) {
  const names = {}
  for (const { register, tile, cells: [cell] } of registers) {
    const list = names[piece_of(cell)] ??= tile === undefined ? [] : [`tile ${tile}:`]
    if (!list.includes(`${name}${register}`)) list.push(`${name}${register}`)
  }
  for (const piece in names) names[piece] = names[piece].join(' ')
  return piece_names(names)
}

function draw_matrix(data, state, matrix) {
  const kind = MATRICES[matrix], registers = registers_of(data, matrix)
  const columns = 1 + Math.max(...registers.flatMap(({ cells }) => cells.map(([, column]) => column)))
  const quad = matrix === 'C' || matrix === 'S' ? quad_of(data, state.lane) : []
  const cells = (chosen) => registers.filter(({ lane }) => (lane === state.lane) === chosen)
    .flatMap(({ cells }) => cells.map((cell) =>
      rect(...box(cells, cell), { 'data-focus': key_of(matrix, cell) })))
  const labels = registers.map(({ lane, register, cells }) => {
    const [x, y, width, height] = box(cells)
    const chosen = lane === state.lane
    return text(x + width / 2, y + height / 2 + 4, chosen ? `${kind.name}${register}` : lane,
      { class: chosen ? 'small strong inverse' : quad.includes(lane) ? 'small strong' : 'small' })
  })
  const rows = quad.length ? [...new Set(own(data, matrix, state.lane).map(({ cells: [[row]] }) => row))] : []
  const pointed = state.focus?.startsWith(`${matrix}:`) && holder(data, state.focus)
  return {
    width: right_of(columns), height: bottom_of(16) + 20,
    drawing: [
      frame(kind.title, kind.color, 16, columns),
      names_of(registers, kind),
      el('g', { class: `soft-${kind.color}` }, cells(false)),
      el('g', { class: kind.color }, cells(true)),
      el('g', { class: 'middle', 'pointer-events': 'none' }, [labels,
        rows.map((row) => rect(LEFT, y_of(row), right_of(columns) - LEFT, H, { class: 'line-d' })),
        pointed ? rect(...box(pointed.cells), { class: 'on', fill: 'none' }) : '']),
    ],
  }
}

const pointed_half = (data, state, matrix, register) => {
  const found = holder(data, state.focus)
  return found?.matrix === matrix && found.register === register && found.half
}

// Returns a line for each register of a matrix in the chosen lane.
const list = (data, state, matrix) => own(data, matrix, state.lane).map(({ register, cells }, i) => {
  const { name, color } = MATRICES[matrix], id = `${name}${register}`
  return [text(LEFT, 16 + 18 * i, id, { class: `strong ${color}` }),
    places(LEFT + 26, 16 + 18 * i, cells, id, pointed_half(data, state, matrix, register))]
})

// Returns the origin of each register of P: [{ register, lanes, tile, cs }].
const origins = ({ weights }, lane) => weights[lane].map((halves, register) => ({
  register, tile: halves[0][1], cs: halves.map(([, , c]) => `c${c}`).join(' '),
  lanes: [...new Set(halves.map(([from]) => from))] }))

const moves = (data, state) => origins(data, state.lane).map(({ register, tile, cs }, i) => [
  text(LEFT, 16 + 18 * i, `tile ${tile}`),
  text(LEFT + 46, 16 + 18 * i, cs, { class: 'strong d', name: `from_a${register}` }),
  text(LEFT + 92, 16 + 18 * i, '→'),
  text(LEFT + 114, 16 + 18 * i, `a${register}`, { class: 'strong d' }),
  places(LEFT + 142, 16 + 18 * i, data.mma.A[state.lane][register], `a${register}`,
    pointed_half(data, state, 'P', register))])

function draw_abc(data, state, width) {
  const [A, B, C] = SHOWN.abc.map((matrix) => draw_matrix(data, state, matrix))
  const holds = SHOWN.abc.map((matrix) => list(data, state, matrix))
  const heading = text(LEFT, 0, `Lane ${state.lane} holds, as (row, column):`)
  const quad = text(LEFT, 92, `quad: ${quad_of(data, state.lane).join(', ')}`, { class: 'd', name: 'quad' })
  if (width >= WIDE) {
    const xs = [0, A.width + 23, A.width + B.width + 46], y = A.height + 26
    return svg(width, y + 100, [[A, B, C].map((m, i) => group(xs[i], 0, m.drawing)), group(0, y, heading),
      group(xs[0], y + 4, holds[0]), group(xs[1], y + 4, holds[1]), group(xs[2], y + 4, [holds[2], quad])])
  }
  const n = SHOWN.abc.indexOf(state.part ?? 'A'), y = A.height + 22
  return svg(width, y + 84, [group(0, 0, [A, B, C][n].drawing), group(0, y, heading),
    group(0, y + 2, holds[n]), n === 2 ? group(180, y - 54, quad) : ''])
}

function draw_s_to_p(data, state, width) {
  const [S, P] = SHOWN.s_to_p.map((matrix) => draw_matrix(data, state, matrix))
  const wide = width >= WIDE, gap = width - 2 * S.width - 2
  const arrow = (x, y, sign) => group(x, y, [text(0, 0, 'exp,', { class: 'middle' }),
    text(0, 17, 'bf16', { class: 'middle' }), text(0, 38, sign, { class: 'middle large strong' })])
  const bottom = P.height + 24
  return svg(width, bottom + 80, [
    wide ? [group(0, 0, S.drawing), group(S.width + gap, 0, P.drawing),
      arrow(S.width + gap / 2 + 8, TOP + 8 * H - 12, '→')] : (state.part === 'P' ? P : S).drawing,
    text(LEFT, bottom, `In lane ${state.lane}, at (row, column):`),
    group(0, bottom + 4, moves(data, state))])
}

export default {
  title: 'Which lane holds which element of an mma.m16n8k16',
  sources: { layout: ['ch03_layout', '--layout', '{json}'] },
  data: ({ layout: { mma, weights } }) => ({ mma, weights }),
  stills: {
    'chapters/03_basic_kernel/figures/fragments.svg': {},
    'chapters/03_basic_kernel/figures/s_to_p.svg': { mode: 's_to_p' },
  },
  initial: () => ({ mode: 'abc', lane: 9 }),

  controls: () => [
    { key: 'mode', type: 'choice', label: 'show', options: [['abc', 'A, B, C'], ['s_to_p', 'S becomes P']] },
    { key: 'lane', type: 'step', label: 'lane', min: 0, max: 31, play: 700 },
  ],
  focus: (data, state, key) => ({ ...state, focus: key, lane: holder(data, key).lane }),
  // Clear the selected element if it no longer exists or does not belong to the chosen lane.
  settle: (data, state) => {
    const found = holder(data, state.focus)
    const kept = found && found.lane === state.lane && SHOWN[state.mode].includes(found.matrix)
    return { ...state, focus: kept ? state.focus : undefined }
  },

  parts: (data, { mode }, width) =>
    width >= WIDE ? null : SHOWN[mode].map((matrix) => [matrix, matrix]),

  draw: (data, state, width) => (state.mode === 'abc' ? draw_abc : draw_s_to_p)(data, state, width),

  describe(data, state) {
    const { lane } = state, found = holder(data, state.focus)
    const here = !found ? '' : [`${found.matrix}, row ${found.cell[0]}, column ${found.cell[1]}: `,
      `lane ${lane}, register ${MATRICES[found.matrix].name}${found.register}`,
      found.tile === undefined ? '' : ` of tile ${found.tile}`,
      found.cells.length > 1 ? `, ${['low', 'high'][found.half]} half. ` : '. '].join('')
    if (state.mode === 's_to_p') {
      const all = origins(data, lane)
      const given = [...new Set(all.flatMap(({ lanes }) => lanes))].join(', ')
      return `${here}Lane ${lane} turns its scores of 16 keys into its part of operand A: `
        + all.map(({ register, tile, cs }) => `${cs} of tile ${tile} become a${register}`).join(', ')
        + `. All come from lane ${given}, rows and columns stay.`
    }
    const held = SHOWN.abc.flatMap((matrix) => own(data, matrix, lane).map(({ register, cells }) =>
      `${MATRICES[matrix].name}${register} ${cells.map(pair).join(' ')}`))
    const in_C = own(data, 'C', lane).map(({ cells: [cell] }) => cell)
    const [rows, columns] = [0, 1].map((i) => [...new Set(in_C.map((cell) => cell[i]))].join(' and '))
    return `${here}The number in a cell is its lane; a cell of two elements is a register with two halves. `
      + `Lane ${lane} has ${data.mma.A[lane].length} registers of A, ${data.mma.B[lane].length} of B, `
      + `and in C rows ${rows}, columns ${columns}. These rows are shared by its quad, lanes `
      + `${quad_of(data, lane).join(', ')}.\n`
      + `All that lane ${lane} holds, as (row, column): ${held.join('; ')}.`
  },
}
