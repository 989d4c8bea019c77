// The lazy maximum of chapter 08 means that m may be smaller than the true maximum, as long as no score of the
// warp's 32 rows exceeds it by more than the limit.
import { circle, el, line, path, rect, svg, text, WIDE } from './draw.js'

const ROWS = 32, SCALES = [1, 4, 10, 30], SHAPE = '1,1,32,512,128'
export const LIMIT = 8  // MAX_GROWTH of chapter 08, a power of two
const LIMITS = [0, 2, LIMIT, 80]
const in_log2 = (score) => score * Math.LOG2E
const numbers = (n) => [...Array(n).keys()]

// Parses "  0   4.2894   1 …" and returns the largest score of each tile.
const maxima_of = (trace) => [...trace.matchAll(/^ +(?:row \d+ +tile.*|(\d+) +(\S+) .*)$/gm)]
  .filter(([, tile]) => tile !== undefined).map(([, , max]) => Number(max))

// Applies chapter 08's rule to the tile maxima of the rows of one warp. Returns for each tile the
// number of rows that exceed the limit, whether m changes, and m afterwards.
export function lazily(maxima, limit) {
  const m = maxima.map(() => -Infinity)
  return maxima[0].map((_, tile) => {
    const over = maxima.filter((row, r) => !(in_log2(row[tile] - m[r]) <= limit)).length
    if (over) maxima.forEach((row, r) => { m[r] = Math.max(m[r], row[tile]) })
    return { over, raised: over > 0, m: [...m] }
  })
}
export const shuffles_of = (steps) => 8 * (steps.filter(({ raised }) => raised).length + 1)

const view_of = (data, { scale, limit, row }) => {
  const maxima = data.maxima[scale], own = maxima[row], steps = lazily(maxima, limit)
  return { own, steps, true_max: own.map((_, tile) => Math.max(...own.slice(0, tile + 1))),
    always: lazily(maxima, 0).filter(({ raised }) => raised).length,
      raised: steps.filter(({ raised }) => raised).length }
}

export default {
  title: 'A lazy maximum: m is raised only when it must be',
  sources: Object.fromEntries(SCALES.flatMap((scale) => numbers(ROWS).map((row) => [`${scale},${row}`,
    ['ch02_tiled_cpu', '--shape', SHAPE, '--dtype', 'bf16', '--input-scale', `${scale}`, '--trace',
      '--trace-row', `${row}`]]))),
  data: (outputs) => ({ maxima: Object.fromEntries(SCALES.map((scale) =>
    [scale, numbers(ROWS).map((row) => maxima_of(outputs[`${scale},${row}`]))])) }),
  stills: { 'chapters/08_fewer_instructions/figures/lazy_maximum.svg': {} },
  initial: () => ({ scale: 10, limit: LIMIT, row: 8 }),
  controls: () => [
    { key: 'scale', type: 'choice', label: 'scores times',
      options: SCALES.map((scale) => [scale, `${scale}`]) },
    { key: 'limit', type: 'choice', label: 'limit',
      options: LIMITS.map((limit) => [limit, limit ? `2^${limit}` : 'none']) },
    { key: 'row', type: 'step', label: 'row of the warp', min: 0, max: ROWS - 1 },
  ],

  draw(data, state, width) {
    const { own, steps, true_max, always, raised } = view_of(data, state), wide = width >= WIDE
    const left = wide ? 64 : 46, right = width - 8, top = 44, bottom = 226, cell = (right - left) / own.length
    const reach = Math.min(state.limit, 12) / Math.LOG2E
    const kept = steps.map(({ m }) => m[state.row])
    const low = Math.min(...own), high = Math.max(...true_max, ...kept.map((m) => m + reach)),
      span = (high - low || 1) * 1.1
    const y = (score) => bottom - 8 - (score - low) / span * (bottom - top - 8),
      x = (tile) => left + tile * cell
    const stairs = (values) => values.flatMap((value, tile) => [[x(tile), y(value)], [x(tile + 1), y(value)]])
    const ticks = numbers(4).map((i) => low + i / 3 * (high - low))
    return svg(width, bottom + 124, [
      text(4, 14, `Row ${state.row}: the largest score of each tile of 64 keys`, { class: 'strong' }),
      text(right, wide ? 14 : 32, 'band: what m still allows', { class: 'small muted end' }),
      kept.map((m, tile) => rect(x(tile), y(m + reach), cell, Math.max(1, y(m) - y(m + reach)),
        { class: 'soft-c' })),
      ticks.map((score) => text(left - 6, y(score) + 4, score.toFixed(Math.abs(high) < 10 ? 1 : 0),
        { class: 'small muted end' })),
      path(stairs(true_max), { class: 'line-d', 'stroke-dasharray': '5 3' }),
        path(stairs(kept), { class: 'line-c' }),
      own.map((score, tile) => circle(x(tile + 0.5), y(score), 4.5,
        { class: score > kept[tile] ? 'f on' : 'd' })),
      line(left, bottom, right, bottom),
      text(4, bottom + 20, 'tile', { class: 'small muted' }),
        text(4, bottom + 42, wide ? 'rows over' : 'over', { class: 'small' }),
      text(4, bottom + 64, 'vote', { class: 'small' }),
      steps.map(({ over, raised: yes }, tile) => el('g', {}, [
        text(x(tile + 0.5), bottom + 20, tile, { class: 'small muted middle' }),
        text(x(tile + 0.5), bottom + 42, over, { class: `middle ${over ? 'strong' : 'muted'}`,
          name: `over_${tile}` }),
        rect(x(tile) + 2, bottom + 50, cell - 4, 20, { class: yes ? 'soft-e' : 'soft-c', rx: 3 }),
        text(x(tile + 0.5), bottom + 64, yes ? 'raise' : wide ? 'go on' : 'go',
          { class: `small middle ${yes ? 'e strong' : 'c'}` })])),
      text(4, bottom + 94, `m raised in ${raised} of ${own.length} tiles; every new maximum: ${always}`,
        { class: 'strong', name: 'raised' }),
      text(4, bottom + 114, wide
        ? `shuffles of this warp: 8 for each, and 8 for the sums at the end: ${shuffles_of(steps)}`
        : `shuffles of this warp: ${shuffles_of(steps)}`, { name: 'shuffles' })])
  },

  describe(data, state) {
    const { own, steps, true_max, always, raised } = view_of(data, state), last = own.length - 1
    const weight = Math.max(0, in_log2(true_max[last] - steps[last].m[state.row])).toFixed(1)
    return `32 rows of one warp, scores times ${state.scale}, limit 2^${state.limit}. `
      + `m is raised in ${raised} of ${own.length} tiles; raised at every new maximum it would be in ${always}. `
      + `In row ${state.row} the maximum is ${true_max[last]} at the end, and m is ${steps[last].m[state.row]}: `
      + `its largest weight is 2^${weight} instead of 1, as exact in bf16. Solid: m. Dashed: the true maximum.`
  },
}
