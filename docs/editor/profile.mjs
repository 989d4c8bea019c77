// The output of an edited kernel's program next to the original's.
import { ended } from './verdict.mjs'

const NAME = 34  // columns of a counter's name, as common/kernels/program.cpp prints it
const ROW = /^ {2}(\S.*?) {2,}(?:([\d.]+|ch\d\d) +)?([\d.]+|ch\d\d)( {2}estimate)?$/

/// Returns what a lesson's command asks for: { words: the options, define: macros of the page's program }.
export function options_of(command) {
  const words = command.split(' '), has = (name) => words.includes(name)
  // Without a shape, a break chooses one, and otherwise the head size is 128.
  const dim = has('--shape') ? words[words.indexOf('--shape') + 1].split(',')[4] : has('--break') ? '' : '128'
  return {
    words: [...words.slice(1), ...has('--profile') ? [] : ['--profile']],
    define: [`FA_BREAKS=${Number(has('--break'))}`, `FA_PAGED=${has('--page-size')}`,
      ...['64', '128'].includes(dim) ? [`FA_HEAD_DIM=${dim}`] : []],
  }
}

// Returns the last column of each row of counters, by name.
const counts_of = (output) => new Map(output.split('\n').flatMap((line) => {
  const found = ROW.exec(line)
  return found ? [[found[1], found[3]]] : []
}))

const is_count = (text) => /^[\d.]+$/.test(text ?? '')

/// Returns { status, lines, changed: the indices of the lines whose counters differ, places: the hazards in the file at
/// `path`, as [{ line, column, text }] } for two runs, { run, output } each.
export function compared(title, path, original, yours) {
  const before = counts_of(original.output), lines = [], changed = new Set(), places = []
  const row = (name, first, second, rest = '') => `${name.padEnd(NAME)}${first.padStart(12)} ${second.padStart(12)}${rest}`
  for (const line of yours.output.trimEnd().split('\n')) {
    const [, name, , now, estimate = ''] = ROW.exec(line) ?? []
    if (name === undefined) lines.push(line)
    else if (name.startsWith('counted on')) lines.push(row(`  ${name}`, 'original', 'yours'))
    else {
      const old = before.get(name) ?? '0', differs = old !== now
      if (differs) changed.add(lines.length)
      before.delete(name)
      lines.push(row(`${differs ? '* ' : '  '}${name}`, old, now, estimate))
    }
  }
  for (const [, broken] of yours.output.matchAll(/^ {2}hazard +(.+(?:\n {13}\S.*)*)/gm)) {
    const text = broken.replace(/\s+/g, ' ')
    for (const [, file, number] of text.matchAll(/([\w/]+\.hpp):(\d+)/g)) {
      if (file === path && !places.length) places.push({ line: Number(number), column: 1, text, severity: 'warning' })
    }
  }
  const counted = lines.findLastIndex((line) => /^[* ] \S.* {2,}[\d.]+ +[\d.]+/.test(line))
  if (counted >= 0) {  // counters that only the original has
    for (const [name, old] of before) {
      if (!is_count(old)) continue
      lines.splice(counted + 1, 0, row(`* ${name}`, old, '0'))
      changed.add(counted + 1)
    }
  }
  const end = yours.run.code === undefined ? ended(yours.run, undefined, yours.output) : null
  if (end) lines.push(`${title}: ${end}`)
  return { status: yours.run.code === 0 ? 'right' : 'wrong', lines, changed, places }
}
