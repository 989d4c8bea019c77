// Chapter 13's descriptors: 64 bits that give the address of a wgmma operand in a swizzled tile.
import { boxes, circle, COLOR, el, flow_marks, flow_words, line, lines, rect, round, svg, text, WIDE, wrapped }
  from './draw.js'
import { bits_of, chunk_in, CHUNKS, fields_of, is_right, place_of, reads_of, reduce } from './descriptor_log.js'

const BREAK = 'k-descriptor-for-v'
const OPERANDS = { K: 'K', V: 'V', broken: `V, ${BREAK}` }
const GROUP = 8  // lines that the swizzle permutes together

const tile_of = (data, { operand }) => data[operand]
const rows_of = ({ bytes }) => bytes / 256
const groups_of = (tile, step) =>
  reads_of(tile, step).map(({ panel, row }) => `${panel}:${Math.floor(row / GROUP)}`)

// Returns the eight lines that are drawn large, which are the lines that the reader selects if this wgmma or none
// reads them, else the first lines that it reads.
function shown_group(tile, { step, focus }) {
  const wanted = focus?.match(/^group:(\d:\d+)$/)?.[1], here = groups_of(tile, step)
  const never = wanted && !tile.descriptors.some((_, other) => groups_of(tile, other).includes(wanted))
  return (here.includes(wanted) || never ? wanted : here[0]).split(':').map(Number)
}

// ---- words ----
const hexadecimal = (number) => `0x${number.toString(16)}`
const range = (first, count) => `${first} to ${first + count - 1}`
const line_bytes = (bytes) => bytes === 1 ? '1 byte' : `${bytes} bytes`

function reads_words(tile, step) {
  const all = `wgmma ${step + 1} of ${tile.descriptors.length} reads`
  if (tile.major === 'k') return `${all} columns ${range(16 * step, 16)} of all ${tile.n} keys`
  return `${all} keys ${range(16 * step, 16)}, all ${tile.n} columns`
}

// Returns what it reads instead of the correct chunks, and for which columns, on the same line and on the next.
function wrong_words(tile, step) {
  const wrong = reads_of(tile, step).filter((read) => !is_right(read) && read.for[0] === 16 * step)
  if (!wrong.length) return ''
  const column = (panel, chunk) => 8 * (CHUNKS * panel + chunk)
  const part = (down) => wrong.filter(({ row, for: [wanted] }) => row - wanted === down)
  const [[same], [next]] = [part(0), part(1)], count = 8 * part(0).length, rest = 8 * part(1).length
  return `for columns ${range(column(same.for[1], same.for[2]), count)} it finds columns `
    + `${range(column(same.panel, same.chunk), count)}, for ${range(column(next.for[1], next.for[2]), rest)} `
    + `chunk ${next.chunk} of the next line`
}

// Returns the meaning of the four parts of 16 bits, which are the field, its number of bits, its value, and the
// value in bytes.
function parts_of(tile, descriptor) {
  const { start, leading, stride, swizzle } = fields_of(descriptor), from = start - tile.start
  const letter = tile.matrix
  return [
    { name: 'start', color: 'a', number: hexadecimal(start / 16), short: `${letter} + ${from}`,
      words: `byte ${start}: ${letter} + ${from}` },
    { name: 'leading', color: 'd', number: leading / 16,
      short: tile.major === 'k' ? 'not used' : line_bytes(leading),
      words: tile.major === 'k' ? 'not used where the sum runs along a line'
        : `${line_bytes(leading)} to the next 64 columns` },
    { name: 'stride', color: 'f', number: stride / 16, short: line_bytes(stride),
      words: `${line_bytes(stride)} to the next 8 lines` },
    { name: 'swizzle', color: '', number: swizzle, short: '128 bytes',
      words: 'lines of 128 bytes, chunks by row % 8' },
  ]
}

// ---- drawing ----
function draw_bits(tile, descriptor, wide, y) {
  const left = wide ? 70 : 38, size = wide ? 15 : 10, pitch = 20, bits = bits_of(descriptor)
  return parts_of(tile, descriptor).map(({ name, color, number, short, words }, part) => {
    const own = bits.slice(48 - 16 * part, 64 - 16 * part), top = y + pitch * part
    const used = (i) => name === 'swizzle' ? i < 2 : i >= 2
    const at = (i) => [left + size * i, top, size - 1, 15]
    const all = [...own].map((_, i) => i)
    return [
      text(left - 4, top + 11.5, `${wide ? 'bits ' : ''}${16 * part + 15}–${16 * part}`,
        { class: 'small muted end' }),
      boxes(all.filter((i) => !used(i)).map(at), { class: 'cell' }),
      boxes(all.filter(used).map(at), { class: color ? `soft-${color}` : 'soft' }),
      text(all.map((i) => round(left + size * (i + 0.5) - 0.5)).join(' '), top + 11.5, own,
        { class: 'small mono middle', name: `bits_${name}` }),
      text(left + 16 * size + 6, top + 11.5, `${name} `, { class: `small strong ${color}` }),
      text(left + 16 * size + (wide ? 60 : 58), top + 11.5,
        wide ? `${name === 'swizzle' ? '' : '16 × '}${number}: ${words}` : short, { class: 'small', name })]
  })
}

