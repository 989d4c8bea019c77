// Which tiles six SMs compute when, with a block for each tile, and with blocks that stay. Recorded on an H100.
import { el, line, rect, svg, text, WIDE } from './draw.js'

const RUNS = [['block_per_tile', 'a block for each tile'], ['persistent', 'persistent blocks']]
const LABELS = [['keys', 'keys'], ['time', 'µs']]
const ROW = 20, HEAD = 26
const us = (value) => value.toFixed(1)

// Returns { run: { sm: [[keys, begin, end], …] } } from the stored rows, which are in that order.
export function runs_of(rows) {
  const runs = {}
  for (const { run, sm, keys, begin_us: begin, end_us: end } of rows) ((runs[run] ??= {})[sm] ??= []).push([keys, begin, end])
  return runs
}
const gaps_of = (tiles) => tiles.slice(1).map(([, begin], i) => begin - tiles[i][2])
const waited = (tiles) => gaps_of(tiles).reduce((sum, gap) => sum + gap, 0)

export default {
  title: 'Six SMs compute tiles of queries: a block for each tile, and blocks that stay',
  sources: { measured: ['docs/measurements/h100/ch21_timeline.csv'] },
  data: ({ measured: { rows } }) => ({ runs: runs_of(rows) }),
  stills: { 'chapters/21_persistent_blocks/figures/persistent.svg': {} },
  initial: () => ({ label: 'keys', focus: 'block_per_tile:0' }),
  controls: () => [{ key: 'label', type: 'choice', label: 'a bar says', options: LABELS }],

  draw({ runs }, state, width) {
    const wide = width >= WIDE, left = wide ? 64 : 46, right = width - 8, top = 40
    const sms = Object.keys(runs.persistent), block = HEAD + sms.length * ROW + 12
    const most = Math.max(...RUNS.flatMap(([run]) => sms.map((sm) => runs[run][sm].at(-1)[2])))
    const x_of = (at) => left + at * (right - left) / most
    const bottom = top + RUNS.length * block
    const ticks = Array.from({ length: Math.floor(most / 20) + 1 }, (_, i) => 20 * i)
    return svg(width, bottom + 22, [
      text(2, 15, wide ? '8 × 16 heads, 1024 queries and keys, d = 128, causal, on an H100' : '1024 queries and keys, causal', { class: 'small muted' }),
      text(2, 31, wide ? 'a bar is a tile of 128 queries, from its Q to its O; microseconds' : 'a bar: a tile of 128 queries', { class: 'small muted' }),
      RUNS.map(([run, words], i) => {
        const y = top + i * block
        return [text(2, y + 15, words, { class: 'strong' }), sms.map((sm, row) => {
          const line_y = y + HEAD + row * ROW, on = state.focus === `${run}:${sm}`
          return el('g', { 'data-focus': `${run}:${sm}` }, [
            text(2, line_y + 13, `SM ${sm}`, { class: `small${on ? ' strong' : ''}` }),
            rect(left, line_y, right - left, ROW - 4, { class: 'cell', stroke: on ? 'var(--fg)' : null }),
            runs[run][sm].map(([keys, begin, end], tile) => {
              const room = x_of(end) - x_of(begin), says = state.label === 'keys' ? String(keys) : us(end - begin)
              return [rect(x_of(begin), line_y + 1, Math.max(room, 1), ROW - 6, { class: i ? 'c' : 'a' }),
                text(x_of(begin) + room / 2, line_y + 12, room > 8 * says.length ? says : '',
                  { class: 'small middle inverse', name: `${run}_${sm}_${tile}` })]
            })])
        })]
      }),
      line(left, bottom, right, bottom),
      ticks.map((at) => [line(x_of(at), bottom, x_of(at), bottom + 4),
        text(x_of(at), bottom + 17, `${at}`, { class: 'small middle muted' })])])
  },

  describe({ runs }, state) {
    const [run, sm] = state.focus.split(':'), tiles = runs[run][sm]
    return `${RUNS.find(([name]) => name === run)[1]}, SM ${sm}: ${tiles.length} tiles until ${us(tiles.at(-1)[2])} µs, `
      + `of which ${us(waited(tiles))} µs pass between two tiles.\n`
      + `Tiles and their keys: ${tiles.map(([keys, begin, end]) => `${keys} from ${us(begin)} to ${us(end)}`).join('; ')}.`
  },
}
