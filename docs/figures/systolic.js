// The two systolic arrays of chapter 18, cycle by cycle, with the content of each cell, the next inputs, the
// outputs so far.
import { el, group, rect, svg, text, WIDE } from './draw.js'
import { after_cycle, case_of, cases_of, DATAFLOWS, entering, heard, label_of, live, problem_of, SIZES,
  sources } from './systolic_model.js'

const QUEUED = { wide: 4, narrow: 2 }  // cycles shown in advance

// Draws the numbers that will enter a row from the left or a column from the top, in the next
// `ahead` cycles.
function draw_queues(one, cycle, { x, y, cell, ahead, step }) {
  const parts = []
  for (let distance = 1; distance <= ahead; distance++) {
    for (const { lane, name, from } of entering(one, cycle + distance)) {
      const [left, top] = from === 'left'
        ? [x - distance * step, y + lane * cell.height + cell.height / 2]
        : [x + lane * cell.width + cell.width / 2, y - distance * 17 + 4]
      const matrix = from === 'left' ? 'a' : 'b'
      parts.push(text(left, top + 4, name,
        { class: `mono small ${matrix} middle`,
          name: `${from}_${lane}_${distance}` }))
    }
  }
  return parts
}

// Draws a cell, with the stationary value at the top, the moving value below it, the sum at the bottom.
function draw_cell(one, now, k, n, { width, height }, focus) {
  const held = now.cells[k][n], busy = held.busy, on = focus === `${k},${n}`
  const weight = one.dataflow === 'weight'
  const stays = weight ? label_of('b', k, n, one) : `c${k}${n}`
  const passes = busy ? (weight ? held.a : `${held.a}·${held.b}`) : ''
  return el('g', { 'data-focus': `${k},${n}` }, [
    rect(0, 0, width, height, { class: busy ? 'soft-d' : 'cell', stroke: 'var(--line)' }),
    on ? rect(1.5, 1.5, width - 3, height - 3, { class: 'line-d' }) : '',
    // A narrow cell has room for one of the two values.
    text(4, 13, weight && passes && width < 52 ? '' : stays, { class: `mono small ${weight ? 'b' : 'muted'}` }),
    weight
      ? text(width - 4, 13, busy && width > 66 ? `${passes} →` : passes, { class: 'mono small a end', name: `a_${k}_${n}` })
      : text(width / 2, 26, width > 50 || !busy ? passes : held.a, { class: 'mono small a middle', name: `a_${k}_${n}` }),
    text(width / 2, height - 5, held.sum ?? '', { class: `mono strong middle ${busy ? 'd' : 'muted'}`,
      name: `sum_${k}_${n}` })])
}

// Draws how many cells multiply in each cycle, which shows the fill and the drain.
function draw_busy(one, cycle, width) {
  const bar = Math.min(22, width / one.steps.length), most = one.rows * one.cols
  return one.steps.map((step, at) => {
    const height = Math.max(1, step.length / most * 34)
    return [rect(at * bar, 36 - height, Math.max(1, bar - 2), height, { class: at === cycle ? 'd' : at < cycle ? 'soft-d' : 'soft' })]
  })
}

const pitch_of = ({ results }) => results.length > 5 ? 14 : 16  // the pitch of the rows of C

// Draws C, aligned with the columns of the array, with the results that have left it.
function draw_results(one, now, { x, cell }) {
  return one.results.map((row, m) => row.map((_, n) => {
    const value = now.results[m][n]
    return text(x + n * cell.width + cell.width / 2, 14 + m * pitch_of(one), value ?? '·',
      { class: `mono small middle ${value === undefined ? 'muted' : now.fresh.has(`${m},${n}`) ? 'strong d' : ''}`,
        name: `c_${m}_${n}` })
  }))
}

