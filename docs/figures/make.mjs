#!/usr/bin/env node
// Makes the figures from the output of the programs.
//
//   make.mjs [--bin DIR] [NAME …]          runs the programs, writes data/NAME.json and the SVGs
//   make.mjs --stills [NAME …]             only draws the SVGs again, from data/
//   make.mjs --check [--bin DIR] [NAME …]  writes nothing and compares both with the files
//
// DIR is the directory of the programs (default: build/bin). Exit status: 0 if made or all equal, 1 if not, 2 for
// wrong usage.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'

import { still, WIDE } from './draw.js'
import figures from './index.js'
import { BIN, output_of, ROOT } from './programs.mjs'

function arguments_of() {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: {
    bin: { type: 'string', default: BIN }, check: { type: 'boolean' }, stills: { type: 'boolean' } } })
  const unknown = positionals.find((name) => !figures[name])
  if (unknown) throw new Error(`${unknown}: no such figure; accepted: ${Object.keys(figures).join(' ')}`)
  return { ...values, names: positionals.length ? positionals : Object.keys(figures) }
}

let wrong = 0
function write_or_compare(path, content, check) {
  const before = existsSync(path) ? readFileSync(path, 'utf8') : null
  if (before === content) return
  console.log(`${check ? 'differs' : 'wrote'}: ${relative(ROOT, path)}`)
  if (check) wrong++
  else {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
  }
}

function make(name, { bin, check, stills }) {
  const figure = figures[name]
  const path = join(ROOT, 'docs/figures/data', `${name}.json`)
  if (!stills) {
    const outputs = Object.fromEntries(Object.entries(figure.sources)
      .map(([key, command]) => [key, output_of(command, bin)]))
    write_or_compare(path, JSON.stringify(figure.data(outputs)) + '\n', check)
  }
  const data = JSON.parse(readFileSync(path, 'utf8'))
  for (const [file, changes] of Object.entries(figure.stills)) {
    const state = { ...figure.initial(data), ...changes }
    const picture = still(figure.draw(data, state, WIDE), figure.title, figure.describe(data, state))
    write_or_compare(join(ROOT, file), picture, check)
  }
}

let options
try {
  options = arguments_of()
} catch (problem) {
  console.error(`error: ${problem.message}`)
  process.exit(2)
}
for (const name of options.names) make(name, options)
if (options.check) {
  const verdict = wrong ? `${wrong} files differ` : 'data and pictures are what the programs say'
  console.log(`${options.names.length} figures: ${verdict}`)
}
process.exit(wrong ? 1 : 0)
