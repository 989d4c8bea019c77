// The words of ./learn check (exercises/track.py) for what a compiler and a test's program print.

const LINES_SHOWN = 10  // of what an answer printed
const ENDED = /verdict: (?=not written yet\n|right \(|wrong \()/
const CASE = /\x1etest case: (.*)\n/g
const DIAGNOSTIC = /^(?<path>[^\s:][^:]*):(?<line>\d+):(?<column>\d+): (?<kind>fatal error|error|warning|note): (?<text>.*)/
const CRASHES = [
  [/divide by zero|division by zero/, 'SIGFPE: it divided an integer by zero'],
  [/unreachable/, 'SIGABRT: it aborted: abort(), an assert, or the C++ library found an error'],
  [/out of bounds|call stack|recursion|signature|table|null/,
    'SIGSEGV: it used memory that is not its own, or called itself without end']]

/// Returns how a program ended before its test did, or null. `seconds`: it was stopped after this time.
export function ended({ code, trap, seconds }, printed) {
  const endless = (what) => `${what}; is there a loop that never ends?`
  if (seconds !== undefined) return endless(`still running after ${seconds} s`)
  if (trap?.startsWith('it printed')) return endless(trap)
  if (trap !== undefined) return `it crashed with ${CRASHES.find(([words]) => words.test(trap))?.[1] ?? trap}`
  return ENDED.test(printed) ? null : `it ended the program, with exit code ${code}, before the test was over`
}

/// Returns { status: right, wrong or todo, lines } of a run of an exercise's test. `untouched`: of the stub.
export function verdict(title, run, output, untouched = false) {
  const parts = output.split(ENDED), words = parts.length > 1 ? parts.at(-1).replace(/\n+$/, '').split('\n') : ['']
  const [first, ...told] = words, printed = parts[0].replace(CASE, '').split('\n')
  if (printed.at(-1) === '') printed.pop()
  const said = printed.length ? ['', `  ${printed.length > LINES_SHOWN ? 'The end of what' : 'What'} your code printed:`,
    ...printed.slice(-LINES_SHOWN).map((line) => `    ${line.slice(0, 200)}`)] : []
  if (first === 'not written yet') return { status: 'todo', lines: [`${title}: not written yet`, '', `  ${told.at(-1).trim()}`] }
  if (first.startsWith('right ') && run.code === 0) return { status: 'right', lines: [`${title}: ${first}`, ...told, ...said] }
  const end = ended(run, output), [, last] = [...output.matchAll(CASE)].at(-1) ?? []
  return { status: 'wrong', lines: [`${title}: ${untouched ? 'not mended yet' : 'wrong'}${end ? `: ${end}` : first.replace(/^wrong/, '')}`,
    ...end && last ? ['', `  in the test case: ${last}`] : end ? [] : told, ...said] }
}

function diagnostics(text) {
  const found = []
  let block = null
  for (const line of text.split('\n')) {
    const match = DIAGNOSTIC.exec(line)
    if (match) found.push(block = { ...match.groups, line: Number(match.groups.line), column: Number(match.groups.column), source: [] })
    else if (block && /^\s*\d*\s*\|/.test(line)) block.source.push(line)
    else block = null
  }
  return found.filter(({ kind }) => kind.includes('error'))
}

/// Returns { status: 'broken', lines, places: the errors in the answer, [{ line, column, text }] }.
export function does_not_compile(title, file, { said, alone }) {
  const own = ({ path }) => path.endsWith(`/${file}`)
  const all = diagnostics(said), there = all.filter(own), mine = there.length ? there : diagnostics(alone).filter(own)
  const linked = [...said.matchAll(/(?:undefined|duplicate) symbol: .*/g)].map(([words]) => words)
  const lines = (mine.length ? mine : all).slice(0, 3).flatMap(({ path, line, text, source }) =>
    [`${path.split('/').at(-1)}:${line}: ${text}`, ...source, ''])
  if (!all.length) lines.push(...linked.slice(0, 3))
  if (!mine.length) lines.push('Your file alone is fine, but the test cannot use it: does the function still have the '
    + 'name and the parameters of the stub?')
  return { status: 'broken', lines: [`${title}: does not compile`, '', ...lines], places: mine }
}
