// Reduces the output of `ch18_systolic_array matmul --trace`, and computes the content of each cell
// after a cycle.

export const SIZES = [[2, 3, 2], [4, 3, 5], [8, 4, 4], [8, 8, 8]]  // M, K, N
export const DATAFLOWS = {
  weight: { name: 'weight-stationary', stays: 'B: weight-stationary',
    moves: ['B stays in the cells, A comes from the left and goes right, sums go down to C',
      'B stays, A goes right, sums go down'] },
  output: { name: 'output-stationary', stays: 'C: output-stationary',
    moves: ['C stays in the cells, A comes from the left and goes right, B from above and goes down',
      'C stays, A goes right, B goes down'] },
}
const CASES = SIZES.flatMap(([m, k, n]) => [['weight', true], ['weight', false], ['output', true]]
  .map(([dataflow, stagger]) => ({ m, k, n, dataflow, stagger })))
const key_of = ({ m, k, n, dataflow, stagger }) => `${dataflow},${m},${k},${n}${stagger ? '' : ',no-stagger'}`
export const sources = Object.fromEntries(CASES.map((one) => [key_of(one), ['ch18_systolic_array', 'matmul',
  '--m', `${one.m}`, '--k', `${one.k}`, '--n', `${one.n}`, '--dataflow', one.dataflow, '--trace',
  ...one.stagger ? [] : ['--break', 'no-stagger'], '--json', '{json}']]))

const indices = (name) => [+name[1], +name[2]]  // a01, as sizes are below 10

// Returns the steps in compact form, for each cycle [row, column, m, k, n, sum] of each cell that multiplies a_mk
// and b_kn.
const case_from = (one, { trace, c, check }) => ({ ...one, wrong: !check.passed, results: c,
  steps: trace.map(({ cells }) => cells.map(({ row, col, a, b, after }) => {
    const [m, k] = indices(a), [, n] = indices(b)
    return [row, col, m, k, n, after]
  })) })
export const cases_of = (outputs) =>
  Object.fromEntries(CASES.map((one) => [key_of(one), case_from(one, outputs[key_of(one)])]))

// ---- the reader's sizes, multiplied in the page ----
const MOST = 8  // larger arrays do not fit the picture, and an index has one digit
function asked({ size, sizes, dataflow, stagger }) {
  const words = (size === 'own' ? sizes : size).trim().split(/[\s,]+/), [m, k, n] = words.map(Number)
  const problem = words.length !== 3 ? 'expected three numbers, such as 5, 3, 6'
    : words.map(Number).some((number) => number > MOST) ? `more than ${MOST} are too many to draw` : ''
  return { problem, words, one: { m, k, n, dataflow, stagger } }
}
export function live(data, state) {
  const { problem, words: [m, k, n], one } = asked(state), key = key_of(one)
  if (state.size !== 'own' || problem || data[key] || data.live?.key === key) return null
  return { key, one, request: { chapter: 18, command: ['matmul'], m, k, n, dataflow: one.dataflow, trace: true,
    breaks: one.stagger ? [] : ['no-stagger'] } }
}
export const heard = (data, { key, one }, { error, report }) =>
  ({ ...data, live: { key, ...error ? { problem: error } : { one: case_from(one, report) } } })
// Returns why the reader's sizes are not drawn, or nothing.
export function problem_of(data, state) {
  const { problem, one } = asked(state), key = key_of(one)
  return problem || (data[key] ? '' : data.live?.key === key ? data.live.problem : 'not run yet')
}

export function case_of(data, state) {
  const { dataflow } = state, drawn = problem_of(data, state) ? { ...state, size: '2,3,2' } : state
  const key = key_of(asked(drawn).one), one = data[key] ?? data.live.one
  const [rows, cols] = dataflow === 'weight' ? [one.k, one.n] : [one.m, one.n]
  return { ...one, rows, cols, macs: one.m * one.k * one.n }
}

export const label_of = (matrix, row, col) => `${matrix}${row}${col}`

// Returns the numbers that enter the array in a cycle, A's from the left, B's from the top (if B moves).
export const entering = (one, cycle) => (one.steps[cycle] ?? []).flatMap(([row, col, m, k, n]) => [
  ...col === 0 ? [{ from: 'left', lane: row, name: label_of('a', m, k) }] : [],
  ...row === 0 && one.dataflow === 'output' ? [{ from: 'top', lane: col, name: label_of('b', k, n) }] : []])

// Returns the state after a cycle, which is the content of each cell, the results below the array, and the newest
// of them.
export function after_cycle(one, cycle) {
  const cells = Array.from({ length: one.rows }, () => Array.from({ length: one.cols }, () => ({ busy: false })))
  const results = one.results.map((row) => row.map(() => undefined)), fresh = new Set()
  const left = Array(one.cols).fill(0)
  let macs = 0
  one.steps.slice(0, cycle + 1).forEach((step, at) => {
    macs += step.length
    for (const [row, col, m, k, n, sum] of step) {
      const held = cells[row][col]
      if (one.dataflow === 'output') held.sum = sum
      if (at === cycle) {
        Object.assign(held, { busy: true, a: label_of('a', m, k), b: label_of('b', k, n), sum })
      }
      if (one.dataflow === 'weight' && row === one.rows - 1) {  // it leaves below
        if (at === cycle) fresh.add(`${left[col]},${col}`)
        results[left[col]++][col] = sum
      }
    }
  })
  return { cells, results, fresh, macs, busy: one.steps[cycle].length }
}
