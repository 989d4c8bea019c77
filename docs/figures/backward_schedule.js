// The backward pass in both loop orders, with the transfers between slow and fast memory at each step, and the
// unfinished sums.
import { el, group, path, rect, svg, text, WIDE } from './draw.js'
import { BLOCK, case_of, cases_of, DIM, doing, GROUPS, LENGTHS, ORDERS, run_of, sources, stand, steps_in, sum,
  tiles_of } from './backward_model.js'

const OUTLINE = { stroke: 'var(--line)' }
const COLORS = { Q: 'a', dO: 'a', K: 'b', V: 'c', dQ: 'a', dK: 'b', dV: 'c' }
const GROUP_COLORS = { 'Q, dO, O': 'a', 'K, V': 'b', 'LSE, D': 'd', dQ: 'f', 'dK, dV': 'c' }
const WAYS = ['read', 'written']
const LEGEND = ['↓ read: to fast memory', '↑ written: to slow memory', 'Σ a sum that waits', '✓ complete']
const kib = (bytes) => `${+(bytes / 1024).toFixed(2)}`
const arrows = (at, matrix) => (at.loads[matrix] ? '↓' : '') + (at.stores[matrix] ? '↑' : '')

// Draws a tile of a matrix in slow memory. A gradient tile is dashed if it is empty, Σ if
// unfinished, ✓ if done.
function draw_tile(at, matrix, tile, x, y, width, height, here) {
  const gradient = matrix in at.became, became = at.became[matrix]?.[tile]
  const moved = !here ? '' : width < 18 ? arrows(at, matrix).replace('↓↑', '↕') : arrows(at, matrix)
  const words = moved || (became === 'done' ? width < 18 ? '' : '✓' : became === 'sum' ? 'Σ' : '')
  const fill = here ? `soft-${COLORS[matrix]}` : became === 'done' ? 'soft' : became === 'sum' ? 'soft-f' : 'cell'
  return [rect(x, y, width, height, { class: fill, ...OUTLINE,
    'stroke-dasharray': gradient && !became && !here ? '3 3' : null }),
  here && rect(x + 1, y + 1, width - 2, height - 2, { class: `line-${COLORS[matrix]}`, fill: 'none' }) || '',
  words && text(x + width / 2, y + height / 2 + 4, words, { class: `small middle${moved ? ' strong' : ' muted'}` })]
}

// Draws Q and dO at the left, K and V at the top, dQ at the right, dK and dV at the bottom, S in
// the middle.
function draw_grid(state, at, side, strip) {
  const tiles = tiles_of(state), unit = side / tiles, gap = 5
  const left = 2 * strip + gap, top = 2 * strip + gap, right = left + side + gap, below = top + side + gap
  const parts = [], numbers = [...Array(tiles).keys()]
  const moves = (matrix) => matrix in at.loads || matrix in at.stores
  const kept = (matrix, index, tile) => !at.finished && tile === index && (moves(matrix) || at.phase === 'gradient'
    || (at.phase === 'D' && at.j >= 0 && !(matrix in at.became)))
  for (const n of numbers) {
    const along = left + n * unit, down = top + n * unit
    parts.push(draw_tile(at, 'V', n, along, 0, unit, strip - 2, kept('V', at.j, n)),
      draw_tile(at, 'K', n, along, strip, unit, strip - 2, kept('K', at.j, n)),
      draw_tile(at, 'dO', n, 0, down, strip - 2, unit, kept('dO', at.i, n)),
      draw_tile(at, 'Q', n, strip, down, strip - 2, unit, kept('Q', at.i, n)),
      draw_tile(at, 'dQ', n, right, down, strip, unit, kept('dQ', at.i, n)),
      draw_tile(at, 'dK', n, along, below, unit, strip - 2, kept('dK', at.j, n)),
      draw_tile(at, 'dV', n, along, below + strip, unit, strip - 2, kept('dV', at.j, n)))
    for (const j of numbers) {
      const here = !at.finished && at.i === n && at.j === j, skipped = state.causal && j > n
      const done = at.pairs.has(`${n},${j}`)
      parts.push(el('g', { 'data-focus': skipped ? null : `${at.order}:${n},${j}` }, [
        rect(left + j * unit, down, unit, unit, { class: here ? 'soft-d' : done ? 'soft' : 'cell', ...OUTLINE }),
        here ? rect(left + j * unit + 1, down + 1, unit - 2, unit - 2, { class: 'line-d' }) : '',
        here && unit > 20 ? text(left + (j + 0.5) * unit, down + unit / 2 + 4, at.phase === 'D' ? 'D' : 'dS',
          { class: 'small middle strong' }) : '']))
    }
  }
  if (state.causal) {
    parts.push(path([[left, top], [left + side, top + side]],
      { class: 'on', 'stroke-opacity': 0.5, 'stroke-dasharray': '4 3', 'pointer-events': 'none' }))
  }
  const name = { class: 'small strong' }, middle = { class: 'small strong middle' }
  const end = { class: 'small strong end' }
  parts.push(text(right, strip / 2 + 3, 'V', name), text(right, strip * 1.5 + 3, 'K', name),
    text(strip / 2 - 1, top - 6, 'dO', middle), text(strip * 1.5 - 1, top - 6, 'Q', middle),
    text(right + strip / 2, top + side + 13, 'dQ', middle),
    text(left - 4, below + strip / 2 + 3, 'dK', end), text(left - 4, below + strip * 1.5 + 3, 'dV', end))
  return { drawing: parts, width: right + strip, height: below + 2 * strip }
}

