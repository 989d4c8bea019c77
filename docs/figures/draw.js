// Drawing functions for all figures. They return SVG strings and work without a DOM, both in Node
// (pictures for the READMEs) and in the browser. Coordinates are pixels of a drawing that is WIDE
// or NARROW pixels wide.

export const WIDE = 720
export const NARROW = 360

// Name: [light, dark]. The colors a to f are distinguishable for color-blind readers. The soft_…
// colors are backgrounds for text in --fg.
const PALETTE = {
  bg: ['#ffffff', '#1b1b1f'],
  fg: ['#1f2328', '#e6e8eb'],
  muted: ['#5c6570', '#a3abb5'],
  line: ['#c9d0d8', '#454b54'],
  soft: ['#eef1f4', '#2a2e35'],
  a: ['#0b62c4', '#6cb2ff'], soft_a: ['#d8e8fb', '#173a61'],  // blue: Q, the first of two
  b: ['#b45309', '#f2a65a'], soft_b: ['#fbe6cf', '#553110'],  // orange: K, the second
  c: ['#0f7b5f', '#52c9a5'], soft_c: ['#d3f0e6', '#0e4537'],  // green: V, good
  d: ['#8b3fa8', '#d39be8'], soft_d: ['#efdff6', '#472157'],  // purple: S and P
  e: ['#c22b3c', '#ff8a94'], soft_e: ['#fbdcdf', '#5e1c25'],  // red: wrong, conflicts, NaN
  f: ['#6b6400', '#d6cd55'], soft_f: ['#f1eebf', '#454108'],  // yellow: selected
}

// The color of each matrix. Its background is soft_ + color.
export const COLOR = { Q: 'a', K: 'b', V: 'c', S: 'd', P: 'd' }
export const soft = (color) => color === 'muted' ? 'soft' : `soft-${color}`

const rules = (which) => Object.entries(PALETTE)
  .map(([name, pair]) => `--${name.replace('_', '-')}:${pair[which]}`).join(';')

const SHAPES = [
  'text{font-size:13px;fill:var(--fg)}',
  '.mono{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}',
  '.small{font-size:11px}.large{font-size:16px}.strong{font-weight:600}.muted{fill:var(--muted)}',
  '.inverse{fill:var(--bg)}',  // text on a saturated color
  '.middle{text-anchor:middle}.end{text-anchor:end}',
  '.axis{stroke:var(--line);fill:none}.cell{stroke:var(--line);fill:var(--bg)}',
  ...[...'abcdef'].map((c) => `.${c}{fill:var(--${c})}.soft-${c}{fill:var(--soft-${c})}`),
  ...[...'abcdef', 'muted'].map((c) => `.line-${c}{stroke:var(--${c});fill:none;stroke-width:2}`),
  '.soft{fill:var(--soft)}.on{stroke:var(--fg);stroke-width:2}',
]

// Returns the style of a separate SVG file, which follows the reader's color scheme. All characters
// of its font have the same width.
const still_css = () => `svg{${rules(0)};background:var(--bg);`
  + 'font-family:Arial,"Liberation Sans",Helvetica,sans-serif}'
  + `@media(prefers-color-scheme:dark){svg{${rules(1)}}}${SHAPES.join('')}`

// Returns the style of all figures on the site, where `.dark` on <html> selects the colors and the
// page the font.
export const site_css = () => `.fa-figure{${rules(0)}}.dark .fa-figure{${rules(1)}}`
  + SHAPES.flatMap((rule) => rule.split(/(?<=})/)).map((rule) => `.fa-figure svg ${rule}`).join('')

export const escape = (value) => String(value)
  .replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c])

const short = (number) => +number.toFixed(2)
const attribute = (value) => escape(typeof value === 'number' ? short(value) : value)

// Returns <tag key="value">children</tag>. Attributes that are undefined, null or false are
// omitted.
export function el(tag, attributes = {}, children = '') {
  const list = Object.entries(attributes)
    .filter(([, value]) => value !== undefined && value !== null && value !== false)
    .map(([key, value]) => ` ${key}="${attribute(value)}"`).join('')
  const inside = [children].flat(Infinity).join('')
  return inside ? `<${tag}${list}>${inside}</${tag}>` : `<${tag}${list}/>`
}