// Draws the whole tile in the order of shared memory, with its panels side by side.
function draw_tile({ tile, reads, group, fields, wide }, y) {
  const left = wide ? 40 : 24, size = wide ? 15 : 7, gap = wide ? 14 : 6, height = wide ? 1.9 : 1.5
  const panel_width = CHUNKS * size, x = (panel, place) => left + panel * (panel_width + gap) + place * size
  const rows = rows_of(tile), y_of = (row) => y + row * height, color = COLOR[tile.matrix]
  // Chunks read for other columns use the right half of their place, because they may also be read
  // correctly.
  const of = (right) => boxes(reads.filter((read) => is_right(read) === right).map(({ panel, row, place }) =>
    right ? [x(panel, place), y_of(row), size, height]
      : [x(panel, place) + size / 2, y_of(row), size / 2, height]), { class: right ? color : 'e' })
  const from = place_of(tile, fields.start), [at_x, at_y] = [x(from.panel, from.place), y_of(from.row)]
  const next = place_of(tile, fields.start + fields.leading)
  return [
    [0, 1].map((panel) => [
      text(x(panel, 0), y - 9, `panel ${panel}${wide ? `: columns ${64 * panel}–${64 * panel + 63}` : ''}`,
        { class: 'small muted' }),
      rect(x(panel, 0), y, panel_width, rows * height, { class: 'soft' })]),
    text(left - 4, y + 8, 0, { class: 'small muted end' }),
    text(left - 4, y_of(rows), rows - 1, { class: 'small muted end' }),
    of(true), of(false),
    lines([0, 1].flatMap((panel) => Array.from({ length: rows / GROUP - 1 }, (_, i) => y_of(GROUP * (i + 1)))
      .map((at) => [[x(panel, 0), at], [x(panel, CHUNKS), at]])), { class: 'axis' }),
    line(at_x - 3, at_y, at_x - 3, y_of(from.row + fields.stride / 128), { class: 'line-f' }),
    tile.major === 'k' ? '' : line(at_x, at_y - 2, x(next.panel, next.place), at_y - 2, { class: 'line-d' }),
    circle(at_x, at_y, 3.5, { class: 'a' }),
    [0, 1].map((panel) => Array.from({ length: rows / GROUP }, (_, i) =>
      rect(x(panel, 0), y_of(GROUP * i), panel_width, GROUP * height,
        { opacity: 0, 'data-focus': `group:${panel}:${i}` }))),
    rect(x(group[0], 0) - 1, y_of(GROUP * group[1]) - 1, panel_width + 2, GROUP * height + 2,
      { class: 'line-b' }),
  ]
}

// Draws eight lines of the tile, 1024 bytes, with the chunk in each place.
function draw_group({ tile, reads, group: [panel, number], wide }, y) {
  const left = wide ? 376 : 176, size = wide ? 42 : 22, height = wide ? 25 : 20, color = COLOR[tile.matrix]
  const of = (row, place) =>
    reads.filter((read) => read.panel === panel && read.row === row && read.place === place)
  return [
    text(wide ? 340 : 156, y - 9, `panel ${panel}, rows ${range(GROUP * number, GROUP)}`
      + (wide ? ': the chunk of 8 columns in each place' : ''), { class: 'small' }),
    Array.from({ length: GROUP }, (_, i) => {
      const row = GROUP * number + i, top = y + height * i
      return [
        text(left - 5, top + height / 2 + 4, row, { class: 'small muted end' }),
        Array.from({ length: CHUNKS }, (_, place) => {
          const here = of(row, place), at = left + size * place, own = here.some(is_right)
          const other = here.some((read) => !is_right(read))
          return [rect(at + 0.5, top + 0.5, size - 1, height - 1, { class: own ? color : `soft-${color}` }),
            other ? rect(at + size / 2, top + 0.5, size / 2 - 0.5, height - 1, { class: 'e' }) : '',
            text(at + size * (other ? 0.25 : 0.5), top + height / 2 + 4, chunk_in(row, place),
              { class: `small middle${own ? ' strong inverse' : ''}`, name: `chunk_${i}_${place}` })]
        })]
    })]
}

function draw_legend({ tile, wrong }, width, y) {
  return flow_marks([
    [20, 'read by this wgmma', rect(0, 1, 14, 12, { class: COLOR[tile.matrix] })],
    ...wrong ? [[20, 'read for other columns', rect(0, 1, 14, 12, { class: 'e' })]] : [],
    [16, 'start', circle(5, 7, 3.5, { class: 'a' })],
    [14, 'stride', line(5, 1, 5, 13, { class: 'line-f' })],
    ...tile.major === 'k' ? [] : [[24, 'leading', line(0, 7, 18, 7, { class: 'line-d' })]],
    [20, 'the 8 lines beside', rect(1, 2, 12, 10, { class: 'line-b' })],
  ], width, y)
}

