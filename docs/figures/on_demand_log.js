// Reduces chapter 16's event log to what each warp of the consumer did with each tile, and the
// tiles of its votes.

const first_of = (events, kind) => events.findIndex((event) => event.kind === kind)

// A tile of scores is complete when a warp has waited for it, with the wait that leaves one product
// in flight (O of the previous tile), or with the first wait for the first tile. The warp's work on
// it ends at the next fence, before the next product. The events in between show:
//   exact   the vote on whether a maximum grew comes before the wait for O, as do the exponentials
//   demand  the only vote, on whether a sum is too large, comes after it, and no thread computed the maximum
//   again   the scores were recomputed with mma
//   moved   a quad shuffled its maxima, which it only does to raise them
function tiles_of_warp(events) {
  const tiles = [], votes = []
  let own = null  // the events of the current tile
  for (const event of events) {
    const { kind, barrier, pending_groups } = event
    if (kind === 'barrier' && barrier) votes.push(tiles.length)
    if (kind === 'fence') own = null
    own?.push(event)
    if (kind === 'wait' && (pending_groups === 1 || !tiles.length)) tiles.push(own = [])
  }
  return { votes, tiles: tiles.map((own) => {
    const vote = first_of(own, 'vote'), wait = first_of(own, 'wait')
    const again = first_of(own, 'mma') >= 0
    return { done: again ? 'again' : wait < 0 || vote < wait ? 'exact' : 'demand',
      moved: first_of(own, 'shuffle') >= 0 }
  }) }
}

const LETTERS = { exact: 'x', demand: 'd', again: 'a' }

// Reduces block 0, consumer 0. A tile is masked if its box of K extends past the last key.
export function reduce({ events, hazards }, keys) {
  if (hazards.length) throw new Error('a hazard')
  const mine = events.filter(({ block }) => block === 0)
  const warps = [...new Set(mine.filter(({ kind, b }) => kind === 'wgmma' && b).map(({ warp }) => warp))]
    .sort((one, other) => one - other).slice(0, 4)
  const all = warps.map((warp) => tiles_of_warp(mine.filter((event) => event.warp === warp)))
  const rows = mine.filter(({ kind, source }) => kind === 'tma_load' && source[0] === 'K')
    .map(({ coordinates }) => coordinates[1])
  const [{ votes }] = all
  if (all.some((one) => `${one.votes}` !== `${votes}`)) throw new Error('warps that vote at different tiles')
  return {
    warps: all.map(({ tiles }) => tiles.map(({ done, moved }) =>
      moved ? LETTERS[done].toUpperCase() : LETTERS[done]).join('')),
    votes,
    masked: rows.flatMap((row, tile) => row + rows[1] - rows[0] > keys ? [tile] : []) }
}

// ---- descriptions of a run ----
const DONE = Object.fromEntries(Object.entries(LETTERS).map(([done, letter]) => [letter, done]))
export const cell = (run, warp, tile) => {
  const letter = run.warps[warp][tile]
  return { done: DONE[letter.toLowerCase()], moved: letter !== letter.toLowerCase() }
}
export const count_of = ({ warps }) => warps[0].length

// Returns the rounds [first tile, end) between votes. The first tile and masked tiles belong to no
// round.
export function rounds_of(run) {
  const ends = [...run.votes, run.masked[0] ?? count_of(run)]
  return ends.map((end, i) => [i ? ends[i - 1] : 1, end])
}

// True if a vote was positive. The round after it is then exact.
export const said_yes = (run, vote) => cell(run, 0, vote).done === 'exact'
