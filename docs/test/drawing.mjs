// The contents of a drawing, from its SVG alone.

// All numbers of a drawing, by name: what figure.values() gives on a page.
export const numbers_in = (drawing) => Object.fromEntries(
  [...drawing.matchAll(/data-name="([^"]*)"[^>]*>([^<]*)</g)].map(([, name, words]) => [name, words]))
