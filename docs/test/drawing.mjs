// Reads the contents of a drawing from its SVG.

// Returns all numbers of a drawing, by name, like figure.values() on a page.
export const numbers_in = (drawing) => Object.fromEntries(
  [...drawing.matchAll(/data-name="([^"]*)"[^>]*>([^<]*)</g)].map(([, name, words]) => [name, words]))
