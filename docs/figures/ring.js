// Which rank computes which scores in each step of a ring, and which ranks are idle.
import { el, line, rect, soft, svg, text, WIDE, wrapped } from './draw.js'

const RANKS = 4, LENGTH = 256
const COLORS = ['a', 'b', 'c', 'd']
const LAYOUTS = [['overlap', 'in order'], ['zigzag', 'zigzag']]
const MASKS = [['causal', 'causal'], ['all', 'no mask']]

const key_of = (state) => `${state.layout}_${state.mask}`
// The number of equal chunks of a layout, and the chunks of a rank.
const chunks_in = (layout) => layout === 'zigzag' ? 2 * RANKS : RANKS
const chunks_of = (layout, rank) => layout === 'zigzag' ? [rank, 2 * RANKS - 1 - rank] : [rank]
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)
const per_cent = (part, whole) => `${Math.round(100 * part / whole)} %`

// The time of a step is the time of the rank with the most work.
const busy = (scores) => {
  const slowest = sum(scores[0].map((_, step) => Math.max(...scores.map((rank) => rank[step]))))
  return per_cent(sum(scores.flat()), RANKS * slowest)
}

export default {
  title: 'A ring: who computes what, step by step',
  sources: Object.fromEntries(LAYOUTS.flatMap(([layout]) => MASKS.map(([mask]) => [`${layout}_${mask}`,
    ['ch19_ring_attention', '--shape', `1,1,${LENGTH},${LENGTH},8`, '--ranks', `${RANKS}`, '--schedule', layout,
      ...(mask === 'causal' ? ['--causal'] : []), '--json', '{json}']]))),
  data: (outputs) => Object.fromEntries(Object.entries(outputs).map(([key, { profile }]) => [key, {
    owners: profile.steps.map((rank) => rank.map(({ owner }) => owner)),
    scores: profile.steps.map((rank) => rank.map(({ scores }) => scores)) }])),
  stills: { 'chapters/19_ring_attention/figures/in_order.svg': { layout: 'overlap' },
    'chapters/19_ring_attention/figures/zigzag.svg': { layout: 'zigzag' } },
  initial: () => ({ layout: 'overlap', mask: 'causal', step: 1, focus: null }),
  controls: () => [{ key: 'layout', type: 'choice', label: 'a rank has', options: LAYOUTS },
    { key: 'mask', type: 'choice', label: 'mask', options: MASKS },
    { key: 'step', type: 'step', label: 'step', min: 0, max: RANKS - 1, step: 1, play: 900 }],

  draw(data, state, width) {
    const { owners, scores } = data[key_of(state)], wide = width >= WIDE, side = wide ? 288 : 224
    const left = wide ? 60 : 52, top = 52, count = chunks_in(state.layout), cell = side / count
    const rank_of = (chunk) => COLORS.findIndex((_, rank) => chunks_of(state.layout, rank).includes(chunk))
    const step_of = (queries, keys) => owners[rank_of(queries)].indexOf(rank_of(keys))
    const seen = (queries, keys) => state.mask !== 'causal' || keys <= queries
    const cells = []
    for (let queries = 0; queries < count; queries++)
      for (let keys = 0; keys < count; keys++) {
        const x = left + keys * cell, y = top + queries * cell, step = step_of(queries, keys)
        const rank = rank_of(queries), now = step === state.step, color = COLORS[rank]
        if (!seen(queries, keys)) {
          cells.push(rect(x, y, cell, cell, { class: 'cell' }))
          continue
        }
        const corner = state.mask === 'causal' && queries === keys
        cells.push(rect(x, y, cell, cell, { class: 'cell' }),
          corner ? el('path', { d: `M${x} ${y}L${x + cell} ${y + cell}L${x} ${y + cell}Z`, class: now ? color : soft(color) })
            : rect(x + 0.5, y + 0.5, cell - 1, cell - 1, { class: now ? color : soft(color) }),
          text(x + cell * (corner ? 0.3 : 0.5), y + cell * (corner ? 0.8 : 0.5) + 4, `${step}`,
            { class: `small middle ${now ? 'inverse strong' : ''}` }))
      }
    const chunk_names = Array.from({ length: count }, (_, chunk) => text(left - 6, top + (chunk + 0.5) * cell + 4,
      `rank ${rank_of(chunk)}`, { class: 'small end' }))
    const bars_left = wide ? left + side + 50 : left, bars_top = wide ? top + 20 : top + side + 52
    const most = Math.max(...scores.flat()), bar = (width - bars_left - 60) / most
    const words = wrapped(`Of four ranks' time ${busy(scores)} is used, if a step lasts as long as its slowest rank.`,
      width - bars_left - 4, 13)
    return svg(width, (wide ? top + side : bars_top + 4 * 34 + 18 * words.length) + 22, [
      text(left, 16, 'Queries down, keys across', { class: 'strong' }),
      text(left, 34, wide ? 'a number is the step in which its rank computes this block; queries stay, keys come' : 'a number is the step of this block',
        { class: 'small muted' }),
      cells, chunk_names,
      text(bars_left, bars_top - 16, `Scores in step ${state.step}`, { class: 'strong' }),
      scores.map((rank, i) => {
        const y = bars_top + i * 34, number = rank[state.step]
        return [text(bars_left, y + 12, `rank ${i}${number ? `, keys of rank ${owners[i][state.step]}` : ': nothing to see'}`,
          { class: 'small' }),
        number ? rect(bars_left, y + 16, number * bar, 10, { class: COLORS[i] }) : line(bars_left, y + 21, bars_left + 8, y + 21),
        text(bars_left + number * bar + 6, y + 26, `${number}`, { class: 'small', name: `scores_${i}` })]
      }),
      words.map((one, i) => text(bars_left, bars_top + 4 * 34 + 22 + 18 * i, one, { name: i ? undefined : 'busy' }))])
  },

  describe(data, state) {
    const { owners, scores } = data[key_of(state)]
    const layout = state.layout === 'zigzag'
      ? `zigzag: of ${2 * RANKS} chunks rank r has r and ${2 * RANKS - 1} - r` : `in order: of ${RANKS} chunks rank r has r`
    return `Step ${state.step}, ${layout}, ${state.mask === 'causal' ? 'causal' : 'no mask'}. ` + scores.map((rank, i) =>
      `Rank ${i} looks at the keys of rank ${owners[i][state.step]}: ${rank[state.step]} scores`).join('; ')
      + `.\nAll steps: ${scores.map((rank, i) => `rank ${i} ${sum(rank)}`).join(', ')} scores. Used: ${busy(scores)} of `
      + `four ranks' time, if a step lasts as long as its slowest rank. ${LENGTH} queries and keys.`
  },
}
