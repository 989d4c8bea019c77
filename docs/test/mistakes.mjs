// Returns the wrong answers of an exercise, which exercises/support/mistakes.py makes from
// mistakes.txt.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

import { ROOT } from '../figures/programs.mjs'

// Returns [name, text] of each mistake of `exercise`, such as 01_toy_machine/ex1_one_element.
export function wrong_answers(exercise) {
  const words = ['-B', join(ROOT, 'exercises', 'support', 'mistakes.py'), exercise, '--json']
  return Object.entries(JSON.parse(execFileSync('python3', words, { encoding: 'utf8' })))
}
