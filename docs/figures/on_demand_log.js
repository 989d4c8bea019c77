// Chapter 16's event log: what each warp of the consumer did with each tile, and at which tiles it voted.

const first_of = (events, kind) => events.findIndex((event) => event.kind === kind)

// A tile of scores is there when a warp has waited for it: the wait that leaves one product, O of the tile
// before, in flight; for the first tile the first wait. What the warp does with it ends at the next fence, in
// front of the next product. In between the log tells:
//   exact   the vote on whether a maximum grew comes before the wait for O, as the exponentials do
//   demand  the only vote, whether a sum is too large, comes after it: no thread has looked at the scores
//   again   the scores were computed by mma
//   moved   a quad has shuffled: its maxima, which it does only to raise them
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

// Block 0, consumer 0. A tile is masked if its box of K reaches past the last key.
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

// ---- what a run says ----
const DONE = Object.fromEntries(Object.entries(LETTERS).map(([done, letter]) => [letter, done]))
export const cell = (run, warp, tile) => {
  const letter = run.warps[warp][tile]
  return { done: DONE[letter.toLowerCase()], moved: letter !== letter.toLowerCase() }
}
export const count_of = ({ warps }) => warps[0].length

// The rounds, [first tile, tile behind the last]: between votes, but the first tile and the masked ones are none.
export function rounds_of(run) {
  const ends = [...run.votes, run.masked[0] ?? count_of(run)]
  return ends.map((end, i) => [i ? ends[i - 1] : 1, end])
}

// What a vote found, told from what follows: the round behind it is exact, or it is not.
export const said_yes = (run, vote) => cell(run, 0, vote).done === 'exact'
