// The edits of a kernel that a page suggests: chapters/NN_topic/edits.txt. The format is that of an exercise's
// mistakes.txt (exercises/support/mistakes.py), but a name is a sentence, and a line with '=' has words that the
// program's output then contains.

/// Returns [{ name, places: [{ before, after }], says }], where before and after are lists of lines.
export function parse(text) {
  const edits = []
  for (const line of text.split('\n')) {
    const kind = line[0], rest = line.slice(1)
    if (!line || kind === '#') continue
    const edit = edits.at(-1)
    if (!'-+ @='.includes(kind)) edits.push({ name: line, places: [{ before: [], after: [] }], says: '' })
    else if (!edit) throw new Error(`edits.txt: expected the name of an edit, got '${line}'`)
    else if (kind === '=') edit.says = rest.trim()
    else if (kind === '@') edit.places.push({ before: [], after: [] })
    else {
      if (kind !== '+') edit.places.at(-1).before.push(rest)
      if (kind !== '-') edit.places.at(-1).after.push(rest)
    }
  }
  return edits
}

/// Returns the text after an edit, or undefined if the text does not have each of its places exactly once.
export function apply(text, { places }) {
  for (const { before, after } of places) {
    const old = `\n${before.join('\n')}\n`, parts = text.split(old)
    if (parts.length !== 2) return undefined
    text = parts.join(`\n${after.map((line) => `${line}\n`).join('')}`)
  }
  return text
}
