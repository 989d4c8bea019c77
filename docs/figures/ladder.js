// The speed of the kernels of chapters 03 to 16 as a ladder. No run has all kernels and the three
// peers, so the ladder has three parts, one for each run. Each rung is a link to its chapter.
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
const RUNS = {  // key: description of the run; its rungs as [focus, chapter, number in the run]
  ampere: ['One run on an H200: Ampere’s instructions', ['03', '04', '05', '06', '07', '08'].map((n) => [n, n, `ch${n}`])],
  hopper: ['One run on an H100: Hopper’s instructions', [['08 again', '08', 'ch08'],
    ...['12', '13', '14', '15', '16'].map((n) => [n, n, `ch${n}`])]],
  race: ['Another run on an H100, with FlashAttention-3', [['fastest', '16', 'ours']]],
}
const SHAPES = ['1,16,16384,16384,128', '2,16,8192,8192,128', '2,32,8192,8192,64']

// Returns the keys at the top of a stored CSV as words.
const about_of = ({ about }) => Object.entries(about).map(([key, value]) => `${key}: ${value}`).join('; ')
const title_of = (focus, chapter) => focus === 'fastest' ? 'the fastest of them' : CHAPTERS[chapter][1]
const idea_of = (focus, chapter) => ({ 'fastest': 'up to chapter 16, as it was then', '08 again': 'the same kernel on this card' })[focus]
  ?? CHAPTERS[chapter][2]
const rungs_of = (run, speeds) => RUNS[run][1].map(([focus, chapter, key]) => ({ focus, chapter, tflops: speeds[key] }))

export default {
  title: 'The ladder: one idea per chapter, and the speed that each one reaches',
  sources: { speed: ['docs/measurements/tables.py', 'speed', '--json', '{json}'],
    steady: ['docs/measurements/h100/hopper_steady.csv'], fa3: ['docs/measurements/h100/fa3.csv'] },

  data({ speed, steady, fa3 }) {
    const short = (shape) => shape.split(',').filter((_, i) => i !== 2).join(' ')
    const shapes = Object.fromEntries(SHAPES.map((shape) => [shape, {
      ampere: Object.fromEntries(Object.entries(speed.shapes[shape]).map(([name, { tflops }]) => [name, tflops])),
      hopper: Object.fromEntries(steady.rows.filter((row) => row.race === 'peers' && row.shape === shape.replaceAll(',', ' '))
        .map(({ kernel, tflops }) => [kernel, tflops])),
      race: Object.fromEntries(fa3.rows.filter((row) => row.pass === 'forward' && row.causal === 0 && row.shape === short(shape))
        .flatMap((row) => ['ours', 'FA2', 'cuDNN', 'FA3'].map((name) => [name, row[name]]))),
    }]))
    return { machines: { ampere: speed.machine, hopper: about_of(steady), race: about_of(fa3) }, shapes }
  },
  stills: { 'docs/figures/ladder.svg': {} },
  initial: () => ({ shape: SHAPES[0], focus: '16' }),
  controls: () => [{ key: 'shape', type: 'choice', label: 'problem',
    options: SHAPES.map((shape) => [shape, shape_words(shape)]) }],

  draw(data, state, width) {
    const wide = width >= WIDE, left = wide ? 394 : 150, pitch = wide ? 22 : 26, head = wide ? 28 : 46
    const speeds = data.shapes[state.shape], most = Math.max(...Object.values(speeds).flatMap((run) =>
      Object.entries(run).filter(([name]) => name !== 'flex').map(([, tflops]) => tflops)))
    const x = (tflops) => left + tflops / most * (width - left - (wide ? 62 : 44))
    let y = 20
    const parts = Object.keys(RUNS).map((run) => {
      const top = y + head, rungs = rungs_of(run, speeds[run]), bottom = top + rungs.length * pitch
      const title = text(2, wide ? top - 7 : top - 33, RUNS[run][0], { class: 'small strong muted' })
      const bars = rungs.map(({ focus, chapter, tflops }, i) => {
        const at = top + i * pitch, on = state.focus === focus, words = at + pitch / 2 + 5
        return el('a', { href: `chapters/${CHAPTERS[chapter][0]}/`, 'data-focus': focus,
          'aria-label': `Chapter ${chapter}, ${title_of(focus, chapter)}` }, [
          rect(1, at + 1, width - 2, pitch - 2, { class: on ? 'soft-f' : 'soft', rx: 5 }),
          text(9, words, focus === 'fastest' ? '' : chapter, { class: 'strong a' }),
          text(focus === 'fastest' ? 9 : 32, words, title_of(focus, chapter), { class: wide ? 'strong' : 'small strong' }),
          wide ? text(196, words - 1, idea_of(focus, chapter), { class: 'small muted' }) : '',
          rect(left, at + 4, x(tflops) - left, pitch - 8, { class: focus === '08 again' ? 'soft-a' : 'a' }),
          text(width - 8, words, wide ? tflops.toFixed(1) : tflops.toFixed(0), { class: 'strong end', name: `${run}_${focus}` })])
      })
      const peers = Object.entries(PEERS).filter(([name]) => speeds[run][name]).map(([name, [, short]]) => {
        const tflops = speeds[run][name], high = name === 'cuDNN' && !wide  // a separate row
        const right = name === 'FA3' || name === 'cuDNN' && wide && !speeds[run].FA3
        return [line(x(tflops), top - (high ? 17 : 4), x(tflops), bottom, { class: 'line-e', 'stroke-dasharray': '5 4' }),
          text(x(tflops) + (right ? 2 : -3), top - (high ? 20 : 7), `${short} ${tflops.toFixed(0)}`,
            { class: right ? 'small e' : 'small e end', name: `${run}_${name}` })]
      })
      y = bottom
      return [title, bars, peers]
    })
    return svg(width, y + 8, [text(2, 14, `TFLOP/s, bf16, ${shape_words(state.shape)}`, { class: 'strong' }), parts])
  },

  describe(data, { shape, focus }) {
    const speeds = data.shapes[shape]
    const all = Object.keys(RUNS).map((run) => ({ run, rungs: rungs_of(run, speeds[run]) }))
    const { run, rungs } = all.find(({ rungs }) => rungs.some((one) => one.focus === focus)) ?? all[1]
    const { chapter, tflops, focus: key } = rungs.find((one) => one.focus === focus) ?? rungs.at(-1)
    const peers = (run) => Object.entries(PEERS).filter(([name]) => speeds[run][name])
      .map(([name, [long]]) => `${long} ${speeds[run][name]}`).join(', ')
    return `${key === 'fastest' ? 'The fastest forward kernel up to chapter 16' : `Chapter ${chapter}, ${title_of(key, chapter)}`}`
      + `${key === 'fastest' ? '' : `: ${idea_of(key, chapter)}`}; ${tflops} TFLOP/s. In the same run: ${peers(run)}.\n`
      + all.map(({ run, rungs }) => `${RUNS[run][0]} (${data.machines[run]}), at ${shape_words(shape)}: `
        + `${rungs.map((one) => `${one.focus} ${one.tflops}`).join(', ')}; ${peers(run)}.`).join(' ')
  },
}
