// Reduces chapter 14's event log to the timeline of its roles, and describes it.
import { matrix_of, mbarriers_of } from './mbarriers_log.js'

const WARPGROUP = 4  // warps
// The drawn length of a step. It is not measured, because the log has an order but no times.
const LENGTH = { start: 1, registers: 1, ask: 1, wait: 1, S: 3, softmax: 2, O: 3, store: 2 }

export const mine_of = ({ events }) => events.filter(({ block }) => block === 0)

// Identifies the mbarriers of each buffer from the intact run: `full` counts the copies into it,
// and the producer waits at `empty` before it starts a copy.
export function buffers_of(log) {
  const mine = mine_of(log), full = mbarriers_of(log)
  const producer = mine.filter(({ warp }) => warp === mine.find(({ kind }) => kind === 'tma_load').warp)
  return full.map(({ at, matrix, name }) => {
    const asked = producer.findIndex((event) => event.mbarrier === at && event.bytes > 0)
    const before = producer[asked - 1]
    return { matrix, name: name.replace('_full', ''), full: at,
      ...before.kind === 'mbarrier_wait' ? { empty: before.mbarrier } : {} }
  })
}

// Returns the shared memory of the tiles of each buffer.
const boxes_of = (mine, buffers) => mine.filter(({ kind }) => kind === 'tma_load').map((copy) => ({
  from: copy.shared_address, to: copy.shared_address + copy.bytes,
  buffer: buffers.findIndex(({ full }) => full === copy.mbarrier) }))

// Returns the buffer that a wgmma reads its B from, and which product it computes.
export function products_of(log) {
  const buffers = buffers_of(log), boxes = boxes_of(mine_of(log), buffers)
  return ({ b }) => {
    const { buffer } = boxes.find(({ from, to }) => from <= b.shared_address && b.shared_address < to)
    return { buffer, product: buffers[buffer].matrix === 'K' ? 'S' : 'O' }
  }
}

// Returns the first warp of each warpgroup that multiplies.
export const consumers_of = (mine) => [...new Set(mine.filter(({ kind, b }) => kind === 'wgmma' && b)
  .map(({ warp }) => warp - warp % WARPGROUP))].sort((one, other) => one - other)

// Returns the steps of a warp, each with the numbers of its first and last event and their lines.
function steps_of_warp(events, buffers, product_of) {
  const steps = [], tiles = {}
  const add = (event, step) => steps.push({ ...step, first: event.step, last: event.step, lines: [event.where] })
  const extend = (event, more) => {
    const last = steps.at(-1)
    Object.assign(last, more, { last: event.step })
    last.lines.push(event.where)
  }
  const next_tile = (kind) => tiles[kind] = (tiles[kind] ?? -1) + 1
  for (const event of events) {
    const { kind, phase, parity, bytes, mbarrier } = event
    const buffer = mbarrier === undefined ? -1
      : buffers.findIndex(({ full, empty }) => [full, empty].includes(mbarrier))
    const matrix = buffers[buffer]?.matrix, is_empty = buffers[buffer]?.empty === mbarrier, last = steps.at(-1)
    if (kind === 'barrier') add(event, { kind: 'start' })
    if (kind === 'registers') add(event, { kind })
    if (kind === 'mbarrier_wait') add(event, { kind: 'wait', buffer, is_empty, phase, parity })
    if (kind === 'mbarrier_arrive' && bytes) add(event, { kind: 'ask', buffer, phase, bytes })
    if (kind === 'tma_load') {
      if (last.kind !== 'ask' || last.buffer !== buffer) throw new Error('nothing is expected of a copy')
      extend(event, { tile: next_tile(matrix) })
    }
    if (kind === 'wgmma' && event.b) {
      const { buffer, product } = product_of(event)
      if (last.kind === product) extend(event)
      else add(event, { kind: product, buffer, tile: next_tile(product) })
    }
    if (kind === 'mbarrier_arrive' && !bytes) extend(event, { arrives: phase })
    if (kind === 'vote' && last.kind === 'S') add(event, { kind: 'softmax' })
    if (kind === 'store_global' && last.kind !== 'store') add(event, { kind: 'store' })
  }
  return steps
}

// Computes when each step is drawn, [from, to], as early as possible. A step comes after the
// previous step of its lane. A wait ends when its phase is complete. An arrival that counts for a
// phase comes after the phase before. A wait that is one phase late comes after that phase.
function place_steps(lanes, late) {
  const all = lanes.flat(), at = (buffer) => all.filter((step) => step.buffer === buffer)
  const asked = (buffer, phase) => at(buffer).filter((step) => step.kind === 'ask' && step.phase === phase)
  const arrived = (buffer, phase) => at(buffer).filter((step) => step.arrives === phase)
  for (const lane of lanes) {
    lane.forEach((step, i) => {
      const [previous, next] = [lane[i - 1], lane[i + 1]]
      step.after = previous ? [previous] : []
      if (step.kind === 'wait' && next?.arrives > 0) step.after.push(...arrived(next.buffer, next.arrives - 1))
      if (late.includes(step)) step.after.push(...asked(step.buffer, step.phase + 1))
      step.until = step.kind !== 'wait' ? []
        : step.is_empty ? arrived(step.buffer, step.phase) : asked(step.buffer, step.phase)
    })
  }
  settle(all, ({ kind }) => LENGTH[kind])
}

