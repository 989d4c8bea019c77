// The event log of chapter 17's FP8 kernel: what each warp of the first consumer did with each tile.

const FORM = 'wgmma'

// A tile of scores is there when a warp has waited for it: the wait that leaves one product, O of the tile
// before, in flight; for the first tile the first wait. What the warp does with it ends at the next fence, in
// front of the next product. In between the log tells:
//   looked    a vote comes before the wait for O: whether a maximum grew
//   raised    the same, and the quads have shuffled: it did
//   blind     the only vote, whether a weight may be too large, comes after the wait for O, without a shuffle
//   lowered   behind it the quads have shuffled: all weights of a row were made smaller, if one was
// A tile may be raised and lowered, too: its letter is that of lowered.
function letter_of(events) {
  const kinds = events.map(({ kind }) => kind), wait = kinds.indexOf('wait')
  const before = wait < 0 ? kinds : kinds.slice(0, wait), behind = wait < 0 ? [] : kinds.slice(wait)
  if (behind.includes('shuffle')) return 'l'
  if (!before.includes('vote')) return 'b'
  return before.includes('shuffle') ? 'r' : 'k'
}

function tiles_of_warp(events) {
  const begin = events.findIndex(({ kind }) => kind === FORM)
  const tiles = []
  let own = null  // the events of the current tile
  for (const event of events.slice(begin)) {
    if (event.kind === 'fence') own = null
    own?.push(event)
    if (event.kind === 'wait' && (event.pending_groups === 1 || !tiles.length)) tiles.push(own = [])
  }
  return tiles.map(letter_of).join('')
}

export const MEANING = { k: 'looked', r: 'raised', b: 'blind', l: 'lowered' }

// Block 0, consumer 0: a letter for each tile, of each of its four warps.
export function reduce({ events, hazards }) {
  if (hazards.length) throw new Error('a hazard')
  const mine = events.filter(({ block }) => block === 0)
  const warps = [...new Set(mine.filter(({ kind }) => kind === FORM).map(({ warp }) => warp))]
    .sort((one, other) => one - other).slice(0, 4)
  return warps.map((warp) => tiles_of_warp(mine.filter((event) => event.warp === warp)))
}