export default {
  title: 'A systolic array, cycle by cycle',
  sources,
  data: cases_of,
  stills: {
    'chapters/18_systolic_array/figures/systolic.svg': {},
    'chapters/18_systolic_array/figures/systolic_output.svg': { dataflow: 'output' },
  },
  initial: () => ({ dataflow: 'weight', size: '2,3,2', sizes: '5, 3, 6', stagger: true, cycle: 2, focus: '1,0' }),
  live,
  heard,

  controls: (data, state) => [
    { key: 'cycle', type: 'step', label: 'cycle', min: 1, max: case_of(data, state).steps.length, play: 700,
      show: (cycle) => `${cycle - 1}` },
    { key: 'dataflow', type: 'choice', label: 'what stays in the cells', options: Object.entries(DATAFLOWS)
      .map(([key, { stays }]) => [key, stays]) },
    { key: 'size', type: 'choice', label: 'A by B', options: [...SIZES.map(([m, k, n]) =>
      [`${m},${k},${n}`, `${m} × ${k} by ${k} × ${n}`]), ['own', 'your own']] },
    ...state.size === 'own' ? [{ key: 'sizes', type: 'line', label: 'M, K, N' }] : [],
    ...state.dataflow === 'weight' ? [{ key: 'stagger', type: 'flag', label: 'staggered' }] : [],
  ],
  settle(data, state) {
    const next = { ...state, stagger: state.stagger || state.dataflow !== 'weight' }
    const one = case_of(data, next), [k, n] = next.focus.split(',').map(Number)
    next.cycle = Math.min(next.cycle, one.steps.length)
    next.focus = `${Math.min(k, one.rows - 1)},${Math.min(n, one.cols - 1)}`
    return next
  },

  draw(data, state, full_width) {
    const one = case_of(data, state), cycle = state.cycle - 1, now = after_cycle(one, cycle)
    const wide = full_width >= WIDE, weight = one.dataflow === 'weight'
    const ahead = wide ? QUEUED.wide : QUEUED.narrow, step = wide ? 34 : 27
    const x = ahead * step + 22, top = weight ? 58 : 58 + ahead * 17
    const cell = { width: Math.min(wide ? 96 : 60, (full_width - x - 4) / one.cols),
      height: weight && one.rows > 5 ? 34 : 42 }
    const grid = [one.cols * cell.width, one.rows * cell.height]
    const place = { x, y: top, cell, ahead, step }
    const parts = [
      text(2, 15, DATAFLOWS[one.dataflow].name, { class: 'strong' }),
      text(full_width - 2, 15, `cycle ${cycle} of 0 to ${one.steps.length - 1}`, { class: 'end', name: 'cycle' }),
      text(2, 34, one.stagger ? DATAFLOWS[one.dataflow].moves[wide ? 0 : 1] : 'Not staggered: every row starts in cycle 0.',
        { class: `small ${one.stagger ? 'muted' : 'e strong'}` }),
      draw_queues(one, cycle, place),
      text(2, top - 6, 'next', { class: 'small muted' }),
      now.cells.map((row, k) => row.map((_, n) => group(x + n * cell.width, top + k * cell.height,
        [draw_cell(one, now, k, n, cell, state.focus)]))),
    ]
    let y = top + grid[1]
    if (weight) {
      parts.push(text(x - 8, y + 16, 'C', { class: 'strong end' }),
        group(0, y + 2, draw_results(one, now, place)),
        one.wrong ? text(2, y + 34, 'wrong', { class: 'small e strong' }) : '')
      y += pitch_of(one) * one.results.length + 8
    }
    const aside = x + grid[0] + 230 < full_width  // room for the bars next to the array
    const words = [`${now.busy} of ${one.rows * one.cols} cells multiply in this cycle`,
      `${now.macs} of ${one.macs} multiplications done`]
    parts.push(group(aside ? x + grid[0] + 40 : 2, aside ? top : y + 10, [
      draw_busy(one, cycle, aside ? full_width - x - grid[0] - 44 : full_width - 4),
      words.map((line, at) => text(0, 54 + 16 * at, line, { class: 'small', name: ['busy', 'macs'][at] }))]))
    return svg(full_width, aside ? Math.max(y + 12, top + 84) : y + 88, parts)
  },

  describe(data, state) {
    const one = case_of(data, state), cycle = state.cycle - 1, now = after_cycle(one, cycle)
    const { name } = DATAFLOWS[one.dataflow], problem = problem_of(data, state)
    const busy = now.cells.flatMap((row, k) => row.map((held, n) => ({ ...held, k, n }))).filter((held) => held.busy)
    const [k, n] = state.focus.split(',').map(Number), held = now.cells[k][n]
    const said = ({ k, n, a, b, sum }) => `cell ${k}, ${n}: ${a} times ${b}, sum ${sum}`
    return (problem ? `Your own sizes: ${problem}. This is 2 × 3 by 3 × 2. ` : '') + `Cycle ${cycle} of 0 to ${one.steps.length - 1}, ${name}${one.stagger ? '' : ', not staggered'}: `
      + `${now.busy} of ${one.rows * one.cols} cells multiply. `
      + (held.busy ? `${said({ ...held, k, n })}.` : `Cell ${k}, ${n} has nothing to multiply.`)
      + `\n${one.m} × ${one.k} by ${one.k} × ${one.n} takes ${one.steps.length} cycles. `
      + (busy.length ? `In this cycle: ${busy.map(said).join('; ')}.` : 'No cell multiplies in this cycle.')
      + (one.wrong ? ' Without the stagger the results are wrong.' : '')
  },
}
