// Reduces the event log of a kernel, which a program writes for --events, to the data of the
// timeline, and describes it.

// An instruction is one letter, so a warp's program is a string. ldmatrix is q, k or v, for the
// matrix that it reads.
const LETTERS = { copy_issue: 'c', commit: 'g', wait: 'w', barrier: 'b', mma: 'm', shuffle: 's', vote: 'a',
  store_global: 'o' }
const by = (list, key) => list.reduce((map, item) =>
  map.set(key(item), [...map.get(key(item)) ?? [], item]), new Map())

// Returns the copies. A copy is a commit group that copied something. It is named by every matrix
// that it contains, in the order of their first cp.async. The number of a matrix's tile is the
// number of earlier groups with that matrix. The same rule is in docs/timeline.py. Each part has
// the bytes of shared memory [from, to) that all warps together copy it to.
function parts_of_groups(events) {
  const tiles = {}
  const issued = by(events.filter(({ kind }) => kind === 'copy_issue'), ({ group }) => group)
  return new Map([...issued].sort(([one], [other]) => one - other).map(([group, issues]) => [group,
    [...by(issues, ({ source }) => source.match(/^\w*/)[0])].map(([matrix, own]) => {
      const from = Math.min(...own.map((event) => event.shared_address))
      tiles[matrix] = (tiles[matrix] ?? -1) + 1
      return { matrix, tile: tiles[matrix], from, to: from + own.reduce((sum, { bytes }) => sum + bytes, 0) }
    })]))
}

// Returns the buffers that K and V are copied to, and Q's if it has its own.
function lanes_of(parts) {
  const lanes = []
  for (const matrix of ['K', 'V', 'Q']) {
    const own = new Map(parts.filter((part) => part.matrix === matrix).map(({ from, to }) => [from, to]))
    const free = [...own].filter(([from, to]) => !lanes.some((lane) => from < lane.to && lane.from < to))
      .sort(([one], [other]) => one - other)
    const name_of_buffer = (i) => `${matrix} buffer${free.length > 1 ? ` ${i}` : ''}`
    free.forEach(([from, to], i) => lanes.push({ name: name_of_buffer(i), from, to }))
  }
  return lanes
}

// Returns one warp: its instructions, the N of each wait_group, and for each copy the steps of its
// first cp.async and of the wait that completed it (null: none), and for each part its reads: the
// steps of the first and the last ldmatrix between two barriers.
function reduce_warp(events, groups, lanes) {
  const copies = [], pending = []
  let code = '', barrier = -1
  for (const { kind, step, group, shared_address: address, pending_groups } of events) {
    if (kind === 'land') {
      const landed = copies.find((copy) => copy.group === group)
      if (landed) landed.end = step  // else an empty group
      continue
    }
    if (kind === 'barrier') barrier = step
    if (kind === 'wait') pending.push(pending_groups)
    if (kind === 'copy_issue' && !copies.some((copy) => copy.group === group)) {
      const parts = groups.get(group).map((part) => ({ ...part, reads: [] }))
      copies.push({ group, first: step, end: null, parts })
    }
    const part = kind === 'ldmatrix' && copies.flatMap((copy) => copy.parts)
      .findLast(({ from, to }) => from <= address && address < to)
    if (part && part.reads.at(-1)?.[1] > barrier) part.reads.at(-1)[1] = step
    else if (part) part.reads.push([step, step])
    const letter = part ? part.matrix.toLowerCase() : LETTERS[kind]
    if (!letter) throw new Error(`event ${kind} at step ${step}: the timeline does not know it`)
    code += letter
  }
  const touched = ({ from, to }) => lanes.flatMap((lane, i) => from < lane.to && lane.from < to ? [i] : [])
  const placed = ({ matrix, tile, reads, ...bytes }) => ({ matrix, tile, reads, lanes: touched(bytes) })
  return { code, pending,
    copies: copies.map(({ parts, ...copy }) => ({ ...copy, parts: parts.map(placed) })) }
}

// Convert a track between its stored form and its used form. Repeated instructions are stored once,
// as 64(km).
const packed = ({ code, pending, copies }) => [
  code.replace(/(.{1,12}?)\1{2,}/g, (all, one) => `${all.length / one.length}(${one})`), pending,
  ...copies.map(({ group, first, end, parts }) => [group, first, end,
    ...parts.map(({ matrix, tile, lanes, reads }) => [matrix, tile, lanes, reads])])]
const unpacked = ([code, pending, ...copies]) => ({
  code: code.replace(/(\d+)\((\w+)\)/g, (_, times, one) => one.repeat(times)), pending,
  copies: copies.map(([group, first, end, ...parts]) => ({ group, first, end,
    parts: parts.map(([matrix, tile, lanes, reads]) => ({ matrix, tile, lanes, reads })) })) })

// Reduces block 0 of a run. Warps with equal tracks share one. `warps` has the index of each warp's
// track.
export function reduce({ events, hazards }) {
  const mine = events.filter(({ block }) => block === 0)
  const groups = parts_of_groups(mine)
  const lanes = lanes_of([...groups.values()].flat())
  const tracks = [], warps = []
  for (const [warp, own] of [...by(mine, (event) => event.warp)].sort(([one], [other]) => one - other)) {
    const track = JSON.stringify(packed(reduce_warp(own, groups, lanes)))
    if (!tracks.includes(track)) tracks.push(track)
    warps[warp] = tracks.indexOf(track)
  }
  const place = (thread, step) => thread < 0 ? null : { warp: thread >> 5, step }
  return { lanes, warps, tracks: tracks.map((track) => JSON.parse(track)),
    hazards: hazards.map(({ kind, where, count: accesses, text, thread, step, other_thread, other_step }) => (
      { kind, where, accesses, text, at: place(thread, step), other: place(other_thread, other_step) })) }
}

