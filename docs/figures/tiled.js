// The tiled loop in one picture, with the current row of tiles, and the content of fast memory.
import { el, line, path, rect, svg, text, WIDE } from './draw.js'

const BYTES = 4, LENGTH = 256, BLOCK = 64, TILES = LENGTH / BLOCK
const HELD = [['Q', 'Q', 'loaded once for a row of tiles', 'a'], ['K', 'K', 'loaded at each step', 'b'],
  ['V', 'V', 'loaded at each step', 'c'], ['S', 'S → P', 'computed, used, overwritten', 'd'],
  ['m, l', 'm, l', 'the state, one for each query', 'f'], ['O', 'O', 'the state, one for each query', 'f']]
const kb = (elements) => `${+(elements * BYTES / 1024).toFixed(1)} KB`

export default {
  title: 'The tiled loop: S exists one tile at a time',
  sources: { traffic: ['ch02_tiled_cpu', 'traffic', '--length', `${LENGTH}`, '--dim', '64', '--block-q',
    `${BLOCK}`,
    '--block-kv', `${BLOCK}`, '--json', '{json}'] },
  data: ({ traffic }) => ({ held: traffic.orders.queries_outside.fast_memory[0],
    steps: traffic.orders.queries_outside.steps.map(({ queries, keys }) =>
      [queries[0] / BLOCK, keys[0] / BLOCK]) }),
  stills: { 'chapters/02_tiled_cpu/figures/tiled.svg': { step: 7 } },
  initial: () => ({ step: 1 }),
  controls: ({ steps }) => [{ key: 'step', type: 'step', label: 'step', min: 1, max: steps.length,
    play: 500 }],
  focus: ({ steps }, state, key) => ({ ...state, focus: key,
    step: 1 + steps.findIndex((step) => String(step) === key) || state.step }),

  draw({ held, steps }, { step }, width) {
    const wide = width >= WIDE, [i, j] = steps[step - 1], tile = wide ? 54 : 50, left = 62, top = 40
    const cells = steps.map(([row, column], n) => {
      const here = n === step - 1, x = left + column * tile, y = top + row * tile
      return el('g', { 'data-focus': `${row},${column}` }, [
        rect(x, y, tile, tile, { class: here ? 'soft-d on' : n < step ? 'soft' : 'cell' }),
        here ? text(x + tile / 2, y + tile / 2 + 5, 'S → P', { class: 'strong middle' })
          : n < step ? text(x + tile / 2, y + tile / 2 + 5, 'gone', { class: 'small muted middle' }) : ''])
    })
    const strips = Array.from({ length: TILES }, (_, n) => [
      rect(left + n * tile, top - 24, tile - 2, 20, { class: n === j ? 'soft-b on' : 'cell' }),
      text(left + (n + 0.5) * tile, top - 10, `K, V ${n}`, { class: 'small middle' }),
      rect(6, top + n * tile, 48, tile - 2, { class: n === i ? 'soft-a on' : 'cell' }),
      text(30, top + n * tile + tile / 2 + 4, `Q ${n}`, { class: 'small middle' }),
      rect(left + TILES * tile + 8, top + n * tile, 48, tile - 2,
        { class: n === i ? 'soft-f on' : n < i ? 'soft' : 'cell' }),
      text(left + TILES * tile + 32, top + n * tile + tile / 2 + 4, n < i ? `O ${n} ✓` : `O ${n}`,
        { class: 'small middle' })])
    const bottom = top + TILES * tile
    const way = path([[left + 8, top + (i + 0.82) * tile],
      [left + (j + 0.9) * tile, top + (i + 0.82) * tile]], { class: 'line-f' })
    const total = Object.values(held).reduce((a, b) => a + b, 0)
    const list = HELD.map(([key, label, what, color], n) => [
      rect(0, 28 + n * 34, 12, 22, { class: color }), text(20, 44 + n * 34, label, { class: 'strong' }),
      text(70, 44 + n * 34, kb(held[key]), { name: `held_${key}` }),
      text(wide ? 130 : 140, 44 + n * 34, what, { class: 'small muted' })])
    const memory = [text(0, 14, `fast memory: ${kb(total)}`, { class: 'strong', name: 'total' }), list]
    const shift = (x, y, parts) => el('g', { transform: `translate(${x} ${y})` }, parts)
    return wide ? svg(width, bottom + 22, [strips, cells, way, line(6, 0, 6, 0), shift(390, 20, memory),
      text(left, bottom + 17, 'scores: a tile at a time, never all', { class: 'small muted' })])
      : svg(width, bottom + 246, [strips, cells, way, shift(8, bottom + 10, memory)])
  },

  describe({ held, steps }, { step }) {
    const [i, j] = steps[step - 1], total = Object.values(held).reduce((a, b) => a + b, 0)
    return `Step ${step} of ${steps.length}: Q tile ${i} meets K and V tile ${j}. Fast memory holds ${kb(total)}, for tiles of `
      + `${BLOCK} × ${BLOCK}, d = 64, fp32: ${HELD.map(([key, label]) => `${label} ${kb(held[key])}`).join(', ')}. `
      + 'The tile of scores is overwritten by the next; m, l and O of the row stay until its last tile.'
  },
}
