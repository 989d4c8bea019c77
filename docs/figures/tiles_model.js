// Reduces the output of `ch02_tiled_cpu traffic`, and computes the state of each order after a
// step.

export const TILES = {  // queries and keys: the available tiles [queries, keys]
  5: [[3, 4], [3, 5], [1, 1]],
  16: [[4, 4], [8, 4], [4, 8], [8, 8]],
  512: [[64, 64], [128, 64], [64, 128], [128, 128]],
}
export const DIMS = { 5: 3, 16: 8, 512: 64 }
export const MATRICES = ['Q', 'K', 'V', 'S', 'P', 'O', 'm, l']
export const ORDERS = {
  three_passes: { name: 'Plain attention', what: 'three passes' },
  keys_outside: { name: 'FlashAttention-1', what: 'keys outside' },
  queries_outside: { name: 'FlashAttention-2', what: 'queries outside' },
}
const PASSES = ['S = Q @ K.T', 'P = softmax(S)', 'O = P @ V']

const CASES = Object.entries(TILES).flatMap(([length, tiles]) => tiles.flatMap(([rows, cols]) =>
  [false, true].map((causal) => ({ length, rows, cols, causal }))))
const key_of = ({ length, rows, cols, causal }) => `${length},${rows},${cols}${causal ? ',causal' : ''}`
const command_of = ({ length, rows, cols, causal }) => ['ch02_tiled_cpu', 'traffic',
  '--length', `${length}`, '--dim', `${DIMS[length]}`, '--block-q', `${rows}`, '--block-kv', `${cols}`,
  ...causal ? ['--causal'] : [], '--json', '{json}']
export const sources = Object.fromEntries(CASES.map((one) => [key_of(one), command_of(one)]))

// Returns the steps in compact form: [pass, tile of queries, tile of keys, index in `kinds`], where
// a kind is [loads, stores].
function compact({ read, written, fast_memory, steps }, { block_q: rows, block_kv: cols }) {
  const kinds = [], known = new Map()
  const kind_of = (kind) => {
    const name = JSON.stringify(kind)
    if (!known.has(name)) known.set(name, kinds.push(kind) - 1)
    return known.get(name)
  }
  const short = steps.map(({ pass, queries, keys, loads, stores }) =>
    [pass, queries[0] / rows, keys[0] / cols, kind_of([loads, stores])])
  return { read, written, fast_memory, kinds, steps: short }
}

const case_from = ({ orders, ...sizes }) => ({ ...sizes, orders: Object.fromEntries(Object.entries(orders)
  .map(([order, run]) => [order, compact(run, sizes)])) })
export const cases_of = (outputs) =>
  Object.fromEntries(CASES.map((one) => [key_of(one), case_from(outputs[key_of(one)])]))

// ---- the reader's sizes, counted in the page ----
const MOST = 400  // pairs of tiles, as more is no picture
const asked = ({ sizes, causal }) => {
  const [length, dim, block_q, block_kv] = sizes.trim().split(/[\s,]+/)
  const pairs = tiles_in(length, block_q) * tiles_in(length, block_kv)  // the program refuses NaN
  const problem = !block_kv ? 'expected four numbers, such as 100, 16, 32, 16'
    : Number.isFinite(pairs) && pairs > MOST ? `${pairs} pairs of tiles are too many to draw: up to ${MOST}` : ''
  return { problem, key: `${sizes.trim()}${causal ? ',causal' : ''}`,
    request: { chapter: 2, command: ['traffic'], length, dim, block_q, block_kv, causal } }
}
export function live(data, state) {
  if (state.length !== 'own') return null
  const { problem, ...wanted } = asked(state)
  return problem || data.live?.key === wanted.key ? null : wanted
}
export const heard = (data, { key }, { error, report }) =>
  ({ ...data, live: { key, ...error ? { problem: error } : { one: case_from(report) } } })
// Returns why the reader's sizes are not drawn, or nothing.
export const problem_of = (data, state) => state.length === 'own'
  ? asked(state).problem || (live(data, state) ? 'not run yet' : data.live.problem) : null

export const sum = (elements) => Object.values(elements).reduce((a, b) => a + b, 0)
export const tiles_in = (length, block) => Math.ceil(length / block)
export const case_of = (data, state) => {
  const own = state.length === 'own'
  return own && !problem_of(data, state) ? data.live.one
    : data.cases[`${own ? '512,64,64' : `${state.length},${state.tile}`}${state.causal ? ',causal' : ''}`]
}
export const panels_of = (state) => [state.beside, 'queries_outside']
export const steps_in = (data, state) =>
  Math.max(...panels_of(state).map((order) => case_of(data, state).orders[order].steps.length))
export const label_of = (matrix, order) => matrix === 'm, l' && order !== 'keys_outside' ? 'LSE' : matrix

// Returns an order at step `step`, counted from 1, with the tiles i and j, its transfers (loads, stores), the
// content of fast memory, the steps before, and by matrix [read, written] so far and in total.
export function stand(one, order, step) {
  const { steps, kinds, fast_memory } = one.orders[order]
  const far = Object.fromEntries(MATRICES.map((matrix) => [matrix, [0, 0]]))
  const all = structuredClone(far)
  steps.forEach(([, , , kind], at) => kinds[kind].forEach((moved, way) => {
    for (const [matrix, count] of Object.entries(moved)) {
      all[matrix][way] += count
      if (at < step) far[matrix][way] += count
    }
  }))
  const finished = step > steps.length
  const [pass, i, j, kind] = steps[Math.min(step, steps.length) - 1]
  const [loads, stores] = finished ? [{}, {}] : kinds[kind]
  const before = steps.slice(0, finished ? step : step - 1)
  const written = before.filter(([, , , one]) => 'O' in kinds[one][1]).map(([, i]) => i)
  return { order, far, all, count: steps.length, finished, pass, i, j, loads, stores, before,
    fast: finished ? {} : fast_memory[pass], O_written: new Set(written) }
}

// Returns how many times the whole matrix was transferred.
export function times(one, order, matrix, count) {
  const state = order === 'keys_outside' ? 2 : 1  // m and l, or the log-sum-exp
  const columns = { S: one.length, P: one.length, 'm, l': state }[matrix] ?? one.dim
  const often = count / (columns * one.length)
  return `${Number.isInteger(often) ? often : often.toFixed(1)}×`
}

// Returns the outer and the inner loop around a step.
export function loops(one, at) {
  const q = `${at.i + 1} of ${tiles_in(one.length, one.block_q)}`
  const kv = `${at.j + 1} of ${tiles_in(one.length, one.block_kv)}`
  if (at.finished) return ['finished', '']
  if (at.order === 'keys_outside') return [`for each K, V tile: ${kv}`, `for each Q tile: ${q}`]
  if (at.order === 'queries_outside') return [`for each Q tile: ${q}`, `for each K, V tile: ${kv}`]
  return [`pass ${at.pass + 1} of 3: ${PASSES[at.pass]}`,
    at.pass === 1 ? `rows of tile ${q}` : `Q tile ${q}, ${at.pass ? 'V' : 'K'} tile ${kv}`]
}
