// The messages of ./learn check (exercises/track.py) for the output of a compiler and of a test's program.

const LINES_SHOWN = 10  // the number of lines of an answer's output
const RECORD = /\x1e(\{"(?:case|verdict)": .*\})\n/  // as verdict.cpp prints them
const DIAGNOSTIC = /^(?<path>[^\s:][^:]*):(?<line>\d+):(?<column>\d+): (?<kind>fatal error|error|warning|note): (?<text>.*)/
const CRASHES = [
  [/divide by zero|division by zero/, 'SIGFPE: it divided an integer by zero'],
  [/unreachable/, 'SIGABRT: it aborted: abort(), an assert, or the C++ library found an error'],
  [/out of bounds|call stack|recursion|signature|table|null/,
    'SIGSEGV: it used memory that is not its own, or called itself without end']]

/// Splits a test's output into { printed, name, result }. `printed` is the output of the answer, `name` that of the
/// last test case that began, and `result` the verdict or undefined, with `verdict` (right, wrong, not written yet)
/// and `text`.
export function read(output) {
  const parts = output.split(RECORD), records = parts.filter((_, i) => i % 2).map((record) => JSON.parse(record))
  return { printed: parts.filter((_, i) => i % 2 === 0).join(''), name: records.findLast((record) => record.case !== undefined)?.case,
    result: records.findLast((record) => record.verdict !== undefined) }
}

/// Returns how a program ended before its test did, or null. If `seconds` is given, it was stopped after this time.
export function ended({ code, trap, seconds }, result, printed = '') {
  const endless = (what) => `${what}; is there a loop that never ends?`
  if (seconds !== undefined) return endless(`still running after ${seconds} s`)
  if (trap?.startsWith('it printed')) return endless(trap)
  if (trap !== undefined && printed.includes('bad_alloc was thrown')) return 'it needs more than the 512 MB of memory that it has in a page'
  if (trap !== undefined) return `it crashed with ${CRASHES.find(([words]) => words.test(trap))?.[1] ?? trap}`
  return result ? null : `it ended the program, with exit code ${code}, before the test was over`
}

/// Returns { status: right, wrong or todo, lines } for a run of an exercise's test. `untouched` is true if it ran the stub.
export function verdict(title, run, output, untouched = false) {
  const { printed: all, name, result } = read(output), printed = all.split('\n'), end = ended(run, result, all)
  const lines = result?.text.replace(/\n+$/, '').split('\n')
  if (printed.at(-1) === '') printed.pop()
  const said = printed.length ? ['', `  ${printed.length > LINES_SHOWN ? 'The end of what' : 'What'} your code printed:`,
    ...printed.slice(-LINES_SHOWN).map((line) => `    ${line.slice(0, 200)}`)] : []
  if (result?.verdict === 'not written yet') return { status: 'todo', lines: [`${title}: ${lines[0]}`, ...lines.slice(1)] }
  if (result?.verdict === 'right' && run.code === 0) return { status: 'right', lines: [`${title}: ${lines[0]}`, ...lines.slice(1), ...said] }
  const [first, ...told] = end ? [`: ${end}`, ...name ? ['', `  in the test case: ${name}`] : []]
    : [lines[0].replace(/^wrong/, ''), ...lines.slice(1)]
  return { status: 'wrong', lines: [`${title}: ${untouched ? 'not mended yet' : 'wrong'}${first}`, ...told, ...said] }
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

/// Returns { status: 'broken', lines, places: the errors in the answer, [{ line, column, text }] }. `alone` is undefined for
/// a kernel.
export function does_not_compile(title, file, { said, alone }) {
  const own = ({ path }) => path.endsWith(`/${file}`)
  const all = diagnostics(said), there = all.filter(own), mine = there.length ? there : diagnostics(alone ?? '').filter(own)
  const linked = [...said.matchAll(/(?:undefined|duplicate) symbol: .*/g)].map(([words]) => words)
  const lines = (mine.length ? mine : all).slice(0, 3).flatMap(({ path, line, text, source }) =>
    [`${path.split('/').at(-1)}:${line}: ${text}`, ...source, ''])
  if (!all.length) lines.push(...linked.slice(0, 3))
  if (!mine.length && alone !== undefined) lines.push('Your file alone is fine, but the test cannot use it: does the function still have the '
    + 'name and the parameters of the stub?')
  return { status: 'broken', lines: [`${title}: does not compile`, '', ...lines], places: mine }
}
