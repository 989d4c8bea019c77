// Animates the change from one drawing to another. Only elements that keep their shape move, which have the same
// tag at the same place among equal neighbours. All others change at once.
const DURATION = 250  // ms
const MOVING = ['x', 'y', 'width', 'height', 'cx', 'cy', 'r', 'x1', 'y1', 'x2', 'y2', 'transform', 'd']
const NUMBERS = /-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g

// Returns the attributes that differ only in their numbers: [element, attribute, words between,
// from, to].
function changes(before, after, found = []) {
  for (const name of MOVING) {
    const [from, to] = [before.getAttribute(name), after.getAttribute(name)]
    if (from === to || from === null || to === null) continue
    const [a, b] = [from, to].map((value) => (value.match(NUMBERS) ?? []).map(Number))
    const words = to.split(NUMBERS)
    if (a.length === b.length && String(words) === String(from.split(NUMBERS))) found.push([after, name,
      words, a, b])
  }
  const [old, fresh] = [[...before.children], [...after.children]]
  if (old.length === fresh.length && old.every(({ tagName }, i) => tagName === fresh[i].tagName)) {
    old.forEach((child, i) => changes(child, fresh[i], found))
  }
  return found
}

const smooth = (part) => part * part * (3 - 2 * part)

/// From the element `before`, no longer on the page, to `after`, which is. Gives a function that ends
// it at once.
export function tween(before, after) {
  const all = changes(before, after)
  const show = (part) => all.forEach(([element, name, words, from, to]) => element.setAttribute(name, words
    .reduce((text, word, i) =>
      `${text}${+(from[i - 1] + (to[i - 1] - from[i - 1]) * part).toFixed(2)}${word}`)))
  if (!all.length) return () => {}
  const start = performance.now()
  let frame
  const next = (now) => {
    const part = Math.min(1, Math.max(0, now - start) / DURATION)
    show(smooth(part))
    if (part < 1) frame = requestAnimationFrame(next)
  }
  show(0)
  frame = requestAnimationFrame(next)
  return () => { cancelAnimationFrame(frame); show(1) }
}
