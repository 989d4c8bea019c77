// Reduces chapter 12's event log to the data of the figure of its mbarriers, and describes it.

export const matrix_of = ({ source }) => source.match(/^\w*/)[0]

// Identifies the mbarriers by the copies that signal them: Q, K for each buffer, V.
export function mbarriers_of({ events }) {
  const copies = events.filter(({ block, kind }) => block === 0 && kind === 'tma_load')
  const all = new Map(copies.map((copy) => [copy.mbarrier, matrix_of(copy)]))
  return ['Q', 'K', 'V'].flatMap((matrix) => {
    const own = [...all].filter(([, of]) => of === matrix).sort(([one], [other]) => one - other)
    return own.map(([at], i) => ({ at, matrix, name: `${matrix}_full${own.length > 1 ? ` ${i}` : ''}` }))
  })
}

// Returns the steps of a warp, each with its first and last event. It requests a tile (two instructions), waits at
// an mbarrier, reaches the barrier, multiplies by a tile, stores.
function steps_of_warp(events, mbarriers, boxes) {
  const steps = [], tiles = {}
  const add = (event, step) => {
    const last = steps.at(-1)
    if (last?.kind === 'multiply' && step.kind === 'multiply' && last.matrix === step.matrix) {
      last.mma += step.mma
      last.to = event
    } else steps.push({ ...step, from: event, to: event })
  }
  for (const event of events) {
    const { kind, phase, parity, bytes } = event
    const mbarrier = mbarriers.findIndex(({ at }) => at === event.mbarrier)
    const matrix = mbarriers[mbarrier]?.matrix, last = steps.at(-1)
    if (kind === 'mbarrier_arrive') add(event, { kind: 'ask', mbarrier, matrix, phase, expects: bytes })
    if (kind === 'tma_load') {
      if (last.kind !== 'ask' || last.mbarrier !== mbarrier) throw new Error('nothing is expected of a copy')
      tiles[matrix] = (tiles[matrix] ?? -1) + 1
      Object.assign(last, { bytes, tile: tiles[matrix], at: event.coordinates, to: event })
    }
    if (kind === 'mbarrier_wait') add(event, { kind: 'wait', mbarrier, matrix, phase, parity })
    if (kind === 'barrier') add(event, { kind: 'barrier' })
    if (kind === 'ldmatrix') {
      const box = boxes.find(({ from, to }) => from <= event.shared_address && event.shared_address < to)
      const { matrix, mbarrier } = box
      if (matrix !== 'Q') add(event, { kind: 'multiply', matrix, mbarrier, mma: 0 })
    }
    if (kind === 'mma') Object.assign(last, { mma: last.mma + 1, to: event })
    if (kind === 'store_global' && last.kind !== 'store') add(event, { kind: 'store' })
  }
  return steps
}

const same = (one, other) =>
  ['kind', 'mbarrier', 'phase', 'parity', 'mma'].every((key) => one[key] === other[key])

// Reduces block 0 of a run. Warp 0 executes everything that any warp executes, and also starts the
// copies. Its steps are the columns of the figure, and the steps of the other warps are matched to
// them.
export function reduce({ events, hazards }, mbarriers) {
  const mine = events.filter(({ block }) => block === 0)
  const boxes = mine.filter(({ kind }) => kind === 'tma_load').map((copy) => ({ matrix: matrix_of(copy),
    from: copy.shared_address, to: copy.shared_address + copy.bytes,
    mbarrier: mbarriers.findIndex(({ at }) => at === copy.mbarrier) }))
  const count = 1 + Math.max(...mine.map(({ warp }) => warp))
  const warps = Array.from({ length: count }, (_, warp) =>
    steps_of_warp(mine.filter((event) => event.warp === warp), mbarriers, boxes))
  const [first, ...others] = warps
  const places = [first.map((_, column) => column), ...others.map((steps) => {
    let column = -1
    return steps.map((step) => {
      column = first.findIndex((each, i) => i > column && same(each, step))
      if (column < 0) throw new Error(`warp 0 does not do what another warp does: ${step.kind}`)
      return column
    })
  })]
  // Choose the event on a hazard's line that is nearest to its step, because lanes of a warp
  // can diverge.
  const column_of = ({ thread, step, where }) => {
    const warp = thread >> 5, distance = ({ from, to }) => Math.max(from.step - step, step - to.step, 0)
    const at = warps[warp].map((each, i) => [distance(each), places[warp][i], each])
      .filter(([, , { from, to }]) => from.where === where || to.where === where)
    return { warp, column: at.reduce((best, each) => each[0] < best[0] ? each : best)[1] }
  }
  return { mbarriers: mbarriers.map(({ name, matrix }) => ({ name, matrix })),
    columns: first.map(({ from, to, ...step }) => step),
    warps: places.map((columns) => first.map((_, i) => columns.includes(i) ? 'x' : '.').join('')),
    hazards: hazards.map((hazard) => ({ kind: hazard.kind, where: hazard.where, accesses: hazard.count,
      text: hazard.text, ...column_of(hazard) })) }
}

// ---- descriptions of a run ----

// Returns the copies that an mbarrier counts, one per phase, as columns, with the step that starts it, the wait
// for it, the steps that read the tile, and the end of its phase. The phase ends when a thread has waited for it,
// because the emulator completes copies as late as possible. If no thread waits, it ends when the next copy
// starts, or never (null).
export function copies_of({ columns }, mbarrier) {
  const own = columns.flatMap((step, column) => step.mbarrier === mbarrier ? [{ ...step, column }] : [])
  const asks = own.filter(({ kind }) => kind === 'ask')
  return asks.map((ask, i) => {
    const next = asks[i + 1]?.column ?? null
    const later = own.filter(({ column }) => ask.column < column && column < (next ?? Infinity))
    const wait = later.find(({ kind }) => kind === 'wait')
    const end = ask.expects !== ask.bytes ? null : wait?.phase === ask.phase ? wait.column : next
    return { ...ask, end, wait: wait?.column ?? null,
      reads: later.filter(({ kind }) => kind === 'multiply').map(({ column }) => column) }
  })
}

// True if the wait at this column returns immediately, for a phase that does not belong to its tile.
export const wrong = (run, column) => {
  const { kind, mbarrier, phase } = run.columns[column]
  return kind === 'wait' && phase !== copies_of(run, mbarrier).findLast((copy) => copy.column < column).phase
}

// Returns the mbarrier after the step of `column`: its phase, and the arrivals and bytes that are
// missing.
export function state_of(run, mbarrier, column) {
  const copies = copies_of(run, mbarrier), asked = copies.filter((copy) => copy.column <= column)
  const last = asked.at(-1), over = asked.filter(({ end }) => end !== null && end <= column).length
  const open = over < asked.length
  // more bytes than expected, which the emulator reports when a thread waits
  const come = open && last.expects !== last.bytes && last.wait !== null && last.wait <= column
  return { phase: over, arrivals: open ? 0 : 1, bytes: open ? last.expects - (come ? last.bytes : 0) : 0 }
}
