// One grid of the program in docs/cuda-in-one-picture.md: blocks, warps, lanes, and the memories
// that they access.
import { el, line, rect, svg, text, WIDE } from './draw.js'

const LANES = 32, GAP = 12

const place_of = (data, i) => ({ block: i / data.threads | 0, thread: i % data.threads,
  warp: i % data.threads / LANES | 0, lane: i % LANES })

// Draws a box with its name in the corner and more lines below it.
const box = (x, y, width, height, color, title, lines = []) => [
  rect(x, y, width, height, { class: color }),
  text(x + 8, y + 17, title, { class: 'strong' }),
  ...lines.map((words, i) => text(x + 8, y + 34 + 15 * i, words, { class: 'small' }))]

// Draws the 32 lanes of a warp in two rows.
function lanes(data, state, block, warp, x, y, cell) {
  return [...Array(LANES).keys()].map((lane) => {
    const i = block * data.threads + warp * LANES + lane
    const shade = i === state.thread ? 'a' : i < data.numbers ? 'soft-a' : 'soft'
    return el('g', { 'data-focus': i }, [rect(x + lane % 16 * cell, y + (lane / 16 | 0) * cell, cell - 1,
      cell - 1, { class: `${shade}${i === state.thread ? ' on' : ''}` })])
  })
}

function draw_block(data, state, block, x, y, width) {
  const cell = Math.floor((width - 24) / 16), warp_height = 2 * cell + 24, top = y + 26
  const warps = [...Array(data.warps).keys()].map((warp) => [
    text(x + 8, top + warp * warp_height + 12, `warp ${warp}: 32 lanes, their registers`,
      { class: 'small muted' }),
    lanes(data, state, block, warp, x + 12, top + warp * warp_height + 17, cell)])
  const shared = top + data.warps * warp_height + 6
  return { bottom: shared + 52, drawing: [
    rect(x, y, width, shared + 52 - y, { class: 'cell' }),
    text(x + 8, y + 17, `block ${block}`, { class: 'strong' }), warps,
    box(x + 8, shared, width - 16, 44, 'soft-c', 'shared memory', ['this block only; a barrier orders it'])] }
}

export default {
  title: 'CUDA in one picture: a grid, its blocks, warps and lanes, and their memories',
  sources: { run: ['cuda_in_one_picture'] },
  data({ run }) {
    const [, numbers, blocks, warps, spare] =
      /^(\d+) numbers, (\d+) blocks of (\d+) warps, (\d+) threads to spare/.exec(run).map(Number)
    const sums = [...run.matchAll(/^block \d+: (\d+)$/gm)].map(([, sum]) => +sum)
    return { numbers, blocks, warps, threads: warps * LANES, spare, sums }
  },
  stills: { 'docs/figures/cuda.svg': {} },
  initial: () => ({ thread: 165 }),
  controls: (data) => [{ key: 'thread', type: 'step', label: 'thread of the grid',
    min: 0, max: data.blocks * data.threads - 1 }],
  focus: (data, state, key) => ({ ...state, thread: +key }),

  // On a narrow page it shows only the block of the chosen thread.
  draw(data, state, width) {
    const { block: chosen, thread, warp, lane } = place_of(data, state.thread)
    const blocks = width >= WIDE ? [...Array(data.blocks).keys()] : [chosen]
    const block_width = Math.floor((width - 8 - GAP * (blocks.length - 1)) / blocks.length)
    const drawn = blocks.map((block, i) =>
      draw_block(data, state, block, 4 + i * (block_width + GAP), 26, block_width))
    const bottom = drawn[0].bottom, memory = bottom + 22
    return svg(width, memory + 146, [
      text(4, 15, `grid: ${data.blocks} blocks of ${data.warps} warps`, { class: 'strong' }),
      drawn.map(({ drawing }) => drawing),
      line(width / 2, bottom, width / 2, memory, { class: 'line-muted' }),
      box(4, memory, width - 8, 42, 'soft-b', 'L2 cache', ['what blocks load again, close by']),
      line(width / 2, memory + 42, width / 2, memory + 58, { class: 'line-muted' }),
      box(4, memory + 58, width - 8, 58, 'soft-d', 'global memory',
        [`x: ${data.numbers} numbers; sums: one for each block`, 'every thread of the grid reaches it']),
      text(4, memory + 138, `thread ${thread} of block ${chosen}: warp ${warp}, lane ${lane}`,
        { class: 'a strong' })])
  },

  describe(data, state) {
    const { block, thread, warp, lane } = place_of(data, state.thread)
    const number = state.thread < data.numbers ? `It adds number ${state.thread} of x.`
      : `x has only ${data.numbers} numbers: this thread is one of ${data.spare} to spare.`
    return `Thread ${state.thread} of the grid is thread ${thread} of block ${block}: `
      + `lane ${lane} of warp ${warp}. ${number}\n`
      + `${data.blocks} blocks of ${data.warps} warps of 32 lanes. Each block has shared memory of its own; `
      + `all reach global memory, through one L2 cache. The sums of the blocks: ${data.sums.join(', ')}.`
  },
}