export const rect = (x, y, width, height, more) => el('rect', { x, y, width, height, ...more })
export const line = (x1, y1, x2, y2, more) => el('line', { x1, y1, x2, y2, class: 'axis', ...more })
export const circle = (cx, cy, r, more) => el('circle', { cx, cy, r, ...more })
export const group = (x, y, children) =>
  el('g', { transform: `translate(${short(x)} ${short(y)})` }, children)
export const path = (points, more) => el('path', {
  d: points.map(([x, y], i) => `${i ? 'L' : 'M'}${short(x)} ${short(y)}`).join(''), ...more })

// Returns a line of text. `name` marks a number from the program, so that a test can find it.
export const text = (x, y, content, { name, ...more } = {}) =>
  el('text', { x, y, 'data-name': name, ...more }, escape(content))

// Returns the words as lines that fit into `width` in every font that a reader may have.
export const wrapped = (words, width, size = 13) => words.split(' ').reduce((lines, word) => {
  const longer = `${lines.at(-1)} ${word}`.trim()
  return longer.length * size * 0.66 <= width ? [...lines.slice(0, -1), longer] : [...lines, word]
}, ['']).filter(Boolean)

// Describes B,H,Lq,Lkv,D in words.
export const shape_words = (shape) => {
  const [B, H, Lq, Lkv, D] = shape.split(',')
  return `B ${B}, H ${H}, ${Lq} × ${Lkv}, D ${D}`
}

// Many rectangles or lines are one path, because a picture has hundreds of them.
export const round = (number) => +number.toFixed(1)
export const boxes = (list, more) => list.length ? el('path', { ...more, d: list.map(([x, y, width, height]) =>
  `M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${-round(width)}z`).join('') }) : ''
export const lines = (list, more) => list.length ? el('path', { ...more, fill: 'none', d: list.map((points) =>
  points.map(([x, y], i) => `${i ? 'L' : 'M'}${round(x)} ${round(y)}`).join('')).join('') }) : ''
export const triangles = (tips, more) => el('path', { ...more,
  d: tips.map(([x, y]) => `M${round(x)} ${round(y)}l4 7h-8z`).join('') })

// Places pieces in lines that fit the width. A piece is its length and a function that draws it at
// (x, y).
function flow(pieces, width, y, pitch) {
  let x = 4, row = 0
  const drawn = pieces.map(([length, draw]) => {
    if (x > 4 && x + length > width) [x, row] = [4, row + 1]
    x += length
    return draw(x - length, y + row * pitch)
  })
  return { drawn, bottom: y + row * pitch + 8 }
}
const length_of = (words, more) => (more.class.includes('small') ? 6.4 : 7.6) * words.length + 16
export const flow_words = (items, width, y) => flow(items.map(([words, more]) =>
  [length_of(words, more), (left, top) => text(left, top, words, more)]), width, y, 17)
// Returns a legend. An item is [x of the words, the words, a mark of 14 pixels height].
export const flow_marks = (items, width, y) => flow(items.map(([indent, words, mark]) =>
  [indent + 6.2 * words.length + 20, (left, top) =>
    group(left, top, [mark, text(indent, 11, words, { class: 'small muted' })])]), width, y, 18)

// Returns the drawing with its height.
export const svg = (width, height, children) => el('svg',
  { xmlns: 'http://www.w3.org/2000/svg', viewBox: `0 0 ${width} ${Math.ceil(height)}` }, children)

// Returns a drawing as a separate file with its size, colors and description for screen readers,
// without the attributes that only the interactive version and its tests need.
export const still = (drawing, title, description) => drawing.replace(/ data-[a-z]+="[^"]*"/g, '').replace(
  /^<svg ([^>]*viewBox="0 0 (\d+) (\d+)")>/,
  (_, head, width, height) => `<svg ${head} width="${width}" height="${height}" role="img">`
    + `${el('title', {}, escape(title))}${el('desc', {}, escape(description))}`
    + `${el('style', {}, still_css())}`) + '\n'
