// What a program's output must be, in float64, and how far fp32 may take it from that: chapter 01's
// verify.cpp, formula for formula.
import { cell_text, number_text } from './toy_machine_model.js'
import { TraceError } from './toy_machine_parser.js'

const EPSILON = 2 ** -23, TINY = 2 ** -126, EXPONENT_RANGE = 110
const total = (numbers) => numbers.reduce((a, b) => a + b, 0)
const sum_of_terms = (terms) => ({ sum: total(terms), absolute: total(terms.map(Math.abs)) })
const range = (n) => Array.from({ length: n }, (_, i) => i)

// Softmax weights of the scores, and by which factor of themselves fp32 may miss them.
function softmax_weights(scores) {
  const least = Math.min(...scores), most = Math.max(...scores)
  const terms = scores.map((score) => Math.exp(score - most)), sum = total(terms)
  return { values: terms.map((term) => term / sum),
    relative: 2 * EPSILON * (scores.length + Math.min(most - least, EXPONENT_RANGE) + 4) }
}

// Name: the arrays it needs as [name, is_input, subscripts], whether their lengths fit, and the
// [value, bound] of each cell of the output, which is the last of the arrays.
const CHECKS = {
  matmul: {
    form: '.input a[n][m], .input b[m][p] and .output c[n][p]',
    arrays: [['a', true, 2], ['b', true, 2], ['c', false, 2]],
    fits: (a, b, c) => a.shape[1] === b.shape[0] && c.shape[0] === a.shape[0] && c.shape[1] === b.shape[1],
    cells: (a, b) => range(a.shape[0] * b.shape[1]).map((cell) => {
      const [m, p] = b.shape, i = Math.floor(cell / p), j = cell % p
      const { sum, absolute } = sum_of_terms(range(m).map((k) => a.values[i * m + k] * b.values[k * p + j]))
      return [sum, (m + 1) * EPSILON * absolute + TINY]
    }),
  },
  softmax: {
    form: '.input x[n] and .output out[n]',
    arrays: [['x', true, 1], ['out', false, 1]],
    fits: (x, out) => x.shape[0] === out.shape[0],
    cells: (x) => {
      const { values, relative } = softmax_weights(x.values)
      return values.map((value) => [value, relative * value + TINY])
    },
  },
  attention: {
    form: '.input q[d], .input k[n][d], .input v[n][d] and .output o[d]',
    arrays: [['q', true, 1], ['k', true, 2], ['v', true, 2], ['o', false, 1]],
    fits: (q, k, v, o) => String(v.shape) === String(k.shape)
      && q.shape[0] === k.shape[1] && o.shape[0] === k.shape[1],
    cells: (q, k, v) => {
      const [n, d] = k.shape
      const scores = range(n).map((j) => sum_of_terms(range(d).map((t) => q.values[t] * k.values[j * d + t])))
      const score_error = Math.max(...scores.map(({ absolute }) => d * EPSILON * absolute))
      const p = softmax_weights(scores.map(({ sum }) => sum))
      return range(d).map((t) => {
        const { sum, absolute } = sum_of_terms(range(n).map((j) => p.values[j] * v.values[j * d + t]))
        return [sum, (p.relative + 2 * Math.min(score_error, 0.5)) * absolute + TINY]
      })
    },
  },
  ratio: {
    form: '.input x[2] and .output out[1]',
    arrays: [['x', true, 1], ['out', false, 1]],
    fits: (x, out) => x.shape[0] === 2 && out.shape[0] === 1,
    cells: ({ values: [a, b] }) => {
      const value = Math.exp(a - b)
      return [[value, EPSILON * (Math.min(Math.abs(a - b), EXPONENT_RANGE) + 4) * value + TINY]]
    },
  },
  sum: {
    form: '.input x[n] and .output out[1]',
    arrays: [['x', true, 1], ['out', false, 1]],
    fits: (x, out) => out.shape[0] === 1,
    cells: (x) => {
      const { sum, absolute } = sum_of_terms(x.values)
      return [[sum, EPSILON * absolute + TINY]]
    },
  },
  variance: {
    form: '.input x[n], n at least 2, and .output out[1]',
    arrays: [['x', true, 1], ['out', false, 1]],
    fits: (x, out) => x.shape[0] >= 2 && out.shape[0] === 1,
    cells: ({ values }) => {
      const n = values.length, mean = total(values.map((x) => x / n))
      const value = total(values.map((x) => (x - mean) ** 2)) / (n - 1)
      const rounding = 2 * EPSILON * n, mean_error = rounding * Math.abs(mean)
      return [[value, rounding * value + mean_error * Math.sqrt(value) + mean_error ** 2 + TINY]]
    },
  },
}

// What the program must compute: { array, cells }. Throws TraceError if its arrays do not fit.
export function expected(program) {
  const { form, arrays, fits, cells } = CHECKS[program.check]
  const found = arrays.map(([name, is_input, rank]) => {
    const array = program.arrays.find((a) => a.name === name)
    if (array?.is_input !== is_input || array.shape.length !== rank) {
      throw new TraceError(`.check ${program.check} needs ${form}`)
    }
    return array
  })
  if (!fits(...found)) {
    throw new TraceError(`the lengths do not fit together: .check ${program.check} needs ${form}`)
  }
  return { array: program.arrays.indexOf(found.at(-1)), cells: cells(...found) }
}

// How a finished run compares: { mismatches, sentence }.
export function verdict(program, { dram, cost }) {
  const { array, cells } = expected(program)
  const bad = cells.flatMap(([want, bound], i) => {
    if (program.check_cell >= 0 && i !== program.check_cell) return []
    const got = dram[array][i]?.number ?? NaN
    if (Math.abs(got - want) <= bound) return []  // false for a NaN
    return `${cell_text(program.arrays[array], i)} is ${number_text(got)}, expected ${number_text(want)}`
  })
  const promise = program.promised >= 0 && program.promised !== cost.cycles
    ? `the file promises ${program.promised} cycles, the run took ${cost.cycles}` : ''
  return { mismatches: bad.length, passed: !bad.length && !promise,
    sentence: bad[0] ?? (promise || 'agrees with the direct computation in float64') }
}
