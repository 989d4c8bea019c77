// The stall reasons of the warps in chapters 03 to 08, as parts of the kernel's time.
import { el, line, rect, shape_words, soft, svg, text, WIDE } from './draw.js'

// A short name for a segment, and its color. The long names come from tables.py.
const REASONS = {
  mio_throttle: ['queue', 'e'], short_scoreboard: ['shared', 'd'], long_scoreboard: ['global', 'b'],
  barrier: ['barrier', 'f'], math_pipe_throttle: ['tensor', 'c'], wait: ['fixed', 'a'],
  other: ['other', 'muted'],
}
const long_name = (data, reason) => data.reasons[reason] ?? 'issuing, and everything else'
const TITLES = { ch03: 'basic kernel', ch04: 'swizzling', ch05: 'pipelining', ch06: 'ldmatrix.x4',
  ch07: 'better pipelining', ch08: 'fewer instructions' }

const names_of = (data, state) => Object.keys(data.chapters).filter((name) => name >= state.from)
function pointed(data, state) {
  const [name, reason] = state.focus.split(':')
  const names = names_of(data, state)
  return { name: names.includes(name) ? name : names[0], reason }
}

// ---- the reader's shape: the emulator counts, in the page ----
const COUNTERS = { mma_instructions: 'mma', ldmatrix_instructions: 'ldmatrix', shared_load_wavefronts: 'shared load wavefronts',
  cp_async_instructions: 'cp.async', global_load_sectors: 'global load sectors', shuffle_instructions: 'shuffles', barriers: 'barriers' }
function live(data, state) {
  const shape = state.shape.trim(), { name } = pointed(data, state), key = `${name} ${shape}`
  return !shape || data.live?.[key] ? null : { key, request: { chapter: +name.slice(2), shape, profile: true } }
}
const heard = (data, { key }, { error, report }) => ({ ...data, live: { ...data.live,
  [key]: error ? { problem: error } : { chapter: report.profile, before: report.profile.previous } } })
// Returns the counters of the selected chapter, and of the previous one if it counts the same.
// `problem`: why there are none.
const counted = (data, state) => data.live?.[`${pointed(data, state).name} ${state.shape.trim()}`] ?? { problem: 'not run yet' }

// Draws the counters in place of the legend.
function draw_counters(data, state, y, { left, right, wide }) {
  const { chapter, before } = counted(data, state), start = wide ? 4 : left, ends = wide ? [430, 560] : [220, right - 4]
  const number = +pointed(data, state).name.slice(2), column = (at, head, counts, what) => [
    text(ends[at], y, head, { class: 'small muted end' }),
    Object.keys(COUNTERS).map((key, i) => text(ends[at], y + 22 + 20 * i, counts[key], { class: 'mono end', name: `${what}_${key}` }))]
  return [text(start, y, wide ? 'On the emulator, at your shape' : 'At your shape', { class: 'strong' }),
    Object.values(COUNTERS).map((words, i) => [line(start, y + 7 + 20 * i, ends[1], y + 7 + 20 * i),
      text(start, y + 22 + 20 * i, words)]),
    before ? column(0, `chapter 0${number - 1}`, before, 'before') : '', column(1, `chapter 0${number}`, chapter, 'count')]
}

function draw_bar(data, state, name, y, { left, x, wide }) {
  const { time_ms, waits } = data.chapters[name], chosen = pointed(data, state)
  const words = wide ? y + 18 : y + 10, top = wide ? y : y + 14, margin = wide ? 4 : left
  const parts = [text(margin, words, name.slice(2), { class: 'strong a' }),
    text(margin + 24, words, TITLES[name] ?? '', { class: name === chosen.name ? 'strong' : null })]
  let start = 0
  for (const [reason, [short, color]] of Object.entries(REASONS)) {
    const { ms } = waits[reason], width = x(ms) - left, on = name === chosen.name && reason === chosen.reason
    parts.push(el('g', { 'data-focus': `${name}:${reason}` }, [
      rect(x(start), top, width, 26, { class: on ? `${soft(color)} on` : soft(color) }),
      rect(x(start), top + 23, width, 3, { class: color }),
      width > 8 + 6.2 * short.length && text(x(start) + width / 2, top + 16, short,
        { class: `small middle${reason === chosen.reason ? ' strong' : ''} ${color}` }),
    ].filter(Boolean)))
    start += ms
  }
  parts.push(text(x(time_ms) + 8, top + 17, `${time_ms.toFixed(3)} ms`,
    { class: 'strong', name: `time_${name}` }))
  return parts
}

