// Which tiles are transferred between slow and fast memory at each step, in both loop orders and in
// plain attention.
import { COLOR, el, group, line, path, rect, soft, svg, text, WIDE } from './draw.js'
import { case_of, cases_of, DIMS, heard, label_of, live, loops, MATRICES, ORDERS, panels_of, problem_of, sources, stand,
  steps_in, sum, tiles_in, TILES, times } from './tiles_model.js'

const color_of = (matrix) => COLOR[matrix] ?? 'muted'
const soft_of = (matrix) => soft(color_of(matrix))
const EDGE = { Q: 'line-a', K: 'line-b', V: 'line-c', O: 'on' }
const OUTLINE = { stroke: 'var(--line)' }
const WAYS = ['read', 'written']
const LEGEND = ['↓ read: HBM to SRAM', '↑ written: SRAM to HBM', 'tinted: in SRAM',
  'grey: scores, gone again']

const arrows = (at, matrix) => (at.loads[matrix] ? '↓' : '') + (at.stores[matrix] ? '↑' : '')

// Draws a tile of Q, K, V or O in slow memory. `here`: the step uses it. `empty`: not written yet.
function draw_tile(at, matrix, x, y, width, height, here, empty) {
  const moved = here ? arrows(at, matrix) : ''
  return [rect(x, y, width, height, { class: here && matrix in at.fast ? soft_of(matrix) : 'cell', ...OUTLINE,
    'stroke-dasharray': empty ? '3 3' : null }),
    moved && [rect(x + 1, y + 1, width - 2, height - 2, { class: EDGE[matrix], fill: 'none' }),
      text(x + width / 2, y + height / 2 + 4, moved, { class: 'small strong middle' })]]
}

// Draws Q at the left, K and V at the top, O at the right, S in the middle.
function draw_grid(one, at, side, strip) {
  const { block_q: rows, block_kv: cols, length, causal } = one
  const unit = side / length, gap = 6, left = strip + gap, top = 2 * strip + gap, right = left + side + gap
  const span = (tile, block) => [tile * block * unit, Math.min(block, length - tile * block) * unit]
  const stores_scores = at.order === 'three_passes', parts = []
  for (let j = 0; j < tiles_in(length, cols); j++) {
    const [x, width] = span(j, cols), here = !at.finished && j === at.j && at.pass !== 1
    parts.push(draw_tile(at, 'V', left + x, 0, width, strip - 2, here),
      draw_tile(at, 'K', left + x, strip, width, strip - 2, here))
  }
  // the last pass over each tile of S so far
  const last = new Map(at.before.map(([pass, i, j]) => [`${i},${pass === 1 ? 'row' : j}`, pass]))
  for (let i = 0; i < tiles_in(length, rows); i++) {
    const [y, height] = span(i, rows), in_row = !at.finished && i === at.i
    parts.push(draw_tile(at, 'Q', 0, top + y, strip, height, in_row),
      draw_tile(at, 'O', right, top + y, strip, height, in_row,
        at.order !== 'keys_outside' && !in_row && !at.O_written.has(i)))
    for (let j = 0; j < tiles_in(length, cols); j++) {
      const [x, width] = span(j, cols), here = in_row && (at.pass === 1 || j === at.j)
      const skipped = causal && !stores_scores && j * cols > Math.min((i + 1) * rows, length) - 1
      const pass = here ? at.pass : last.get(`${i},row`) ?? last.get(`${i},${j}`)
      const content = pass === undefined || !(here || stores_scores) ? '' : pass === 0 ? 'S' : 'P'
      const label = Math.min(width, height) > 11 ? content : ''
      const fill = content ? 'soft-d' : pass === undefined ? 'cell' : 'soft'
      parts.push(el('g', { 'data-focus': skipped ? null : `${at.order}:${i},${j}` }, [
        rect(left + x, top + y, width, height, { class: fill, ...OUTLINE }),
        here ? rect(left + x + 1, top + y + 1, width - 2, height - 2, { class: 'line-d' }) : '',
        label && text(left + x + width / 2, top + y + height / 2 + 4, label,
          { class: `small middle${here ? ' strong' : ''}` })]))
    }
  }
  if (length <= 16) {  // the scores themselves
    const lines = [...Array(length - 1).keys()].map((n) => (n + 1) * unit)
    parts.push(el('path', { class: 'axis', 'stroke-width': 0.4, 'pointer-events': 'none',
      d: lines.map((at) => `M${left} ${top + at}h${side}M${left + at} ${top}v${side}`).join('') }))
  }
  if (causal) {
    parts.push(path([[left, top], [left + side, top + side]],
      { class: 'on', 'stroke-opacity': 0.5, 'stroke-dasharray': '4 3', 'pointer-events': 'none' }))
  }
  const bottom = top + side + 14, name = { class: 'small strong' }, centred = { class: 'small strong middle' }
  parts.push(text(right, strip / 2 + 3, 'V', name), text(right, strip * 1.5 + 3, 'K', name),
    text(strip / 2, bottom, 'Q', centred), text(right + strip / 2, bottom, 'O', centred),
    text(left + side / 2, bottom, stores_scores ? 'S, then P: stored' : 'S: never stored',
      { class: `small middle strong${stores_scores ? ' d' : ''}` }))
  return { drawing: parts, width: right + strip, height: bottom + 6 }
}

