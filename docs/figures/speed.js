// The speed of chapters 03 to 08 and their peers on one GPU, from the tables of the lessons.
import { el, line, rect, shape_words, svg, text, WIDE } from './draw.js'

// Name and idea. A peer without an entry is drawn with its name only.
const IDEAS = {
  ch03: ['basic kernel', 'chapter 02’s loop with cp.async, ldmatrix and mma'],
  ch04: ['swizzling', 'XOR on the shared-memory address: no conflicts'],
  ch05: ['pipelining', 'load the next tile during this one'],
  ch06: ['ldmatrix.x4', 'one ldmatrix brings operand B for two mma'],
  ch07: ['better pipelining', 'one V buffer is enough: the tile grows back'],
  ch08: ['fewer instructions', '32 rows a warp, a lazy maximum'],
  FA2: ['FlashAttention-2', 'the one that PyTorch brings'],
  cuDNN: ['cuDNN', 'Hopper’s own instructions'],
  flex: ['flex attention', 'PyTorch’s, compiled by Triton'],
}
const is_chapter = (name) => /^ch\d\d$/.test(name)
const title_of = (name) => IDEAS[name]?.[0] ?? name
const full_name = (name) => is_chapter(name) ? `Chapter ${name.slice(2)}, ${title_of(name)}` : title_of(name)
const color_of = (name) => is_chapter(name) ? 'a' : name === 'FA2' ? 'b' : 'd'
const chapter_before = (name) => `chapter ${String(name.slice(2) - 1).padStart(2, '0')}`

const cells_of = (data, state) => data.shapes[state.shape]
const focused = (data, state) => state.focus in cells_of(data, state) ? state.focus
  : data.names.find((name) => name in cells_of(data, state))

// Returns the facts about the selected bar: [words, name of the number in them].
function facts_of(data, state) {
  const name = focused(data, state)
  const { slow, fast, of_limit, times_fa2, times_before } = cells_of(data, state)[name]
  return [
    [`half of the samples ${slow.toFixed(1)} to ${fast.toFixed(1)}`, 'quartiles'],
    [`${of_limit.toFixed(1)} % of mma.sync alone`, 'of_limit'],
    times_fa2 !== null && name !== 'FA2' && [`${times_fa2.toFixed(2)} × FlashAttention-2`, 'times_fa2'],
    times_before !== null && [`${times_before.toFixed(2)} × ${chapter_before(name)}`, 'times_before'],
  ].filter(Boolean)
}

function draw_bar(name, cell, on, y, { left, right, x, wide }) {
  const color = color_of(name), start = wide ? 4 : left
  const [words, top] = wide ? [y + 17, y + 3] : [y + 10, y + 14]
  const parts = [rect(0, y, right, wide ? 26 : 33, { opacity: 0 }),
    is_chapter(name) && text(start, words, name.slice(2), { class: `strong ${color}` }),
    text(start + (is_chapter(name) ? 24 : 0), words, title_of(name), { class: on ? 'strong' : null })]
  if (!cell) return [parts, text(left + 6, top + 14, 'does not take this shape', { class: 'small muted' })]
  const [slow, fast] = [x(cell.slow), x(cell.fast)]
  parts.push(rect(left, top, x(cell.tflops) - left, 19, { class: on ? color : `soft-${color}` }),
    ...[[slow, top + 9, fast - slow, 1], [slow - 0.5, top + 5, 1, 9], [fast - 0.5, top + 5, 1, 9]]
      .map((box) => rect(...box, { class: 'muted' })),
    text(fast + 8, top + 14, cell.tflops.toFixed(1), { class: 'strong', name: `tflops_${name}` }))
  if (cell.times_before !== null) {
    parts.push(text(right, words, `× ${cell.times_before.toFixed(2)}`,
      { class: 'small muted end', name: `gain_${name}` }))
  }
  return el('g', { 'data-focus': name }, parts)
}

export default {
  title: 'Measured speed: the chapters and their peers',
  sources: { speed: ['docs/measurements/tables.py', 'speed', '--json', '{json}'] },
  data: ({ speed }) => speed,
  stills: { 'docs/figures/speed.svg': {}, 'chapters/08_fewer_instructions/figures/speed.svg': {} },
  initial({ shapes }) {
    const usual = '2,16,8192,8192,128'
    return { shape: usual in shapes ? usual : Object.keys(shapes)[0], focus: 'ch08' }
  },
  controls: ({ shapes }) => [{ key: 'shape', type: 'choice', label: 'problem',
    options: Object.keys(shapes).map((shape) => [shape, shape_words(shape)]) }],

  draw(data, state, width) {
    const wide = width >= WIDE, cells = cells_of(data, state), name = focused(data, state)
    const left = wide ? 172 : 8, right = width - 4
    const most = Math.max(data.limit,
      ...Object.values(data.shapes).flatMap((shape) => Object.values(shape).map(({ fast }) => fast)))
    const x = (tflops) => left + tflops / most * (wide ? 432 : 290)
    const parts = [text(wide ? 4 : left, 14, `TFLOP/s at ${shape_words(state.shape)}`, { class: 'strong' }),
      text(right, 40, wide ? '× chapter before' : '× before', { class: 'small muted end' })]
    let y = 48
    data.names.forEach((one, i) => {
      if (i && !is_chapter(one) && is_chapter(data.names[i - 1])) y += 12  // separate the peers
      parts.push(draw_bar(one, cells[one], one === name, y, { left, right, x, wide }))
      y += wide ? 28 : 34
    })
    parts.push(line(x(data.limit), 46, x(data.limit), y + 2, { class: 'line-e', 'stroke-dasharray': '5 4' }),
      text(x(data.limit) - 6, 40, 'mma.sync alone:', { class: 'small e end' }),
      text(x(data.limit), 40, data.limit, { class: 'small strong e', name: 'limit' }))
    y += 30
    const start = wide ? 4 : left
    parts.push(text(start, y, full_name(name), { class: `strong ${color_of(name)}` }),
      text(wide ? 248 : left, wide ? y : y += 18, IDEAS[name]?.[1] ?? ''))
    facts_of(data, state).forEach(([words, key], i) => parts.push(wide
      ? text(248 + i % 2 * 248, y + 20 + 18 * (i >> 1), words, { class: 'muted', name: key })
      : text(left, y += 18, words, { class: 'muted', name: key })))
    y += wide ? 70 : 30
    const about = data.machine.split(', ')
    if (!wide) return svg(width, y - 18, parts)  // the caption names the machine
    parts.push(text(start, y, about.join(', '), { class: 'small muted' }))
    return svg(width, y + 10, parts)
  },

  describe(data, state) {
    const cells = cells_of(data, state), name = focused(data, state)
    const all = data.names.filter((one) => one in cells)
      .map((one) => `${full_name(one)} ${cells[one].tflops.toFixed(1)}`)
    return `${full_name(name)}${IDEAS[name] ? `: ${IDEAS[name][1]}` : ''}. `
      + `${cells[name].tflops.toFixed(1)} TFLOP/s; `
      + `${facts_of(data, state).map(([words]) => words).join(', ')}.\n`
      + `All at ${shape_words(state.shape)}: `
      + `${all.join('; ')}. mma.sync alone: ${data.limit}. ${data.machine}.`
  },
}