// Returns [from, to] of each step, as early as possible, so that it starts after its predecessors, and does not
// end before the steps that it waits for.
export function settle(all, length_of) {
  for (const step of all) Object.assign(step, { from: 0, to: 0 })
  const end = (steps) => Math.max(-1, ...steps.map(({ to }) => to)) + 1
  for (let moved = true, rounds = 0; moved; rounds++) {
    if (rounds > all.length) throw new Error('steps that wait for each other')
    moved = false
    for (const step of all) {
      const from = end(step.after), to = Math.max(from + length_of(step) - 1, end(step.until))
      moved ||= from !== step.from || to !== step.to
      Object.assign(step, { from, to })
    }
  }
}

// Returns the hazards of a run, each with the [lane, step] of both accesses. Several warps share the
// lane of the first one, so this is the nearest step of the lane on the line of the access.
export function hazards_of(log, warps, lanes) {
  const step_of = (thread, step, where) => {
    const lane = warps.findLastIndex((first) => first <= thread >> 5)
    const away = ({ first, last }) => Math.max(first - step, step - last, 0)
    const own = (lanes[lane] ?? []).filter(({ lines }) => lines.includes(where))
    if (!own.length) return null
    return [lane, lanes[lane].indexOf(own.reduce((best, each) => away(each) < away(best) ? each : best))]
  }
  return log.hazards.map(({ kind, text, count: accesses, where, other, ...at }) => ({ kind, where,
    text, accesses, at: [step_of(at.thread, at.step, where), step_of(at.other_thread, at.other_step, other)]
      .filter(Boolean) }))
}

// Reduces block 0 of a run to the warp that starts the copies and the first warp of each warpgroup
// that multiplies.
export function reduce(log, buffers) {
  const mine = mine_of(log)
  const producer = mine.find(({ kind }) => kind === 'tma_load').warp
  const warps = [producer, ...consumers_of(mine)], product_of = products_of(log)
  const lanes = warps.map((warp) => steps_of_warp(mine.filter((event) => event.warp === warp), buffers, product_of))

  const hazards = hazards_of(log, warps, lanes)
  place_steps(lanes, hazards.filter(({ kind }) => kind === 'wait_wrong_phase')
    .map(({ at: [[lane, step]] }) => lanes[lane][step]))
  const kept = ({ first, last, lines, after, until, ...step }) => step
  return { lanes: lanes.map((steps) => steps.map(kept)), hazards }
}

// ---- descriptions of a run ----
export const length_of = ({ lanes }) => 1 + Math.max(...lanes.map((steps) => steps.at(-1).to))

// Returns the step of a lane at a moment, or undefined between two steps.
export const step_at = (steps, now) => steps.find(({ from, to }) => from <= now && now <= to)

// Returns the tiles of a buffer: when each was requested and when it landed, which is as late as
// possible: at the end of the first wait for it, or when the next one is requested (null: never);
// and the products that read it, as [from, to, the tile that they should read].
export function fills_of(run, buffer) {
  const own = run.lanes.flat().filter((step) => step.buffer === buffer)
  const asks = own.filter(({ kind }) => kind === 'ask')
  return asks.map(({ from: asked, tile, phase }, i) => {
    const next = asks[i + 1]?.from ?? Infinity
    const waits = own.filter((step) => step.kind === 'wait' && !step.is_empty && step.phase === phase)
    const landed = Math.min(next, ...waits.map(({ to }) => to))
    return { asked, tile, phase, landed: landed === Infinity ? null : landed,
      reads: own.filter(({ kind, from }) => 'SO'.includes(kind[0]) && asked < from && from < next)
        .map((step) => [step.from, step.to, step.tile]) }
  })
}

// Returns the number of arrivals that complete a phase of `empty`.
export const arrivals_of = ({ lanes }) => {
  const each = lanes.flat().filter(({ arrives }) => arrives !== undefined)
  return Math.max(...each.map((one) => each.filter(({ arrives, buffer }) =>
    arrives === one.arrives && buffer === one.buffer).length))
}

// Returns a buffer at the end of a moment, that is, its tile, the current phases of `full` and `empty`, and the
// number of missing arrivals of `empty`.
export function state_of(run, buffer, now) {
  const fills = fills_of(run, buffer), asked = fills.filter((fill) => fill.asked <= now), each = arrivals_of(run)
  const arrived = run.lanes.flat().filter((step) =>
    step.arrives !== undefined && step.buffer === buffer && step.to <= now)
  const landed = fills.filter((fill) => fill.landed !== null && fill.landed <= now).length
  const empty = Math.floor(arrived.length / each), tile = asked.at(-1)?.tile
  const what = tile === undefined || empty >= asked.length ? 'empty' : landed < asked.length ? 'coming' : 'full'
  return { tile, what, full: landed, empty, lacks: each - arrived.length % each }
}
