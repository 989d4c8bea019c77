// Grid, block, warp and mma, each with its memory.
import { el, line, path, rect, svg, text, WIDE } from './draw.js'

const SHAPE = '1,1,128,512,128', [, , QUERIES, KEYS, DIM] = SHAPE.split(',').map(Number)
// Rows of queries per block and per warp, and keys per tile. A test compares them with the sources.
export const KERNELS = {
  '03': { program: 'ch03_basic_kernel', block_q: 64, block_kv: 64 },
  '04': { program: 'ch04_swizzling', block_q: 64, block_kv: 64 },
  '05': { program: 'ch05_pipelining', block_q: 64, block_kv: 32 },
  '06': { program: 'ch06_ldmatrix_x4', block_q: 64, block_kv: 32 },
  '07': { program: 'ch07_better_pipelining', block_q: 64, block_kv: 64 },
  '08': { program: 'ch08_fewer_instructions', block_q: 128, block_kv: 64 },
}
const WARPS = 4, LEVELS = ['grid', 'block', 'warp', 'mma']
const kb = (bytes) => `${bytes / 1024} KB`

function facts_of(data, { chapter }) {
  const { block_q, block_kv } = KERNELS[chapter], rows = block_q / WARPS
  const blocks = QUERIES / block_q, tiles = KEYS / block_kv
  return {
    grid: { who: 'grid', what: `${blocks} ${blocks > 1 ? 'blocks' : 'block'}: ${QUERIES} queries`,
      memory: 'global memory',
      holds: `all of Q, K, V, O: ${kb(2 * DIM * (2 * QUERIES + 2 * KEYS))} here`,
        size: 'HBM: many GB, seen by all; L2, tens of MB, in front',
      next: ['cp.async', '16 bytes a thread', 'stores of O'] },
    block: { who: 'block', what: `${WARPS} warps: ${block_q} queries`, memory: 'shared memory',
      holds: `tiles of ${block_kv} keys, ${tiles} in turn: ${kb(data.shared[chapter])} a block`,
      size: '228 KB on each multiprocessor (sm_90)', next: ['ldmatrix', '8 × 8 matrices', ''] },
    warp: { who: 'warp', what: `32 lanes: ${rows} queries`, memory: 'registers',
      holds: `S [${rows}, ${block_kv}], P, O [${rows}, ${DIM}], spread over the lanes`,
      size: 'at most 255 of 4 bytes for each lane', next: ['operands', 'A, B', 'C += A·B'] },
    mma: { who: 'mma', what: '16 × 8 results', memory: 'tensor core',
      holds: 'C[16, 8] += A[16, 16] · B[16, 8]', size: '2048 multiply-adds in one instruction' },
  }
}

// Draws the zoom, in which one box of each level is enlarged at the next level.
function draw_who(level, facts, { focus, chapter }, y, width) {
  const on = focus === level, { who, what } = facts,
    count = { grid: QUERIES / KERNELS[chapter].block_q, block: WARPS, warp: 32, mma: 1 }[level]
  const gap = count > 8 ? 1 : 3, cell = (width - 16 - gap * (count - 1)) / count
  const cells = Array.from({ length: count }, (_, i) => rect(8 + i * (cell + gap), y + 44, cell, 20,
    { class: on ? 'a' : 'soft-a' }))
  return [rect(1, y, width - 2, 72, { class: on ? 'soft-f on' : 'cell', rx: 6 }),
    text(10, y + 18, who, { class: 'strong' }), text(10, y + 36, what,
      { class: 'small', name: `who_${level}` }), cells]
}

const arrow = (x, y1, y2) => [line(x, y1, x, y2, { class: 'line-b' }),
  path([[x - 4, y2 + (y2 > y1 ? -6 : 6)], [x, y2], [x + 4, y2 + (y2 > y1 ? -6 : 6)]], { class: 'line-b' })]

export default {
  title: 'Who works where: grid → block → warp → mma, and the memory of each',
  sources: Object.fromEntries(Object.entries(KERNELS).map(([chapter, { program }]) =>
    [chapter, [program, '--device', 'emulator', '--shape', SHAPE, '--profile', '--json', '{json}']])),
  data: (outputs) => ({ shared: Object.fromEntries(Object.entries(outputs).map(([chapter, { profile }]) =>
    [chapter, profile.shared_bytes_per_block])) }),
  stills: { 'chapters/03_basic_kernel/figures/levels.svg': {} },
  initial: () => ({ chapter: '03', focus: 'block' }),
  controls: () => [{ key: 'chapter', type: 'choice', label: 'chapter',
    options: Object.keys(KERNELS).map((key) => [key, key]) }],

  draw(data, state, width) {
    const facts = facts_of(data, state), wide = width >= WIDE, who = wide ? 230 : 112,
      left = who + (wide ? 40 : 12)
    const pitch = wide ? 104 : 108, soft = { grid: 'soft-b', block: 'soft-c', warp: 'soft-d', mma: 'soft-a' }
    return svg(width, 3 * pitch + 78, LEVELS.map((level, i) => {
      const y = 2 + i * pitch, { memory, holds, size, next } = facts[level], on = state.focus === level
      return [el('g', { 'data-focus': level }, [draw_who(level, facts[level], state, y, who),
        rect(left, y, width - left - 2, 72, { class: `${soft[level]}${on ? ' on' : ''}`, rx: 6 }),
        text(left + 10, y + 18, memory, { class: 'strong' }),
        wide ? [text(left + 10, y + 39, holds, { name: `holds_${level}` }),
          text(left + 10, y + 60, size, { class: 'small muted' })]
          : [text(left + 10, y + 36, holds.split(/: |, (?=P)/)[0].replace(', spread over the lanes', ''),
            { class: 'small' }),
            text(left + 10, y + 54, (holds.split(/: /)[1] ?? '').slice(0, 30),
              { class: 'small', name: `holds_${level}` })]]),
      next ? [arrow(left + 24, y + 74, y + pitch - 2),
        text(left + 34, y + (wide ? 92 : 94), next[0], { class: 'small strong b' }),
        wide ? text(left + 44 + next[0].length * 7.5, y + 92, next[1], { class: 'small muted' }) : '',
        next[2] ? [arrow(left + (wide ? 264 : 130), y + pitch - 2, y + 74),
          text(left + (wide ? 274 : 140), y + (wide ? 92 : 94), next[2], { class: 'small strong b' })] : '',
        line(who / 2, y + 74, 1, y + pitch - 2, { class: 'axis' }),
          line(who / 2, y + 74, who - 1, y + pitch - 2, { class: 'axis' })] : '']
    }))
  },

  describe(data, state) {
    const facts = facts_of(data, state), level = LEVELS.includes(state.focus) ? state.focus : 'block'
    const { who, what, memory, holds, size } = facts[level]
    return `Chapter ${state.chapter}, ${who}: ${what}. Its ${memory}: ${holds}; ${size}.\n`
      + `At ${SHAPE}, counted on the emulator. From global to shared memory by cp.async, to registers by ldmatrix, `
      + 'to the tensor core as operands; S, P and O stay in registers, and O goes back once.'
  },
}