// Draws the content of fast memory to scale. ↓ was just loaded, ↑ will be stored.
function draw_fast(one, at, width, limit, label) {
  const scale = width / Math.max(sum(one.orders.keys_outside.fast_memory[0]), limit ?? 0)
  let x = 0
  const parts = MATRICES.filter((matrix) => matrix in at.fast).map((matrix) => {
    const w = at.fast[matrix] * scale, words = w > 30 ? matrix + arrows(at, matrix) : matrix
    x += w
    return [rect(x - w, 17, w, 22, { class: soft_of(matrix), ...OUTLINE }),
      w > words.length * 6 + 8 ? text(x - w / 2, 32, words, { class: 'small middle' }) : '']
  })
  // Row-by-row softmax keeps no tile, because each number is loaded, used and dropped.
  const streams = !parts.length && at.loads.S
    && (width > 200 ? `S streams through, read ${at.loads.S / at.stores.P}×; P goes out`
      : `S streams ${at.loads.S / at.stores.P}×`)
  return [text(0, 11, label, { class: 'small muted' }),
    
    text(width, 11, `${sum(at.fast)} elements${limit ? `, M = ${limit}` : ''}`,
      { class: 'small end', name: `${at.order}_fast` }),
    rect(0, 17, width, 22, { class: 'cell', 'stroke-dasharray': '3 3' }), parts,
    streams ? text(width / 2, 32, streams, { class: 'small middle d', name: `${at.order}_streams` }) : '',
    limit ? line(limit * scale, 14, limit * scale, 42, { class: 'on' }) : '']
}

// Draws the parts of each matrix that were read and written so far, and the total of both.
function draw_table(one, { order, far, all }, width, most) {
  const ends = [84, 146], bar = 156, scale = (width - bar - 66) / most
  const rows = MATRICES.map((matrix, n) => {
    const y = 18 + n * 18, moves = sum(all[matrix])
    const often = all[matrix].map((count, way) => count && '↓↑'[way] + times(one, order, matrix, count))
    return [text(0, y + 12, label_of(matrix, order), { class: 'strong' }),
      far[matrix].map((count, way) => text(ends[way], y + 12, moves ? count : '–',
        { class: `mono small end${moves ? '' : ' muted'}`,
          name: `${order}_${matrix}_${WAYS[way]}` })),
      moves ? rect(bar, y + 2, Math.max(1, moves * scale), 12, { class: soft_of(matrix), ...OUTLINE }) : '',
      moves ? rect(bar, y + 2, sum(far[matrix]) * scale, 12, { class: color_of(matrix) }) : '',
      text(width, y + 12, often.filter(Boolean).join(' ') || 'never',
        { class: `small end${moves ? '' : ' strong'}`, name: `${order}_${matrix}_times` })]
  })
  const head = { class: 'small muted end' }
  return [text(ends[0], 11, '↓ read', head), text(ends[1], 11, '↑ written', head),
    text(width, 11, 'in the end', head), rows]
}

