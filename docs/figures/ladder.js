// The speed of the kernels of chapters 03 to 16, and of three peers, in one run on one card, as a
// ladder. Each rung is a link to its chapter.
import { el, line, rect, shape_words, svg, text, WIDE } from './draw.js'

const CHAPTERS = {  // number: directory, title, idea
  '03': ['03_basic_kernel', 'basic kernel', 'cp.async → ldmatrix → mma'],
  '04': ['04_swizzling', 'swizzling', 'XOR on shared addresses'],
  '05': ['05_pipelining', 'pipelining', 'load the next tile meanwhile'],
  '06': ['06_ldmatrix_x4', 'ldmatrix.x4', 'four 8 × 8 matrices each'],
  '07': ['07_better_pipelining', 'better pipelining', 'one V buffer is enough'],
  '08': ['08_fewer_instructions', 'fewer instructions', '32 rows per warp, lazy maximum'],
  '12': ['12_tma', 'TMA', 'the copy engine moves tiles'],
  '13': ['13_wgmma', 'wgmma', 'products read shared memory'],
  '14': ['14_warp_specialization', 'warp roles', 'a producer and its consumers'],
  '15': ['15_overlap', 'overlap', 'softmax runs under a product'],
  '16': ['16_maximum_on_demand', 'maximum on demand', 'no exact maximum per tile'],
}
const PEERS = { FA2: ['FlashAttention-2', 'FA2'], cuDNN: ['cuDNN', 'cuDNN'], FA3: ['FlashAttention-3', 'FA3'] }
const SHAPES = ['2,16,8192,8192,128', '1,16,16384,16384,128', '2,32,8192,8192,64']

const rungs_of = (speeds) => Object.keys(CHAPTERS).sort().map((chapter) => ({ chapter, tflops: speeds[`ch${chapter}`] }))

export default {
  title: 'The ladder: one idea per chapter, and the speed that each one reaches',
  sources: { run: ['docs/measurements/h100/one_run.csv'] },

  data({ run }) {
    const short = (shape) => shape.split(',').filter((_, i) => i !== 2).join(' ')
    return { machine: Object.entries(run.about).map(([key, value]) => `${key}: ${value}`).join('; '),
      shapes: Object.fromEntries(SHAPES.map((shape) => [shape, Object.fromEntries(run.rows
        .filter((row) => row.race === 'ladder' && !row.causal && row.shape === short(shape))
        .map(({ kernel, value }) => [kernel, value]))])) }
  },
  stills: { 'docs/figures/ladder.svg': {} },
  initial: () => ({ shape: SHAPES[0], focus: '16' }),
  controls: () => [{ key: 'shape', type: 'choice', label: 'problem',
    options: SHAPES.map((shape) => [shape, shape_words(shape)]) }],

  draw(data, state, width) {
    const wide = width >= WIDE, left = wide ? 394 : 150, pitch = wide ? 22 : 26, top = wide ? 48 : 66
    const speeds = data.shapes[state.shape], most = Math.max(...Object.values(speeds))
    const x = (tflops) => left + tflops / most * (width - left - (wide ? 62 : 44))
    const rungs = rungs_of(speeds), bottom = top + rungs.length * pitch
    const bars = rungs.map(({ chapter, tflops }, i) => {
      const at = top + i * pitch, words = at + pitch / 2 + 5, [directory, title, idea] = CHAPTERS[chapter]
      return el('a', { href: `chapters/${directory}/`, 'data-focus': chapter, 'aria-label': `Chapter ${chapter}, ${title}` }, [
        rect(1, at + 1, width - 2, pitch - 2, { class: state.focus === chapter ? 'soft-f' : 'soft', rx: 5 }),
        text(9, words, chapter, { class: 'strong a' }),
        text(32, words, title, { class: wide ? 'strong' : 'small strong' }),
        wide ? text(196, words - 1, idea, { class: 'small muted' }) : '',
        rect(left, at + 4, x(tflops) - left, pitch - 8, { class: 'a' }),
        text(width - 8, words, wide ? tflops.toFixed(1) : tflops.toFixed(0), { class: 'strong end', name: chapter })])
    })
    const peers = Object.entries(PEERS).filter(([name]) => speeds[name]).map(([name, [, short]]) => {
      const tflops = speeds[name], high = name === 'cuDNN' && !wide  // in a separate row
      return [line(x(tflops), top - (high ? 17 : 4), x(tflops), bottom, { class: 'line-e', 'stroke-dasharray': '5 4' }),
        text(x(tflops) + (name === 'FA3' ? 2 : -3), top - (high ? 20 : 7), `${short} ${tflops.toFixed(0)}`,
          { class: name === 'FA3' ? 'small e' : 'small e end', name })]
    })
    return svg(width, bottom + 8, [text(2, 14, `TFLOP/s, bf16, ${shape_words(state.shape)}`, { class: 'strong' }),
      text(2, wide ? 41 : 31, 'One run on an H100', { class: 'small strong muted' }), bars, peers])
  },

  describe(data, { shape, focus }) {
    const speeds = data.shapes[shape], rungs = rungs_of(speeds), chapter = CHAPTERS[focus] ? focus : '16'
    const [, title, idea] = CHAPTERS[chapter]
    return `Chapter ${chapter}, ${title}: ${idea}; ${speeds[`ch${chapter}`]} TFLOP/s.\n`
      + `${data.machine}, at ${shape_words(shape)}: ${rungs.map((one) => `${one.chapter} ${one.tflops}`).join(', ')}; `
      + `${Object.entries(PEERS).filter(([name]) => speeds[name]).map(([name, [long]]) => `${long} ${speeds[name]}`).join(', ')}.`
  },
}
