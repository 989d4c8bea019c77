// A model of when a copy overlaps with the multiplications. One warp processes one tile after the
// other. A copy takes a fixed time and needs a free buffer, and any number of copies can be in
// flight.
import { group, line, rect, svg, text, WIDE } from './draw.js'

const TILES = 8, STAGES = [1, 2, 3]
const ROW = 17, GAP = 16

// Returns [start, end] of the copy and of the multiplications of each tile, in units of one tile's
// multiplications.
export function schedule(stages, copy, tiles = TILES) {
  const copies = [], products = []
  for (let i = 0; i < tiles; i++) {
    const free = i < stages ? 0 : products[i - stages][1]  // the buffer's last tile has been used
    copies.push([free, free + copy])
    const start = Math.max(free + copy, products[i - 1]?.[1] ?? 0)
    products.push([start, start + 1])
  }
  const total = products.at(-1)[1]
  return { copies, products, total, busy: tiles / total, stall: total - tiles }
}

const shown = (time) => +time.toFixed(1)
const percent = (part) => `${Math.round(part * 100)} %`

function draw_stages(stages, { copy, focus }, width, scale) {
  const { copies, products, total, stall, busy } = schedule(stages, copy), wide = width >= WIDE
  const left = wide ? 100 : 76, x = (time) => left + time * scale
  const buffers = Array.from({ length: stages }, (_, buffer) => [
    text(4, 31 + buffer * ROW, wide ? `buffer ${buffer}` : `buf. ${buffer}`, { class: 'small' }),
    copies.map(([from, to], i) => i % stages === buffer && to > from ? [
      rect(x(from), 20 + buffer * ROW, (to - from) * scale, ROW - 3, { class: 'soft-b' }),
      rect(x(to), 20 + buffer * ROW, Math.max(0, (products[i][1] - to) * scale), ROW - 3, { class: 'soft' }),
      (to - from) * scale > 24 ? text(x((from + to) / 2), 30 + buffer * ROW, `K${i}`,
        { class: 'small middle b' }) : ''] : '')])
  const y = 22 + stages * ROW
  const work = products.map(([from, to], i) => {
    const before = products[i - 1]?.[1] ?? 0
    return [from > before ? rect(x(before) + 1, y + 1, (from - before) * scale - 2, ROW + 2,
      { class: 'line-e', 'stroke-dasharray': '3 2' }) : '',
      (from - before) * scale > 36 ? text(x((from + before) / 2), y + 13, 'stall',
        { class: 'small middle e' }) : '',
      rect(x(from) + 0.5, y, scale - 1, ROW + 4, { class: 'd' }),
      scale > 18 ? text(x(from + 0.5), y + 14, i, { class: 'small middle inverse' }) : '']
  })
  return { height: y + ROW + 8 + GAP, parts: [
    text(4, 13, `${stages} ${stages > 1 ? 'stages' : 'stage'}`, { class: 'strong' }),
    text(left, 13, `done after ${shown(total)}, tensor cores busy ${percent(busy)}`,
      { class: `small ${stall > copy + 1e-9 ? '' : 'c strong'}`, name: `total_${stages}` }),
    buffers, text(4, y + 14, 'mma', { class: 'small' }), work,
    line(x(total), 18, x(total), y + ROW + 8, { class: 'on' })] }
}

export default {
  title: 'A model on a time axis: when a copy hides behind the multiplications',
  sources: {},
  data: () => ({ tiles: TILES }),
  stills: { 'chapters/05_pipelining/figures/pipeline.svg': {} },
  initial: () => ({ copy: 1.5 }),
  controls: () => [{ key: 'copy', type: 'step', label: 'a copy takes', min: 0.25, max: 4, step: 0.25,
    show: (copy) => `${copy} × one tile’s mma` }],

  draw(data, state, width) {
    const longest = Math.max(...STAGES.map((stages) => schedule(stages, 4).total))
    const here = schedule(1, state.copy).total, left = width >= WIDE ? 100 : 76
    const scale = (width - left - 12) / Math.max(here, longest / 2.4)
    let y = 0
    const rows = STAGES.map((stages) => {
      const drawn = draw_stages(stages, state, width, scale)
      y += drawn.height
      return group(0, y - drawn.height, drawn.parts)
    })
    const ticks = Array.from({ length: Math.floor((width - left - 12) / scale / 4) + 1 }, (_, i) => i * 4)
    return svg(width, y + 36, [rows, line(left, y, width - 8, y),
      ticks.map((time) => text(left + time * scale, y + 14, time, { class: 'small muted middle' })),
      text(4, y + 14, 'time', { class: 'small muted' }),
      text(4, y + 31, width >= WIDE
        ? 'A model: one tile’s mma take 1, copies run side by side, orange: on its way, grey: waits to be used.'
        : 'A model. 1 = one tile’s mma.', { class: 'small muted' })])
  },

  describe(data, { copy }) {
    const all = STAGES.map((stages) => {
      const { total, stall, busy } = schedule(stages, copy)
      return `${stages} ${stages > 1 ? 'stages' : 'stage'}: ${shown(total)}, of which ${shown(stall)} stalled, ${percent(busy)} busy`
    })
    const needed = Math.ceil(copy) + 1
    return `A model, not a measurement: ${TILES} tiles, one tile’s mma take 1, a copy takes ${copy}. ${all.join('; ')}. `
      + `A copy hides if it takes no longer than the mma of the tiles between it and its use: stages − 1 of them, `
      + `so here ${needed} stages are needed. The first copy never hides.`
  },
}
