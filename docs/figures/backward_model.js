// Reduces the output of `ch10_backward schedules`, and computes the state of each loop order after
// a step.

export const BLOCK = 64, DIM = 64
export const LENGTHS = [256, 512]
export const ORDERS = {
  rows: { name: 'Rows', what: 'queries outside' },
  columns: { name: 'Columns', what: 'keys outside' },
}
export const GROUPS = { 'Q, dO, O': ['Q', 'dO', 'O'], 'K, V': ['K', 'V'], 'LSE, D': ['LSE', 'D'], dQ: ['dQ'],
  'dK, dV': ['dK', 'dV'] }
const BY_KEYS = ['K', 'V', 'dK', 'dV']
const key_of = (length, causal) => `${length}${causal ? ',causal' : ''}`
const schedule_of = (order, d_from) => order + (d_from === 'p' ? ', D from P' : '')

export const sources = Object.fromEntries(LENGTHS.flatMap((length) => [false, true].map((causal) =>
  [key_of(length, causal), ['ch10_backward', 'schedules', '--length', `${length}`, '--dim', `${DIM}`, '--block-q',
    `${BLOCK}`, '--block-kv', `${BLOCK}`, ...causal ? ['--causal'] : [], '--json', '{json}']])))

// Returns the steps in compact form: [phase, tile of queries, tile of keys, index in `kinds`],
// where a kind is [loads, stores]. A tile that does not take part in the step is -1. Rows that are
// finished by keys are stored under `queries`.
function compact({ bytes_read, bytes_written, products, steps = [] }) {
  const kinds = [], known = new Map()
  const kind_of = (kind) => {
    const name = JSON.stringify(kind)
    if (!known.has(name)) known.set(name, kinds.push(kind) - 1)
    return known.get(name)
  }
  const tile = ([begin, end]) => end > begin ? begin / BLOCK : -1
  return { read: bytes_read, written: bytes_written, products, kinds,
    steps: steps.map(({ phase, queries, keys, loads, stores }) => {
      const turned = phase === 'finish' && !('dQ' in (stores ?? {}))
      const [i, j] = turned ? [-1, tile(queries)] : [tile(queries), tile(keys)]
      return [phase, i, j, kind_of([loads ?? {}, stores ?? {}])]
    }) }
}
export const cases_of = (outputs) => Object.fromEntries(Object.entries(outputs).map(([key, { schedules }]) =>
  [key, Object.fromEntries(Object.entries(schedules).map(([name, run]) => [name, compact(run)]))]))

export const sum = (numbers) => Object.values(numbers).reduce((a, b) => a + b, 0)
export const case_of = (data, { length, causal }) => data[key_of(length, causal)]
export const run_of = (data, state, order) => case_of(data, state)[schedule_of(order, state.d_from)]
export const steps_in = (data, state) =>
  Math.max(...Object.keys(ORDERS).map((order) => run_of(data, state, order).steps.length))
export const tiles_of = ({ length }) => length / BLOCK
const tile_of = (matrix, [, i, j]) => BY_KEYS.includes(matrix) ? j : i

// Returns a loop order at step `step`, counted from 1, with the step, its transfers, the state of each gradient
// tile (none, sum: unfinished, done), the pairs of tiles that are done, and by group [read, written] so far and in
// total.
export function stand(data, state, order) {
  const { steps, kinds, read, written, products } = run_of(data, state, order)
  const finished = state.step > steps.length, at = Math.min(state.step, steps.length) - 1
  const [phase, i, j, kind] = steps[at]
  const [loads, stores] = finished ? [{}, {}] : kinds[kind]
  const far = Object.fromEntries(Object.keys(GROUPS).map((name) => [name, [0, 0]])), all = structuredClone(far)
  const became = { dQ: [], dK: [], dV: [] }, pairs = new Set()
  const last = { dQ: [], dK: [], dV: [] }
  steps.forEach((step, n) => {
    kinds[step[3]].forEach((moved, way) => {
      for (const [matrix, bytes] of Object.entries(moved)) {
        const name = Object.keys(GROUPS).find((one) => GROUPS[one].includes(matrix))
        all[name][way] += bytes
        if (n <= at) far[name][way] += bytes
        const tile = tile_of(matrix, step)
        if (way === 1 && matrix in became && tile >= 0) {
          last[matrix][tile] = n
          if (n <= at) became[matrix][tile] = 'sum'
        }
      }
    })
    if (step[0] === 'gradient' && n < at + (finished ? 1 : 0)) pairs.add(`${step[1]},${step[2]}`)
  })
  for (const [matrix, tiles] of Object.entries(became)) {
    tiles.forEach((_, tile) => { if (last[matrix][tile] <= at) tiles[tile] = 'done' })
  }
  return { order, finished, count: steps.length, phase, i, j, loads, stores, far, all, became, pairs, read, written,
    products }
}

// Returns two lines that describe a step.
export function doing(state, { order, finished, phase, i, j, stores }) {
  const tiles = tiles_of(state), q = `query tile ${i + 1} of ${tiles}`, kv = `key tile ${j + 1} of ${tiles}`
  if (finished) return ['finished', '']
  if (phase === 'zero') return [`${Object.keys(stores).join(', ')} set to 0`, 'in slow memory']
  if (phase === 'finish') return [`${Object.keys(stores).join(', ')} finished`, `${i >= 0 ? q : kv}: rounded`]
  if (phase === 'D' && j < 0) return [`D of ${q}`, 'before the first key']
  const [outer, inner] = order === 'rows' ? [q, kv] : [kv, q]
  return [`${phase === 'D' ? 'D: ' : ''}${outer}`, inner]
}
