// The uses of one fragment of K, where chapter 07's warps have 16 rows each, chapter 08's 32.
import { el, line, rect, svg, text, WIDE } from './draw.js'

const SHAPE = '1,1,128,512,128'
const KERNELS = {  // rows of queries per warp and per block, which a test compares them with the sources
  ch07: { program: 'ch07_better_pipelining', rows: 16, block: 64, title: 'chapter 07' },
  ch08: { program: 'ch08_fewer_instructions', rows: 32, block: 128, title: 'chapter 08' },
}
export const ROWS = KERNELS
const COUNTED = [['ldmatrix_instructions', 'ldmatrix'], ['mma_instructions', 'mma'],
  ['shared_load_wavefronts', 'wavefronts of loads'], ['cp_async_instructions', 'cp.async']]

function draw_kernel(data, name, state, left, width) {
  const { rows, block, title } = KERNELS[name], mmas = rows / 16, blocks = 128 / block
  const counts = data.counts[name], tall = 26, top = 64
  const strips = Array.from({ length: 8 }, (_, i) => {
    const warp = Math.floor(i / mmas) % 4, of_block = Math.floor(i * 16 / block)
    const on = state.focus === `${name}:${of_block},${warp}`
    return el('g', { 'data-focus': `${name}:${of_block},${warp}` }, [
      rect(left, top + i * tall + (i * 16 % block === 0 && i ? 4 : 0), 64, tall - 3,
        { class: on ? 'a' : 'soft-a' }),
      text(left + 32, top + i * tall + 16, `warp ${warp}`,
        { class: `small middle${on ? ' inverse strong' : ''}` })])
  })
  const [, place] = (state.focus ?? '').split(':'),
    [own_block, own_warp] = (place ?? '0,0').split(',').map(Number)
  const first = Math.min(blocks - 1, own_block) * (block / 16) + own_warp * mmas
  const middle = top + (first + mmas / 2) * tall
  return [text(left, 14, title, { class: 'strong' }),
    text(left, 34, `${rows} rows a warp, ${block} a block`, { class: 'small' }),
    text(left, 54, '128 queries', { class: 'small muted' }), strips,
    rect(left + 112, middle - 14, 66, 28, { class: 'soft-b' }),
    text(left + 145, middle + 4, 'K, once', { class: 'small middle strong' }),
    Array.from({ length: mmas }, (_, i) => [
      line(left + 112, middle, left + 68, top + (first + i) * tall + 12, { class: 'line-b' }),
      line(left + 178, middle, left + 206, middle + (i - (mmas - 1) / 2) * 30, { class: 'line-d' }),
      rect(left + 206, middle - 12 + (i - (mmas - 1) / 2) * 30, width - 210, 24, { class: 'soft-d' }),
      text(left + 206 + (width - 210) / 2, middle + 4 + (i - (mmas - 1) / 2) * 30,
        mmas > 1 ? `mma ${i + 1}` : 'mma',
        { class: 'small middle strong' })]),
    COUNTED.map(([key, label], i) => [text(left, 298 + 19 * i, label, { class: 'small' }),
      text(left + 190, 298 + 19 * i, counts[key], { class: 'mono end', name: `${name}_${key}` })]),
    text(left, 298 + 19 * COUNTED.length + 4,
      `mma for each ldmatrix: ${(counts.mma_instructions / counts.ldmatrix_instructions).toFixed(2)}`,
      { class: 'strong d', name: `${name}_reuse` })]
}

export default {
  title: 'One fragment of K, two products: what 32 rows a warp save',
  sources: Object.fromEntries(Object.entries(KERNELS).map(([name, { program }]) =>
    [name, [program, '--device', 'emulator', '--shape', SHAPE, '--profile', '--json', '{json}']])),
  data: (outputs) => ({ shape: SHAPE, counts: Object.fromEntries(Object.entries(outputs)
    .map(([name, { profile }]) =>
    [name, Object.fromEntries(COUNTED.map(([key]) => [key, profile[key]]))])) }),
  stills: { 'chapters/08_fewer_instructions/figures/reuse.svg': {} },
  initial: () => ({ focus: 'ch08:0,1' }),
  controls: () => [],
  parts: (data, state, width) => width >= WIDE ? null
    : Object.entries(KERNELS).map(([name, { title }]) => [name, title]),

  draw(data, state, width) {
    const shown = Object.keys(KERNELS).filter((name) => width >= WIDE || name === (state.part ?? 'ch08'))
    return svg(width, 386, shown.map((name, i) => draw_kernel(data, name, state, 6 + 366 * i, 334)))
  },

  describe(data, state) {
    const [name, place] = state.focus.split(':'), [block, warp] = place.split(',').map(Number)
    const { rows, title } = KERNELS[name], counts = data.counts[name]
    return `${title}, block ${block}, warp ${warp}: a fragment of K that one ldmatrix brought is multiplied with the warp’s `
      + `${rows} rows, ${rows / 16} mma. In all, at ${data.shape}: ${counts.ldmatrix_instructions} ldmatrix for `
      + `${counts.mma_instructions} mma, ${counts.shared_load_wavefronts} wavefronts, counted on the emulator.`
  },
}
