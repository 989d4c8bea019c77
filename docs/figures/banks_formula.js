// Places the chunks of a row by a formula of the reader and computes the cost of reading a column.

const OPERATORS = [  // C's operators, in order of increasing precedence
  { '|': (a, b) => a | b }, { '^': (a, b) => a ^ b }, { '&': (a, b) => a & b },
  { '<<': (a, b) => a << b, '>>': (a, b) => a >> b }, { '+': (a, b) => a + b, '-': (a, b) => a - b },
  { '*': (a, b) => a * b, '/': (a, b) => Math.trunc(a / b), '%': (a, b) => a % b }]

// Compiles the formula to a function of { row, chunk, … }. Throws an Error with a sentence if it is
// invalid.
export function compile(words, names) {
  const tokens = words.match(/\d+|\w+|<<|>>|\S/g) ?? []
  const expected = (what) => new Error(tokens.length ? `expected ${what} instead of ${tokens[0]}`
    : `expected ${what}`)
  function value() {
    const token = tokens[0]
    if (token === undefined) throw expected('a number')
    if (/^\d+$/.test(token)) return tokens.shift(), () => Number(token)
    if (names.includes(token)) return tokens.shift(), (given) => given[token]
    if (token !== '(') throw expected(`a number, ${names.join(' or ')}`)
    tokens.shift()
    const inside = binary(0)
    if (tokens[0] !== ')') throw expected(')')
    tokens.shift()
    return inside
  }
  function binary(level) {
    if (level === OPERATORS.length) return value()
    let left = binary(level + 1)
    while (Object.hasOwn(OPERATORS[level], tokens[0] ?? '')) {
      const apply = OPERATORS[level][tokens.shift()], one = left, other = binary(level + 1)
      left = (given) => apply(one(given), other(given))
    }
    return left
  }
  const formula = binary(0)
  if (tokens.length) throw expected('an operator')
  return formula
}

// Returns { addresses, wavefronts } for eight rows whose chunks are placed by the formula, or {
// problem }. The wavefronts of a column are the largest number of its rows in one group of four
// banks.
export function layout_of(words, row_bytes) {
  const chunks = row_bytes / 16, numbers = (n) => [...Array(n).keys()]
  try {
    const place = compile(words, ['row', 'chunk'])
    const addresses = numbers(8).map((row) => {
      const taken = []
      return numbers(chunks).map((chunk) => {
        const at = place({ row, chunk })
        if (!(at >= 0 && at < chunks)) throw new Error(`row ${row}, chunk ${chunk} goes to ${at}: a row has 0 to ${chunks - 1}`)
        if (taken.includes(at)) throw new Error(`row ${row}: chunks ${taken.indexOf(at)} and ${chunk} both go to ${at}`)
        taken.push(at)
        return row * row_bytes + at * 16
      })
    })
    return { addresses, wavefronts: numbers(chunks).map((chunk) => wavefronts_of(addresses, chunk)) }
  } catch ({ message }) {
    return { problem: message }
  }
}

export function wavefronts_of(addresses, chunk) {
  const hits = Array(8).fill(0)
  addresses.forEach((row) => hits[row[chunk] / 16 % 8]++)
  return Math.max(...hits)
}
