// A matrix with row and column numbers, in pieces of 8 x 8, which shows the location of elements.
import { el, text } from './draw.js'

const U = 19  // width of a column
export const H = 21  // height of a row
export const LEFT = 20, TOP = 54  // row numbers; title, names of registers, column numbers
const GAP = 5  // between the pieces

const x_of = (column) => LEFT + column * U + (column >= 8 ? GAP : 0)
export const y_of = (row) => TOP + row * H + (row >= 8 ? GAP : 0)
export const right_of = (columns) => x_of(columns - 1) + U
export const bottom_of = (rows) => y_of(rows - 1) + H

// Returns the box [x, y, width, height] of neighbouring cells with a margin, or the part of it for
// one of them. The parts overlap slightly, so that no seam is visible.
export function box(cells, cell) {
  const [rows, columns] = [0, 1].map((i) => cells.map((c) => c[i]))
  const x1 = x_of(Math.min(...columns)) + 1, x2 = x_of(Math.max(...columns)) + U - 1
  const y1 = y_of(Math.min(...rows)) + 1, y2 = y_of(Math.max(...rows)) + H - 1
  if (!cell) return [x1, y1, x2 - x1, y2 - y1]
  const x = Math.max(x1, x_of(cell[1]) - 0.5), y = Math.max(y1, y_of(cell[0]) - 0.5)
  return [x, y, Math.min(x2, x_of(cell[1]) + U + 0.5) - x, Math.min(y2, y_of(cell[0]) + H + 0.5) - y]
}

// Draws the title, and the numbers of rows and columns.
export const frame = (title, color, rows, columns) => [
  text(LEFT, 13, title, { class: `strong ${color}` }),
  el('g', { class: 'middle' },
    [...Array(columns).keys()].map((i) => text(x_of(i) + U / 2, TOP - 5, i, { class: 'small muted' }))),
  el('g', { class: 'end' },
    [...Array(rows).keys()].map((i) => text(LEFT - 4, y_of(i) + 15, i, { class: 'small muted' })))]

// Draws a name for each 8 x 8 piece, { 'down,right': name }: above the upper ones, below the lower
// ones.
export const piece_names = (names) => Object.entries(names).map(([piece, name]) => {
  const [down, right] = piece.split(',').map(Number)
  return text(x_of(right * 8) + 4 * U, down ? bottom_of(16) + 15 : TOP - 22, name, { class: 'middle strong' })
})

export const piece_of = ([row, column]) => `${row >> 3},${column >> 3}`

export const pair = (cell) => `(${cell.join(', ')})`

// Draws (row, column) of a register's halves, starting at (x, y), with the selected one in bold.
export const places = (x, y, cells, name, pointed) => cells.map((cell, half) => text(x + 62 * half, y,
  pair(cell), { name: `${name}_${half}`, class: half === pointed && 'strong' }))
