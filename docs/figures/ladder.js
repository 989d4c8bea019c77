// The course as a ladder: what each chapter adds, and how fast its kernel is. Each rung leads to its chapter.
import { el, line, rect, shape_words, svg, text, WIDE } from './draw.js'

const RUNGS = [  // directory, title, idea, what still hurts
  ['01_toy_machine', 'toy machine', '3 registers: LOAD, MAC, STORE',
    'online softmax saves a pass over the data'],
  ['02_tiled_cpu', 'tiled CPU', 'naive → online → one pass → tiles',
    'one core multiplies 16 numbers at a time'],
  ['03_basic_kernel', 'basic kernel', 'cp.async → ldmatrix → mma', '8 wavefronts where 1 would do'],
  ['04_swizzling', 'swizzling', 'XOR on the shared-memory address', 'the tensor cores wait for memory'],
  ['05_pipelining', 'pipelining', 'load the next tile during this one', 'too many instructions'],
  ['06_ldmatrix_x4', 'ldmatrix.x4', 'four 8 × 8 matrices each', 'the tile had to shrink'],
  ['07_better_pipelining', 'better pipelining', 'one V buffer is enough', 'softmax stands between the mma'],
  ['08_fewer_instructions', 'fewer instructions', '32 rows a warp, a lazy maximum',
    'what Ampere does not have: Hopper’s instructions'],
]
const SHAPE = '2,16,8192,8192,128'
const number_of = ([folder]) => folder.slice(0, 2)
const speed_of = (data, rung) => data.tflops[`ch${number_of(rung)}`]

export default {
  title: 'The ladder: one idea a chapter, and what each is worth',
  sources: { speed: ['docs/measurements/tables.py', 'speed', '--json', '{json}'] },
  data: ({ speed: { machine, shapes } }) => ({ machine, shape: SHAPE,
    tflops: Object.fromEntries(Object.entries(shapes[SHAPE]).map(([name, { tflops }]) => [name, tflops])) }),
  stills: { 'docs/figures/ladder.svg': {} },
  initial: () => ({ focus: '08' }),
  controls: () => [],

  draw(data, state, width) {
    const wide = width >= WIDE, left = wide ? 374 : 222, pitch = wide ? 34 : 42, top = 34
    const most = Math.max(...RUNGS.map((rung) => speed_of(data, rung) ?? 0), data.tflops.FA2)
    const x = (tflops) => left + tflops / most * (width - left - (wide ? 104 : 52)),
      bottom = top + RUNGS.length * pitch
    const rungs = RUNGS.map((rung, i) => {
      const [folder, title, idea] = rung, y = top + i * pitch, on = state.focus === number_of(rung)
      const tflops = speed_of(data, rung), before = i && speed_of(data, RUNGS[i - 1])
      return el('a', { href: `chapters/${folder}/`, 'data-focus': number_of(rung),
        'aria-label': `Chapter ${number_of(rung)}, ${title}` }, [
        rect(1, y + 2, width - 2, pitch - 4, { class: on ? 'soft-f' : 'soft', rx: 6 }),
        text(12, y + (wide ? 22 : 18), number_of(rung), { class: 'strong a' }),
        text(38, y + (wide ? 22 : 18), title, { class: 'strong' }),
        text(wide ? 178 : 38, y + (wide ? 21 : 33), idea, { class: 'small muted' }),
        tflops === undefined ? text(wide ? left + 6 : width - 8, y + (wide ? 21 : 18),
          i ? 'no GPU at all' : 'by hand',
          { class: wide ? 'small muted' : 'small muted end' })
          : [rect(left, y + 8, x(tflops) - left, pitch - 16, { class: 'a' }),
            x(tflops) - left > 60 && tflops < data.tflops.FA2
              ? text(x(tflops) - 6, y + pitch / 2 + 5, tflops.toFixed(1),
              { class: 'strong inverse end', name: `tflops_${number_of(rung)}` })
              : text(x(tflops) + 6, y + pitch / 2 + 5, tflops.toFixed(1),
                { class: 'strong', name: `tflops_${number_of(rung)}` }),
            wide && before ? text(width - 10, y + pitch / 2 + 5, `× ${(tflops / before).toFixed(2)}`,
              { class: 'small muted end' }) : '']])
    })
    const limit = x(data.tflops.FA2)
    return svg(width, bottom + 20, [
      text(2, 14, wide ? `TFLOP/s on an H200, ${shape_words(data.shape)}` : 'TFLOP/s on an H200',
        { class: 'small muted' }),
      rungs, line(limit, top - 4, limit, bottom, { class: 'line-e', 'stroke-dasharray': '5 4' }),
      text(limit - 5, top - 8, `FlashAttention-2: ${data.tflops.FA2.toFixed(0)}`,
        { class: 'small e end', name: 'FA2' }),
      text(2, bottom + 15, wide ? data.machine : data.machine.split(', ').slice(2).join(', '),
        { class: 'small muted' })])
  },

  describe(data, { focus }) {
    const rung = RUNGS.find((one) => number_of(one) === focus) ?? RUNGS.at(-1), tflops = speed_of(data, rung)
    const all = RUNGS.filter((one) => speed_of(data, one))
      .map((one) => `${number_of(one)} ${one[1]} ${speed_of(data, one).toFixed(1)}`)
    return `Chapter ${number_of(rung)}, ${rung[1]}: ${rung[2]}`
      + `${tflops ? `; ${tflops.toFixed(1)} TFLOP/s` : ''}. What still hurts: ${rung[3]}.`
      + `\nAll, at ${shape_words(data.shape)}: ${all.join(', ')}; FlashAttention-2 ${data.tflops.FA2.toFixed(1)}. ${data.machine}.`
  },
}
