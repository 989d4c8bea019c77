// Chapter 16's event log: how each warp of a warpgroup came to the weights of each tile of keys.
import { mine_of } from './roles_log.js'

// What a warp did, told by the order of its waits and votes (attention.hpp, softmax.hpp). In front of an exact
// tile's vote only S was waited for, or it is the first tile. Behind the wait for O, too, the vote asks for the
// sums; if mma follows, the tile is done again, and the next vote is that of the maximum it looks for. Shuffles
// behind a vote move a maximum. The last vote asks whether O is finite. With whole tiles, none is masked.
function tiles_of_warp(events) {
  const tiles = []
  let pending = 0, again = false
  const votes = events.filter(({ kind }) => kind === 'vote').length
  let seen = 0
  for (const { kind, pending_groups, mma } of events) {
    if (kind === 'wait') pending = pending_groups
    if (kind === 'mma') again = true
    if (kind === 'shuffle' && tiles.length && seen < votes) tiles.at(-1).moved = true
    if (kind === 'vote' && ++seen < votes) {
      if (again) tiles.at(-1).kind = 'again'
      else tiles.push({ kind: pending === 1 || !tiles.length ? 'exact' : 'on demand', moved: false })
      again = false
    }
  }
  return tiles
}

// The first warpgroup that multiplies, of block 0: for each warp its tiles, and in front of which tiles the
// four vote.
export function reduce(log) {
  const mine = mine_of(log), first = Math.min(...mine.filter(({ kind }) => kind === 'wgmma').map(({ warp }) => warp))
  const warps = [0, 1, 2, 3].map((i) => mine.filter(({ warp }) => warp === first + i))
  const votes = []
  let tiles = 0
  for (const { kind, barrier } of warps[0]) {
    if (kind === 'commit') tiles++
    if (kind === 'barrier' && barrier) votes.push((tiles + 1) / 2)  // S of each tile, O of each but the last
  }
  return { warps: warps.map(tiles_of_warp), votes }
}