// Draws what each group read and wrote so far, with a bar for the total.
function draw_table({ order, far, all }, width, most) {
  const ends = [112, 164], bar = 172, scale = (width - bar) / most
  const rows = Object.keys(GROUPS).map((name, n) => {
    const y = 18 + n * 18, moves = sum(all[name])
    return [text(0, y + 12, name, { class: 'small strong' }),
      far[name].map((bytes, way) => text(ends[way], y + 12, moves ? kib(bytes) : '–',
        { class: `small end${moves ? '' : ' muted'}`, name: `${order}_${name}_${WAYS[way]}` })),
      moves ? rect(bar, y + 2, Math.max(1, moves * scale), 12,
        { class: `soft-${GROUP_COLORS[name]}`, ...OUTLINE }) : '',
      moves ? rect(bar, y + 2, sum(far[name]) * scale, 12, { class: GROUP_COLORS[name] }) : '']
  })
  const head = { class: 'small muted end' }
  return [text(ends[0], 11, '↓ KiB', head), text(ends[1], 11, '↑ KiB', head), rows]
}

// Draws the totals of both orders and of the naive algorithm.
function draw_totals(data, state, width) {
  const totals = [...Object.keys(ORDERS).map((order) => [order, ORDERS[order].name, run_of(data, state, order)]),
    ['naive', 'Naive: S, P, dP, dS stored', case_of(data, state).naive]]
    .map(([key, name, run]) => ({ key, name, total: run.read + run.written, products: run.products }))
  const scale = (width - 150) / Math.max(...totals.map(({ total }) => total))
  return [text(0, 12, 'All steps: what moves, and products for a pair of tiles', { class: 'small strong' }),
    totals.map(({ key, name, total, products }, n) => {
      const y = 22 + n * 30
      return [text(0, y + 10, name, { class: 'small' }),
        rect(0, y + 14, total * scale, 10, { class: key === 'naive' ? 'd' : 'a' }),
        text(width, y + 23, `${kib(total)} KiB, ${products} products`,
          { class: 'small strong end', name: `total_${key}` })]
    })]
}

