// The output of a CUDA file's run, in the words of common/cuda/emucuda.cpp.
import { ended } from './verdict.mjs'

const LINES = 8  // of a kernel
const plural = (n, noun, many = `${noun}s`) => `${n} ${n === 1 ? noun : many}`

// source(place) is the text of the line.
function of_hazards({ hazards, notes }, source, remedies) {
  const quoted = (place, calls = []) => [...source(place) ? [`    ${place}   ${source(place)}`] : [],
    ...place ? calls.map((call) => `      called at ${call}   ${source(call)}`) : []]
  return [...hazards.flatMap(({ message, where, other, kernel, count, kind, where_calls, other_calls }) => [message,
    ...quoted(where, where_calls), ...other === where ? [] : quoted(other, other_calls),
    `    in kernel ${kernel}, ${plural(count, 'time')}${remedies[kind] ? `; ${remedies[kind]}` : ''}`]),
  ...notes.map(({ message }) => `note: ${message}`)]
}

function of_kernel({ name, launches, grid, block, shared_bytes, profile, estimates, lines }, source) {
  const counters = Object.entries(profile).filter(([counter, value]) =>
    value && counter !== 'shared_bytes_per_block' && !counter.endsWith('_ideal'))
  const column = (value) => String(value).padStart(12), ideal = (counter) => profile[`${counter}_ideal`]
  const most = lines.slice(0, LINES).filter(({ where }) => where)
  return ['', `kernel ${name}, ${plural(launches, 'launch', 'launches')}: grid (${grid.join(', ')}), `
    + `block (${block.join(', ')}),`, `  ${shared_bytes} bytes of shared memory per block`,
  ...counters.map(([counter, value]) => `  ${counter.padEnd(28)} ${column(value)}`
    + `${ideal(counter) === undefined ? '' : `   ideal ${column(ideal(counter))}`}`
    + `${estimates.includes(counter) ? '   (estimate)' : ''}`),
  ...lines.length ? ['  lines with the most wavefronts and sectors (ideal in brackets):'] : [],
  ...most.flatMap((line) => {
    const cost = (unit, counter) => line[counter] ? `   ${unit} ${line[counter]} (${line[`${counter}_ideal`]})` : ''
    return [`    ${line.where}${cost('wavefronts', 'shared_wavefronts')}${cost('sectors', 'global_sectors')}`,
      `      ${source(line.where)}`]
  })]
}

/// Returns { status, lines, report, places: [{ line, column, text, severity }] } for a run, { run, output }, of the
/// program `file`, whose source is `text`. `remedies` has a sentence for each kind of hazard.
export function reported(file, text, { run, output }, remedies) {
  const of_text = text.split('\n'), number = (place) => Number(place.split(':').at(-1))
  const source = (place) => place?.startsWith(`${file}:`) ? of_text[number(place) - 1]?.trim() ?? '' : ''
  const printed = output.split('\n')
  if (printed.at(-1) === '') printed.pop()
  if (!run.report) {
    return { status: 'wrong', lines: [...printed, `${file}: ${ended(run, undefined, output)}`], places: [] }
  }
  const report = JSON.parse(run.report), status = run.code ?? 128 + run.signal, { hazards, kernels, stopped } = report
  const places = new Map(hazards.flatMap(({ where, other, message }) => [where, other].filter(source)
    .map((place) => [`${place} ${message}`, { line: number(place), column: 1, text: message, severity: 'warning' }])))
  return { status: status === 0 && !hazards.length ? 'right' : 'wrong', report, places: [...places.values()],
    lines: [...printed, ...of_hazards(report, source, remedies),
      ...stopped ? [`the program stopped: ${stopped}`] : [], ...kernels.flatMap((kernel) => of_kernel(kernel, source)),
      `emucuda: ${plural(kernels.length, 'kernel')}, ${plural(hazards.length, 'hazard')}; the program's exit status is `
        + status] }
}
