// Returns the wrong answers of an exercise, which exercises/support/mistakes.py makes from
// mistakes.txt.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

import { ROOT } from '../figures/programs.mjs'

function printed(...words) {
  return execFileSync('python3', ['-B', join(ROOT, 'exercises', 'support', 'mistakes.py'), ...words], { encoding: 'utf8' })
}

// Returns [name, text] of each mistake of `exercise`, such as 01_toy_machine/ex1_one_element.
export function wrong_answers(exercise) {
  return printed(exercise).trim().split('\n').map((name) => [name, printed(exercise, name)])
}