export default {
  title: 'Who owns a gradient? Both orders of the loops, tile by tile',
  sources,
  data: cases_of,
  stills: { 'chapters/10_backward/figures/backward_schedule.svg': { length: 256 } },
  initial: () => ({ length: 512, causal: false, d_from: 'o', step: 12 }),

  controls: (data, state) => [
    { key: 'step', type: 'step', label: 'step', min: 1, max: steps_in(data, state), play: 400 },
    { key: 'length', type: 'choice', label: 'queries and keys', options: LENGTHS.map((n) => [n, `${n}`]) },
    { key: 'd_from', type: 'choice', label: 'D from', options: [['o', 'dO and O'], ['p', 'P and dP']] },
    { key: 'causal', type: 'flag', label: 'causal' },
  ],
  // Chooses an existing step. The arrow keys start from its pair of tiles.
  settle(data, state) {
    const next = { ...state, step: Math.min(state.step, steps_in(data, state)) }
    const order = state.focus?.split(':')[0] ?? 'rows', { i, j } = stand(data, next, order)
    return { ...next, focus: `${order}:${Math.max(i, 0)},${Math.max(j, 0)}` }
  },
  // Chooses the step that adds the selected pair to the gradients.
  focus(data, state, key) {
    const [order, place] = key.split(':')
    const step = 1 + run_of(data, state, order).steps
      .findIndex(([phase, i, j]) => phase === 'gradient' && `${i},${j}` === place)
    return { ...state, focus: key, step: step || state.step }
  },

  parts: () => [['tiles', 'steps'], ['counts', 'counts']],

  draw(data, state, full_width) {
    const wide = full_width >= WIDE, width = full_width - 4, { part } = state
    const column = wide ? 340 : 172, side = wide ? 208 : 88, strip = wide ? 28 : 19
    const ats = Object.keys(ORDERS).map((order) => stand(data, state, order))
    const most = Math.max(...ats.flatMap(({ all }) => Object.values(all).map(sum)))
    const parts = []
    let y = 0
    if (part !== 'counts') {
      ats.forEach((at, n) => {
        const grid = draw_grid(state, at, side, strip), [outer, inner] = doing(state, at)
        y = 76 + grid.height
        parts.push(group(n * (width - column), 0, [
          text(0, 15, wide ? `${ORDERS[at.order].name}: ${ORDERS[at.order].what}` : ORDERS[at.order].name,
            { class: 'strong' }),
          text(wide ? grid.width : column, 15, wide ? `step ${Math.min(state.step, at.count)} of ${at.count}` : '',
            { class: 'small muted end' }),
          text(0, 33, outer, { class: 'small' }), text(10, 48, inner, { class: 'small' }),
          group(0, 58, grid.drawing),
          text(0, y, wide ? 'this step, KiB' : 'KiB', { class: 'small muted' }),
          text(wide ? grid.width : column - 4, y, `↓ ${kib(sum(at.loads))}  ↑ ${kib(sum(at.stores))}`,
            { class: 'small strong end', name: `${at.order}_step` })]))
      })
      y += 22
    }
    if (part !== 'tiles') {
      ats.forEach((at, n) => parts.push(group(wide ? n * (width - column) : 0, wide ? y : y + n * 136, [
        text(0, 11, `${ORDERS[at.order].name}, so far`, { class: 'strong' }),
        group(0, 16, draw_table(at, wide ? column : width, most))])))
      y += wide ? 140 : 276
      parts.push(group(0, y, draw_totals(data, state, width)))
      y += 122
    }
    if (part !== 'counts') {
      const legend = wide ? LEGEND : ['↓ read', '↑ written, ↕ both', LEGEND[2], '✓ or grey: complete']
      legend.forEach((words, n) => parts.push(text(wide ? [0, 190, 392, 560][n] : n % 2 * 180,
        wide ? y : y + (n >> 1) * 16, words, { class: 'small muted' })))
      y += wide ? 8 : 24
    }
    return svg(full_width, y, group(2, 0, parts))
  },

  describe(data, state) {
    const list = (bytes) =>
      Object.entries(bytes).map(([matrix, one]) => `${matrix} ${kib(one)}`).join(', ') || 'nothing'
    const now = Object.keys(ORDERS).map((order) => {
      const at = stand(data, state, order), { name, what } = ORDERS[order]
      return `${name}, ${what}: ${at.finished ? `finished after ${at.count} steps`
        : `${doing(state, at).join(', ')}; reads ${list(at.loads)}; writes ${list(at.stores)}`}.`
    })
    const end = Object.keys(ORDERS).map((order) => {
      const { read, written, products } = run_of(data, state, order)
      return `${ORDERS[order].name} in the end: reads ${kib(read)}, writes ${kib(written)}, ${products} products `
        + 'for a pair'
    })
    const { read, written } = case_of(data, state).naive
    return `Step ${state.step}. ${now.join(' ')}\nKiB of fp32. ${state.length} queries and keys, d = ${DIM}, `
      + `tiles of ${BLOCK} × ${BLOCK}${state.causal ? ', causal' : ''}, `
      + `D from ${state.d_from === 'o' ? 'dO and O' : 'P and dP'}. ${end.join('. ')}. With all four matrices in slow memory: reads ${kib(read)}, writes ${kib(written)}.`
  },
}