export default {
  title: 'One descriptor: which bytes of a swizzled tile a wgmma reads',
  sources: {
    intact: ['ch13_wgmma', '--device', 'emulator', '--shape', '1,1,128,128,128', '--events', '{json}'],
    broken: ['ch13_wgmma', '--device', 'emulator', '--shape', '1,1,128,128,128', '--break', BREAK, '--events',
      '{json}'],
  },
  data: ({ intact, broken }) =>
    ({ K: reduce(intact, 'K'), V: reduce(intact, 'V'), broken: reduce(broken, 'V') }),
  stills: {
    'chapters/13_wgmma/figures/descriptor_k.svg': {},
    'chapters/13_wgmma/figures/descriptor_v.svg': { operand: 'V', step: 2 },
    'chapters/13_wgmma/figures/k_descriptor_for_v.svg': { operand: 'broken', step: 2 },
  },
  initial: () => ({ operand: 'K', step: 2 }),

  controls: (data, state) => [
    { key: 'operand', type: 'choice', label: 'operand B', options: Object.entries(OPERANDS) },
    { key: 'step', type: 'step', label: 'wgmma', min: 0, max: tile_of(data, state).descriptors.length - 1,
      play: 900, show: (step) => step + 1 },
  ],
  settle: (data, state) =>
    ({ ...state, step: Math.min(state.step, tile_of(data, state).descriptors.length - 1) }),
  // If this wgmma does not read these lines, continue with the first one that does.
  focus(data, state, focus) {
    const tile = tile_of(data, state), group = focus.replace('group:', '')
    const reading = tile.descriptors.map((_, step) => groups_of(tile, step).includes(group))
    const stays = reading[state.step] || !reading.includes(true)
    return { ...state, focus, step: stays ? state.step : reading.indexOf(true) }
  },

  draw(data, state, width) {
    const tile = tile_of(data, state), wide = width >= WIDE, descriptor = tile.descriptors[state.step]
    const reads = reads_of(tile, state.step), wrong = wrong_words(tile, state.step)
    const view = { tile, reads, group: shown_group(tile, state), fields: fields_of(descriptor), wide, wrong }
    const heading = flow_words([
      [state.operand === 'broken' ? `Broken: ${BREAK}` : `Descriptor of ${tile.matrix}`, { class: 'strong' }],
      [descriptor, { class: 'mono', name: 'descriptor' }],
    ], width, 14)
    const bits = heading.bottom + 6, top = bits + 4 * 20 + 28
    const bottom = top + rows_of(tile) * (wide ? 1.9 : 1.5)
    const words = [[reads_words(tile, state.step), ''], [wrong, 'e']]
      .flatMap(([sentence, color]) => wrapped(sentence, width, 11).map((part) => [part, color]))
    const legend = draw_legend(view, width, bottom + 18 + 15 * words.length)
    return svg(width, legend.bottom + 12, [
      heading.drawn, draw_bits(tile, descriptor, wide, bits), draw_tile(view, top), draw_group(view, top),
      words.map(([part, color], i) => text(4, bottom + 20 + 15 * i, part,
        { class: `small strong ${color}`, name: `reads_${i}` })),
      legend.drawn])
  },

  describe(data, state) {
    const tile = tile_of(data, state), descriptor = tile.descriptors[state.step]
    const wrong = wrong_words(tile, state.step)
    const [panel, group] = shown_group(tile, state), here = reads_of(tile, state.step)
      .filter((read) => read.panel === panel && Math.floor(read.row / GROUP) === group)
    const places = [...new Set(here.map(({ chunk }) => chunk))].sort()
    const fields = parts_of(tile, descriptor).map(({ name, number, words }) =>
      `${name} ${name === 'swizzle' ? '' : '16 × '}${number}, ${words}`)
    const found = places.length ? `chunk${places.length > 1 ? 's' : ''} ${places.join(', ')}` : 'nothing'
    return `${reads_words(tile, state.step)}${wrong && `; ${wrong}`}. Of rows ${range(GROUP * group, GROUP)} in `
      + `panel ${panel} it reads ${found}. `
      + `Descriptor ${descriptor}: ${fields.join('; ')}.`
      + '\nThe tile is 128 keys of 128 columns of bf16, as tma_load has put it there: two panels of 64 columns, '
      + 'one behind the other, each line 128 bytes, 8 chunks of 16. Chunk c of row r lies in place c ^ r % 8. '
      + 'wgmma undoes that by itself, as its addresses are swizzled too. Addresses are the emulator’s, where '
      + 'dynamic shared memory begins at byte 1024.'
  },
}