// Draws the legend with the numbers of the chosen bar.
function draw_legend(data, state, y, { left, right, wide }) {
  const { name, reason: chosen } = pointed(data, state), { waits } = data.chapters[name]
  const [first, second, third] = wide ? [430, 560, 690] : [220, 284, right - 4]
  const start = wide ? 4 : left
  const heads = [[first, wide ? 'clocks for each instruction' : 'clocks'], [second, 'ms'],
    [third, wide ? 'of the time' : '%']]
  const title = `Chapter ${name.slice(2)}${wide ? ': a warp waits for …' : ' waits for'}`
  const parts = [text(start, y, title, { class: 'strong' }),
    ...heads.map(([end, head]) => text(end, y, head, { class: 'small muted end' }))]
  Object.entries(REASONS).forEach(([reason, [short, color]], i) => {
    const { cycles, ms, percent } = waits[reason]
    const row = y + 22 + 20 * i, strong = reason === chosen ? ' strong' : ''
    parts.push(line(start, row - 15, third, row - 15),
      rect(start, row - 10, 11, 11, { class: color }),
      text(start + 18, row, wide ? long_name(data, reason) : short, { class: strong.trim() || null }),
      text(first, row, cycles.toFixed(2), { class: `mono end${strong}`, name: `cycles_${reason}` }),
      text(second, row, ms.toFixed(3), { class: `mono end${strong}`, name: `ms_${reason}` }),
      text(third, row, `${percent} %`, { class: `mono end${strong}`, name: `percent_${reason}` }))
  })
  return parts
}

export default {
  title: 'What a warp’s time goes to, chapter by chapter',
  sources: { profile: ['docs/measurements/tables.py', 'profile', '--json', '{json}'] },
  data: ({ profile }) => profile,
  stills: {
    'chapters/04_swizzling/figures/profile.svg': { from: 'ch03', focus: 'ch04:mio_throttle' },
    'chapters/05_pipelining/figures/profile.svg': { focus: 'ch05:long_scoreboard' },
    'chapters/08_fewer_instructions/figures/profile.svg': {},
  },
  // Starts with the last chapter and its largest stall reason.
  initial({ chapters }) {
    const [name, { waits }] = Object.entries(chapters).at(-1)
    const most = Object.keys(REASONS).filter((reason) => reason !== 'other')
      .reduce((best, reason) => waits[reason].cycles > waits[best].cycles ? reason : best)
    return { from: 'ch04', focus: `${name}:${most}`, shape: '' }
  },
  live,
  heard,
  controls: () => [{ key: 'from', type: 'choice', label: 'chapters',
    options: [['ch03', '03 to 08'], ['ch04', '04 to 08']] },
  { key: 'shape', type: 'line', label: 'counters at your shape' }],

  draw(data, state, width) {
    const wide = width >= WIDE, names = names_of(data, state)
    const left = wide ? 170 : 8, right = width - 4
    const most = Math.max(...names.map((name) => data.chapters[name].time_ms))
    const place = { left, right, wide, x: (ms) => left + ms / most * (wide ? 470 : 272) }
    const parts = [text(wide ? 4 : left, 14, wide ? `Time of the kernel at ${shape_words(data.shape)}`
      : `At ${shape_words(data.shape)}`, { class: 'strong' })]
    let y = 32
    for (const name of names) {
      parts.push(draw_bar(data, state, name, y, place))
      y += wide ? 34 : 46
    }
    y += 24
    parts.push((counted(data, state).problem ? draw_legend : draw_counters)(data, state, y, place))
    y += 22 + 20 * 6 + 30
    const about = data.machine.split(', ')
    if (!wide) return svg(width, y - 24, parts)  // the caption names the machine
    parts.push(text(4, y, about.join(', '), { class: 'small muted' }))
    return svg(width, y + 10, parts)
  },

  describe(data, state) {
    const { name, reason } = pointed(data, state), { time_ms, cycles, waits } = data.chapters[name]
    const list = Object.keys(REASONS).map((one) => `${long_name(data, one)} ${waits[one].cycles.toFixed(2)}`)
    const times = names_of(data, state)
      .map((one) => `${one.slice(2)} ${data.chapters[one].time_ms.toFixed(3)}`)
    const shape = state.shape.trim().slice(0, 40), { problem, chapter } = counted(data, state)
    const counts = shape && (problem ? `Shape ${shape}: ${problem}. `
      : `The emulator counts at ${shape}: ${Object.entries(COUNTERS).map(([key, words]) => `${words} ${chapter[key]}`).join(', ')}. `)
    return `${counts}Chapter ${name.slice(2)}, ${long_name(data, reason)}: ${waits[reason].cycles.toFixed(2)} of the `
      + `${cycles.toFixed(2)} clocks that an instruction takes a warp, ${waits[reason].percent} % of `
      + `${time_ms.toFixed(3)} ms.\nAll: ${list.join('; ')}. Milliseconds of chapters ${times.join(', ')}, `
      + `at ${shape_words(data.shape)}. ${data.machine}.`
  },
}
