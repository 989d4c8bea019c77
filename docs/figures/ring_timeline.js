// When each GPU of a ring computes and when keys are transferred, from events recorded on two H100.
import { el, line, rect, svg, text, WIDE } from './draw.js'

const RUNS = {
  all: [['ring', 'ring: first the keys, then the next step'], ['overlap', 'overlap: keys travel meanwhile']],
  causal: [['ring', 'ring, in order'], ['overlap', 'overlap, in order'], ['zigzag', 'zigzag, with overlap']],
}
const MASKS = [['causal', 'causal'], ['all', 'all keys']]
const COLORS = ['a', 'c']  // keys of rank 0, of rank 1
const ROW = 18, BLOCK = 2 * 2 * ROW + 44

const ms = (value) => value.toFixed(2)
const key_of = (schedule, { mask }) => `${schedule}_${mask}`
// Return [from, to, owner of the keys] of the kernels and of the transfers of a rank.
const computing = (steps) => steps.map(({ begin_ms: at, compute_ms: long, owner }) => [at, at + long, owner])
const travelling = (steps) => steps.filter(({ transfer_ms: long }) => long > 0)
  .map(({ transfer_begin_ms: at, transfer_ms: long }) => [at, at + long])

// Returns { run: { time_ms, steps[rank][step] } } from the stored rows, which are in that order.
export function runs_of(rows) {
  const runs = {}
  for (const { run, time_ms, rank, step, ...measured } of rows) {
    const { steps } = runs[run] ??= { time_ms, steps: [] }
    steps[rank] ??= []
    steps[rank][step] = measured
  }
  return runs
}

export default {
  title: 'Two GPUs share a sequence: who computes when, and when keys travel',
  sources: { measured: ['docs/measurements/h100/ch19_timeline.csv'] },
  data: ({ measured: { about, rows } }) => ({ length: +about.shape.split(',')[2], runs: runs_of(rows) }),
  stills: { 'chapters/19_ring_attention/figures/ring_timeline.svg': {} },
  initial: () => ({ mask: 'causal', focus: 'ring:0' }),
  controls: () => [{ key: 'mask', type: 'choice', label: 'mask', options: MASKS }],
  settle: (data, state) => RUNS[state.mask].some(([schedule]) => state.focus.startsWith(schedule)) ? state : { ...state, focus: 'ring:0' },

  draw({ runs, length }, state, width) {
    const wide = width >= WIDE, left = 112, right = width - (wide ? 78 : 8), top = 44
    const most = Math.max(...Object.values(runs).map((run) => run.time_ms)), scale = (right - left) / most
    const x_of = (at) => left + at * scale
    const rows = RUNS[state.mask].map(([schedule, words], block) => {
      const { time_ms: time, steps } = runs[key_of(schedule, state)], y = top + block * BLOCK
      return [text(2, y + 12, wide ? words : schedule, { class: 'strong' }),
        text(wide ? width - 2 : right, y + 12, `${ms(time)} ms`, { class: 'end strong', name: `${schedule}_time` }),
        steps.map((of_rank, rank) => {
          const line_y = y + 20 + rank * 2 * ROW, on = state.focus === `${schedule}:${rank}`
          return el('g', { 'data-focus': `${schedule}:${rank}` }, [
            text(8, line_y + 13, `GPU ${rank} computes`, { class: `small${on ? ' strong' : ''}` }),
            text(8, line_y + ROW + 11, 'keys arrive', { class: 'small muted' }),
            rect(left, line_y, right - left, 2 * ROW - 3, { class: 'cell', stroke: on ? 'var(--fg)' : null }),
            computing(of_rank).map(([from, to, owner], step) => {
              const room = (to - from) * scale
              return [rect(x_of(from), line_y + 1, Math.max(room, 1), ROW - 3, { class: COLORS[owner] }),
                text(x_of(from) + room / 2, line_y + 13, room > (wide ? 118 : 60) && wide ? `keys of GPU ${owner}: ${ms(to - from)}` : room > 28 ? ms(to - from) : '',
                  { class: 'small middle inverse', name: `${schedule}_${rank}_compute_${step}` })]
            }),
            travelling(of_rank).map(([from, to]) => [
              rect(x_of(from), line_y + ROW, Math.max((to - from) * scale, 1), 6, { class: 'b' }),
              text(x_of(to) + 4, line_y + ROW + 10, ms(to - from), { class: 'small', name: `${schedule}_${rank}_transfer` })])])
        })]
    })
    const bottom = top + RUNS[state.mask].length * BLOCK
    const ticks = Array.from({ length: Math.floor(most / 2) + 1 }, (_, i) => 2 * i)
    return svg(width, bottom + 22, [
      text(2, 15, `${length} queries and keys, 8 heads, d = 128${wide ? ', on two H100' : ''}`, { class: 'small muted' }),
      text(2, 32, wide ? 'milliseconds, from recorded events; blue: keys of GPU 0, green: of GPU 1, orange: on their way' : 'blue: keys of GPU 0, green: of GPU 1',
        { class: 'small muted' }),
      rows, line(left, bottom, right, bottom),
      ticks.map((at) => [line(x_of(at), bottom, x_of(at), bottom + 4),
        text(x_of(at), bottom + 17, at === ticks.at(-1) ? `${at} ms` : `${at}`, { class: 'small middle muted' })])])
  },

  describe({ runs, length }, state) {
    const [schedule, number] = state.focus.split(':'), rank = Number(number)
    const said = (name) => {
      const { time_ms: time, steps } = runs[key_of(name, state)]
      return `${name} ${ms(time)} ms, of which the GPUs compute ${steps.map((of_rank) =>
        ms(computing(of_rank).reduce((sum, [from, to]) => sum + to - from, 0))).join(' and ')}`
    }
    const of_rank = runs[key_of(schedule, state)].steps[rank], waits = computing(of_rank)
    return `${schedule}, GPU ${rank}: ${waits.map(([from, to, owner]) => `from ${ms(from)} to ${ms(to)} ms it computes with the keys of GPU ${owner}`).join(', ')}; `
      + travelling(of_rank).map(([from, to]) => `from ${ms(from)} to ${ms(to)} ms keys travel`).join(', ')
      + `.\n${length} queries and keys on two H100, ${state.mask === 'causal' ? 'causal' : 'all keys'}: `
      + `${RUNS[state.mask].map(([name]) => said(name)).join('; ')}.`
  },
}