// Draws the totals of the three orders, one bar each, by matrix.
function draw_totals(one, width, wide) {
  const totals = Object.keys(ORDERS).map((order) => ({ order, all: stand(one, order, 1).all,
    total: one.orders[order].read + one.orders[order].written }))
  const start = wide ? 118 : 0, step = wide ? 22 : 36
  const scale = (width - start - 62) / Math.max(...totals.map(({ total }) => total))
  const bars = totals.map(({ order, all, total }, n) => {
    const y = (wide ? 25 : 38) + n * step
    let x = start
    return [text(0, wide ? y + 12 : y - 4, ORDERS[order].name, { class: wide ? null : 'small' }),
      MATRICES.filter((matrix) => sum(all[matrix])).map((matrix) => {
        const w = sum(all[matrix]) * scale
        x += w
        return [rect(x - w, y, w, 15, { class: color_of(matrix), stroke: 'var(--bg)' }),
          w > 26 ? text(x - w / 2, y + 12, matrix, { class: 'small middle inverse' }) : '']
      }),
      text(width, y + 12, total, { class: 'mono strong end', name: `total_${order}` })]
  })
  return [text(0, 14, 'All steps: elements moved', { class: 'strong' }), bars]
}

export default {
  title: 'What crosses between slow and fast memory, tile by tile',
  sources: { walkthrough: ['ch02_tiled_cpu', 'walkthrough'], ...sources },
  data: ({ walkthrough, ...outputs }) => ({
    fast_memory: +/fast memory for M = (\d+)/.exec(walkthrough)[1],
    cases: cases_of(outputs),
  }),
  stills: {
    'chapters/02_tiled_cpu/figures/tiles.svg': {},
    'chapters/02_tiled_cpu/figures/tiles_by_hand.svg': { length: 5, tile: '3,4', step: 3 },
  },
  initial: () => ({ length: 512, tile: '64,64', causal: false, beside: 'keys_outside', step: 20,
    sizes: '100, 16, 32, 16' }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'step', type: 'step', label: 'step', min: 1, max: steps_in(data, state), play: 400 },
    { key: 'length', type: 'choice', label: 'queries and keys',
      options: [...Object.keys(TILES).map((n) => [+n, `N = ${n}, d = ${DIMS[n]}`]), ['own', 'your own']] },
    state.length === 'own' ? { key: 'sizes', type: 'line', label: 'N, d, queries and keys of a tile' }
      : { key: 'tile', type: 'choice', label: 'tile, queries × keys', options: TILES[state.length].map(([rows, cols]) => [`${rows},${cols}`, `${rows} × ${cols}`]) },
    { key: 'beside', type: 'choice', label: 'on the left',
      options: ['keys_outside', 'three_passes'].map((order) => [order, ORDERS[order].name]) },
    { key: 'causal', type: 'flag', label: 'causal' },
  ],
  // Chooses tiles of this length and an existing step. The arrow keys start from its tile.
  settle(data, state) {
    const tiles = TILES[state.length]?.map(String) ?? [state.tile]
    const next = { ...state, tile: tiles.includes(state.tile) ? state.tile : tiles[0] }
    next.step = Math.min(next.step, steps_in(data, next))
    const order = panels_of(next).find((one) => next.focus?.startsWith(one)) ?? 'queries_outside'
    const { i, j } = stand(case_of(data, next), order, next.step)
    return { ...next, focus: `${order}:${i},${j}` }
  },
  // Chooses the step that uses the selected tile of S, in this pass if possible.
  focus(data, state, key) {
    const [order, place] = key.split(':')
    const one = case_of(data, state), { pass } = stand(one, order, state.step)
    const step_of = (wanted) => 1 + one.orders[order].steps
      .findIndex(([p, i, j]) => p === wanted && `${i},${j}` === place)
    return { ...state, focus: key, step: step_of(pass) || step_of(0) || state.step }
  },

  // On the site, the transfers and the totals do not fit into one window.
  parts: () => [['tiles', 'steps'], ['counts', 'counts']],

  draw(data, state, full_width) {
    const one = case_of(data, state), wide = full_width >= WIDE, width = full_width - 4
    const column = wide ? 340 : 170, side = wide ? 232 : 110, strip = wide ? 32 : 19
    const { part } = state
    const ats = panels_of(state).map((order) => stand(one, order, state.step))
    const most = Math.max(...ats.flatMap(({ all }) => Object.values(all).map(sum)))
    const parts = []
    let y = 0
    if (part !== 'counts') ats.forEach((at, n) => {
      const grid = draw_grid(one, at, side, strip), [outer, inner] = loops(one, at)
      y = 64 + grid.height
      parts.push(group(n * (width - column), 0, [
        text(0, 15, ORDERS[at.order].name, { class: 'strong' }),
        wide && !at.finished
          ? text(grid.width, 15, `step ${state.step} of ${at.count}`, { class: 'small muted end' }) : '',
        text(0, 33, outer, { class: 'small' }), text(10, 48, inner, { class: 'small' }),
        group(0, 58, grid.drawing),
        group(0, y, draw_fast(one, at, grid.width, state.length === 5 ? data.fast_memory : null,
          wide ? 'in fast memory (SRAM)' : 'SRAM')),
        text(0, y + 58, wide ? 'this step' : 'step', { class: 'small muted' }),
        text(grid.width, y + 58, `↓ ${sum(at.loads)}  ↑ ${sum(at.stores)}`,
          { class: 'small strong end', name: `${at.order}_step` })]))
    })
    if (part !== 'counts') y += 76
    if (part !== 'tiles') {
      ats.forEach((at, n) => {
        const place = group(wide ? n * (width - column) : 0, wide ? y : y + n * 168, [
          text(0, 11, part || !wide ? ORDERS[at.order].name : '', { class: 'strong' }),
          group(0, part || !wide ? 16 : 0, draw_table(one, at, wide ? column : width, most))])
        parts.push(place)
      })
      y += wide ? (part ? 176 : 160) : 336
      parts.push(group(0, y, draw_totals(one, width, wide)))
      y += wide ? 106 : 148
    } else y += wide ? 10 : 4
    if (part !== 'counts') {
      LEGEND.forEach((words, n) => parts.push(text(wide ? [0, 158, 338, 470][n] : n % 2 * 180,
        wide ? y : y + (n >> 1) * 16, words, { class: 'small muted' })))
      y += wide ? 8 : 24
    }
    return svg(full_width, y, group(2, 0, parts))
  },

  describe(data, state) {
    const one = case_of(data, state), problem = problem_of(data, state)
    const total = (order) => one.orders[order].read + one.orders[order].written
    const list = (elements) => MATRICES.filter((matrix) => matrix in elements)
      .map((matrix) => `${matrix} ${elements[matrix]}`).join(', ') || 'nothing'
    const often = ({ order, all }) => MATRICES.filter((matrix) => sum(all[matrix])).map((matrix) => {
      const often = (count, way) => count && `${times(one, order, matrix, count)} ${WAYS[way]}`
      return `${label_of(matrix, order)} ${all[matrix].map(often).filter(Boolean).join(', ')}`
    }).join('; ') + (sum(all.S) ? '' : '; S and P never')
    const panels = panels_of(state).map((order) => {
      const at = stand(one, order, state.step), far = sum(Object.values(at.far).map(sum))
      const now = at.finished ? `finished after ${at.count} steps.`
        : `${loops(one, at).join(', ')}; reads ${list(at.loads)}; writes ${list(at.stores)}.`
      const { name, what } = ORDERS[order]
      return [`${name}, ${what}: ${now} ${far} of ${total(order)} elements so far.`,
        `${name} in the end: ${often(at)}.`]
    })
    return `${problem ? `Your own sizes: ${problem}. This is N = 512. ` : ''}Step ${state.step}. ${panels.map(([now]) => now).join(' ')}\n`
      + `${one.length} queries and keys, d = ${one.dim}, tiles of ${one.block_q} × ${one.block_kv}`
      + `${one.causal ? ', causal' : ''}. ${panels.map(([, end]) => end).join(' ')} `
      + `Plain attention, with S and P in slow memory, moves ${total('three_passes')}.`
  },
}
