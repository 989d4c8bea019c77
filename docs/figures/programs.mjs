// Runs the project's programs for the data of the figures and for the tests of the figures.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
export const BIN = process.env.FA_BIN ?? join(ROOT, 'build/bin')

// Writes rows of numbers to a .npy file in float32.
function write_npy(path, rows) {
  const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows.length}, ${rows[0].length}), }`
  writeFileSync(path, Buffer.concat([Buffer.from([0x93]), Buffer.from(`NUMPY\x01\x00\x76\x00${header.padEnd(117)}\n`),
    Buffer.from(Float32Array.from(rows.flat()).buffer)]))
  return path
}

// Reads a stored measurement (docs/measurements/kept.py): `about` from its lines `# key: value`,
// and one row per line. Numeric cells become numbers.
export function read_csv(text) {
  const lines = text.trimEnd().split('\n'), value = (cell) => cell !== '' && Number.isFinite(+cell) ? +cell : cell
  const cells = (line) => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)]
    .map(([, quoted, plain]) => quoted === undefined ? plain : quoted.replaceAll('""', '"'))
  const [header, ...rows] = lines.filter((line) => !line.startsWith('# ')).map(cells)
  return {
    about: Object.fromEntries(lines.filter((line) => line.startsWith('# ')).map((line) => {
      const [, key, rest] = line.match(/^# (.*?): (.*)$/)
      return [key, value(rest)]
    })),
    rows: rows.map((row) => Object.fromEntries(header.map((key, i) => [key, value(row[i])]))),
  }
}

// Returns the output of a command, which is the JSON file that it wrote to the word {json}, or its printed output.
// A program is a name in `bin` or a path relative to the root, and runs in the root. A word that is a function
// returns the rows of a matrix and is replaced by a .npy file of them. Throws if the program fails. With --break,
// exit status 1 (ran, and the result was wrong) is the expected one. A single word that ends in .csv is a stored
// measurement, relative to the root.
export function output_of([program, ...words], bin = BIN) {
  if (!words.length && program.endsWith('.csv')) return read_csv(readFileSync(join(ROOT, program), 'utf8'))
  const folder = mkdtempSync(join(tmpdir(), 'figure-'))
  const file = join(folder, 'out.json')
  try {
    const result = spawnSync(program.includes('/') ? join(ROOT, program) : join(bin, program),
      words.map((word, i) => typeof word === 'function' ? write_npy(join(folder, `${i}.npy`), word())
        : word === '{json}' ? file : word),
      { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28 })
    if (result.error) throw result.error
    if (result.status !== 0 && !(result.status === 1 && words.includes('--break'))) {
      throw new Error(`${[program, ...words].join(' ')}: exit ${result.status}: ${result.stderr}`)
    }
    return words.includes('{json}') ? JSON.parse(readFileSync(file, 'utf8')) : result.stdout
  } finally {
    rmSync(folder, { recursive: true })
  }
}
