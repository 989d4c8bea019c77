// The event log of chapter 23's kernel shows how each warp of the first consumer processed each tile.

const FORM = 'wgmma'

// A tile of scores has been computed when a warp has waited for it. For the first tile this is the first
// wait, and for all others the wait that leaves one product in flight, O of the previous tile. The warp is
// finished with the tile at the next fence, before the next product. The events in between tell the cases:
//   looked    a vote, whether a maximum grew, comes before the wait for O
//   raised    the same, and the quads have shuffled, because a maximum grew
//   blind     the only vote, whether a weight may be too large, comes after the wait for O, without a shuffle
//   lowered   the quads shuffle after that vote, because the weights of a row are reduced
// A tile that is raised and lowered has the letter of lowered.
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

// For block 0 and consumer 0, a letter for each tile, of each of its four warps.
export function reduce({ events, hazards }) {
  if (hazards.length) throw new Error('a hazard')
  const mine = events.filter(({ block }) => block === 0)
  const warps = [...new Set(mine.filter(({ kind }) => kind === FORM).map(({ warp }) => warp))]
    .sort((one, other) => one - other).slice(0, 4)
  return warps.map((warp) => tiles_of_warp(mine.filter((event) => event.warp === warp)))
}