// ---- descriptions of a run ----
const tracks_of = new WeakMap()  // unpacked once
export function track_of(run, warp) {
  if (!tracks_of.has(run)) tracks_of.set(run, run.tracks.map(unpacked))
  return tracks_of.get(run)[run.warps[warp]]
}
export const steps_of = (run) => Math.max(...run.warps.map((_, warp) => track_of(run, warp).code.length))
export const count = (code, letter, from = 0, to = code.length) =>
  code.slice(from, to).split(letter).length - 1
export const places = (code, letter) => [...code].flatMap((each, step) => each === letter ? [step] : [])
export const listed = (items) => items.length ? items.join(', ') : 'nothing'

export const short = ({ parts }) => parts.map(({ matrix, tile }) => `${matrix}${tile}`).join('+')
export const name_of = ({ parts }) => parts.map(({ matrix, tile }) => `${matrix} tile ${tile}`).join(', ')
export const end_of = (track, copy) => copy.end ?? track.code.length
export const meanwhile = (track, copy) => count(track.code, 'm', copy.first + 1, end_of(track, copy))
export const in_flight = (track, step) =>
  track.copies.filter((copy) => copy.first <= step && step < end_of(track, copy))

// Returns the number of mma that most copies overlap with.
export function usual(track) {
  const all = track.copies.map((copy) => meanwhile(track, copy))
  const votes = (n) => all.filter((other) => other === n).length
  return all.reduce((best, n) => votes(n) > votes(best) ? n : best)
}

// Returns "S" or "O", the target of the mma at this step, determined by the last read.
export const product = (track, step) =>
  track.code.slice(0, step + 1).match(/[kv](?=[^kv]*$)/)?.[0] === 'k' ? 'S' : 'O'

// Returns "K tile 1", the tile that an ldmatrix of this matrix reads at this step or last read
// before it.
function tile_of(track, matrix, step) {
  const read = track.copies.flatMap(({ parts }) => parts).filter((part) => part.matrix === matrix)
    .flatMap(({ tile, reads }) => reads.map(([first]) => ({ tile, first })))
    .filter(({ first }) => first <= step)
  return `${matrix} tile ${read.reduce((last, each) => each.first > last.first ? each : last).tile}`
}

export function doing(track, step) {
  const { code, copies, pending } = track, letter = code[step], before = count(code, letter, 0, step)
  const copy = copies.findLast(({ first }) => first <= step)
  const landed = copies.filter(({ end }) => end === step).map(name_of)
  return {
    c: () => `cp.async of ${name_of(copy)}`,
    g: () => copy?.group === before ? `commits ${name_of(copy)}` : 'commits an empty group',
    w: () => `wait_group ${pending[before]}: ${landed.length ? listed(landed) : 'nothing new'} has landed`,
    b: () => `barrier ${before + 1} of ${count(code, 'b')}, waits for all`,
    q: () => `ldmatrix of ${tile_of(track, 'Q', step)}`,
    k: () => `ldmatrix of ${tile_of(track, 'K', step)}`,
    v: () => `ldmatrix of ${tile_of(track, 'V', step)}`,
    m: () => product(track, step) === 'S' ? `mma, S = Q Kᵀ with ${tile_of(track, 'K', step)}`
      : `mma, O += P V with ${tile_of(track, 'V', step)}`,
    s: () => 'shuffle: row maxima or sums', a: () => 'vote: has a maximum grown?', o: () => 'stores O',
  }[letter]()
}

// Returns the range of another warp while the chosen one is at its step, between the same two barriers.
export function somewhere(run, state, other) {
  const passed = count(track_of(run, state.warp).code, 'b', 0, state.step)
  const { code } = track_of(run, other), barriers = places(code, 'b')
  return [passed ? barriers[passed - 1] : 0, (barriers[passed] ?? code.length - 1) + 1]
}

export function barriers_around({ code }, step) {
  const passed = count(code, 'b', 0, step), all = count(code, 'b')
  if (passed > 0 && passed < all) return `between barriers ${passed} and ${passed + 1}`
  return passed ? `between barrier ${passed} and the end` : 'between the start and barrier 1'
}

// Returns the instructions of `whole` that `code` omits, and their positions in `code`. Shuffles
// are ignored, because their number depends on the values, and a broken kernel's values are NaN.
export function missing_in(code, whole) {
  const missing = []
  let step = 0
  for (const letter of whole.replaceAll('s', '')) {
    while (code[step] === 's') step++
    if (code[step] === letter) step++
    else missing.push({ letter, step })
  }
  return missing
}

export function describe_copy(run, track, copy) {
  const buffers = copy.parts.flatMap((part) => part.lanes).map((lane) => run.lanes[lane])
    .map(({ name, from, to }) => `${name}, bytes ${from} to ${to - 1}`)
  const reads = copy.parts.flatMap((part) => part.reads).map(([first, last]) => `${first} to ${last}`)
  const waited = copy.end === null ? 'no wait' : `waited for at ${copy.end}`
  return `${name_of(copy)}: first cp.async at instruction ${copy.first}, ${waited}, `
    + `${meanwhile(track, copy)} mma meanwhile. `
    + `To ${buffers.join(' and ')}; read by ldmatrix ${reads.join(', ')}.`
}
