// Reduces chapter 22's event log to the steps of its four roles, the products on the tensor cores,
// and the use of the buffers between them.
import { matrix_of } from './mbarriers_log.js'
import { take_turns } from './overlap_log.js'
import { consumers_of, hazards_of, mine_of } from './roles_log.js'

// The drawn length of a step. It is not measured, because the log has an order but no times. A wait
// whose condition holds already has no length.
const LENGTH = { ask: 1, issue: 1, P: 3, dS: 3, store_dS: 1, store_dQ: 2, add: 1, engine: 2, store: 3,
  product: 3 }
const MEET = 1, STORED = 2, READ = 4  // the named barriers of kernel.hpp

// Returns the events of block 0 in the main kernel, without the kernels before and after it.
export const main_of = (log) => mine_of(log).filter(({ where }) => /^(kernel|products|schedule)\.hpp/.test(where))

// Returns the buffers that the producer fills, by matrix and address, then the two of dS, then the
// halves of dQ.
function buffers_of(events, is_dS) {
  const copies = events.filter(({ kind }) => kind === 'tma_load'), ascending = (one, other) => one - other
  const rings = ['Q', 'dO'].flatMap((matrix) => {
    const own = copies.filter((copy) => matrix_of(copy) === matrix)
    const stages = [...new Set(own.map((copy) => copy.shared_address))].sort(ascending)
    return stages.map((at, stage) => {
      const copy = own.find(({ shared_address }) => shared_address === at)
      const { mbarrier: empty } = events.slice(0, events.indexOf(copy)).findLast(({ kind, warp }) =>
        kind === 'mbarrier_wait' && warp === copy.warp)
      return { matrix, name: `${matrix} ${stage}`, at, bytes: copy.bytes, full: copy.mbarrier, empty, stage,
        stages: stages.length }
    })
  })
  const dS = [...new Set(events.filter((event, i) => is_dS(event) && events[i - 1].kind === 'fence')
    .map(({ a }) => a.shared_address))].sort(ascending)
  return [...rings, ...dS.map((at, i) => ({ matrix: 'dS', name: `dS ${i}`, at })),
    ...[0, 1].map((half) => ({ matrix: 'dQ', name: `dQ half ${half}`, half }))]
}

// Returns the steps of a warp, and its products, each a group of wgmma. P and dS are computed without
// events, P before the product dV and dS when dP is complete.
function steps_of_warp(events, buffers, product_of) {
  const steps = [], products = [], now = {}  // now is the tile of Q and of dO that was waited for last
  const count = (kind, half) => steps.filter((step) => step.kind === kind && step.half === half).length
  const add = ({ step, where }, more) => steps.push({ ...more, first: step, last: step, lines: [where] })
  events.forEach((event, i) => {
    const { kind, barrier, mbarrier, phase, bytes, order } = event, last = steps.at(-1), before = events[i - 1]?.kind
    const extend = (more) => {
      Object.assign(last, more, { last: event.step })
      last.lines.push(event.where)
    }
    const buffer = buffers.findIndex(({ full, empty }) => mbarrier !== undefined && [full, empty].includes(mbarrier))
    const { matrix, stage, stages, empty } = buffers[buffer] ?? {}, tile = phase * stages + stage
    if (kind === 'mbarrier_wait' && mbarrier === empty) add(event, { kind: 'empty', buffer, phase })
    else if (kind === 'mbarrier_wait') {
      now[matrix] = tile
      add(event, { kind: 'full', buffer, phase, tile })
    }
    if (kind === 'mbarrier_arrive' && bytes) add(event, { kind: 'ask', buffer, phase, tile })
    if (kind === 'mbarrier_arrive' && !bytes) extend({ arrives: phase, buffer })
    if (kind === 'wgmma' && before === 'fence') {
      const { product, buffer, of } = product_of(event, events[i + 1]), tile = now[of]
      if (product === 'dV') add(event, { kind: 'P', tile })
      add(event, { kind: 'issue', product, tile })
      products.push({ product, tile, buffer, order, kind: 'product', after: [steps.at(-1)] })
    }
    if (kind === 'wait' && event.pending_groups !== undefined) {
      const until = products.slice(0, products.length - event.pending_groups).filter(({ known_at }) => !known_at)
      add(event, { kind: 'products', names: until.map(({ product, tile }) => `${product}${tile}`), until })
      for (const product of until) product.known_at = steps.at(-1)
      for (const { product, tile } of until) if (product === 'dP') add(event, { kind: 'dS', tile })
    }
    const at_end = last?.kind === 'store'
    if (kind === 'barrier' && barrier === MEET) add(event, { kind: 'meet', nth: count('meet') })
    if (kind === 'barrier' && [STORED, STORED + 1].includes(barrier)) {
      add(event, { kind: 'stored', half: barrier - STORED, tile: count('stored', barrier - STORED) })
    }
    if (kind === 'barrier' && barrier >= READ && !at_end) {
      add(event, { kind: 'read', half: barrier - READ, tile: count('read', barrier - READ) })
    }
    if (kind === 'barrier_arrive' && barrier < READ) extend({ stored: barrier - STORED })
    if (kind === 'barrier_arrive' && barrier >= READ) extend({ frees: [...last.frees ?? [], barrier - READ] })
    if (kind === 'store_shared' && before !== 'store_shared' && !at_end) {
      const which = last.kind === 'dS' ? 'store_dS' : last.kind === 'meet' ? 'store' : 'store_dQ'
      add(event, { kind: which, tile: count(which) })
    }
    if (kind === 'tma_store' && event.source.startsWith('workspace')) {
      const half = steps.filter(({ kind }) => kind === 'add').length % 2
      add(event, { kind: 'add', half, tile: count('add', half) })
    }
    if (kind === 'wait' && event.pending_groups === undefined && !at_end) {  // by the adding warp
      const half = events.slice(i).find(({ kind }) => kind === 'barrier_arrive')?.barrier - READ
      add(event, { kind: 'engine', half: half >= 0 ? half : 'all' })
    }
  })
  return { steps, products }
}

// Adds to each step the steps before it, and those that it waits for.
function connect(lanes) {
  const all = lanes.flatMap(({ steps }) => steps)
  const freed = (half) => all.filter(({ frees }) => frees?.includes(half))
  for (const { steps } of lanes) {
    steps.forEach((step, i) => {
      const { kind, buffer, phase, half, tile, nth } = step
      step.after = steps.slice(i && i - 1, i)
      step.until ??= kind === 'empty' ? all.filter((each) => each.buffer === buffer && each.arrives === phase)
        : kind === 'full' ? all.filter((each) => each.kind === 'ask' && each.buffer === buffer && each.phase === phase)
        : kind === 'stored' ? all.filter(({ stored, ...each }) => stored === half && each.tile === tile)
        : kind === 'read' ? freed(half).slice(tile, tile + 1)
        : kind === 'meet' ? lanes.filter((lane) => lane.steps !== steps).flatMap((lane) =>
          lane.steps.filter((_, j) => lane.steps[j + 1]?.kind === 'meet' && lane.steps[j + 1].nth === nth))
        : []
    })
  }
}

// Returns the tiles of each buffer, that is, when a tile takes the buffer, [from, to], and its readers, each
// [from, to, name]. The copy engine reads half of dQ until a wait for it is over, which is as late as the program
// allows.
function fills_of({ matrix, half }, buffer, lanes, end) {
  const all = lanes.flatMap(({ steps }) => steps), last = (list) => Math.max(...list.map(({ to }) => to))
  const reads = (tile) => lanes.flatMap(({ products }, i) => products.filter((each) => each.buffer === buffer
    && each.tile === tile).map(({ from, to, product }) => [from, to, `${product}${tile} of consumer ${i - 2}`]))
  if (matrix === 'dQ') {
    return all.filter(({ stored }) => stored === half).map(({ from, to, tile }, i, stores) => {
      const add = all.find((each) => each.kind === 'add' && each.half === half && each.tile === tile)
      const known = all.find((each) => each.kind === 'engine' && each.from > add.from && [half, 'all'].includes(each.half))
      return { tile, from, to: Math.min(known.to, (stores[i + 1]?.from ?? end) - 1), stored: to,
        reads: [[add.from, known.to, 'the copy engine']] }
    })
  }
  if (matrix === 'dS') {
    const stores = all.filter(({ kind, tile }) => kind === 'store_dS' && reads(tile).length)
    return [...new Set(stores.map(({ tile }) => tile))].map((tile) => ({ tile, reads: reads(tile),
      from: Math.min(...stores.flatMap((each) => each.tile === tile ? [each.from] : [])),
      to: Math.max(...reads(tile).map(([, to]) => to)) }))
  }
  return all.filter((each) => each.kind === 'ask' && each.buffer === buffer).map(({ tile, phase, from }) =>
    ({ tile, from, reads: reads(tile), to: last(all.filter((each) => each.buffer === buffer && each.arrives === phase)) }))
}

// Reduces block 0 to the producer's warp, the adding warp, and the first warp of each consumer.
export function reduce(log) {
  const events = main_of(log).map((event, order) => ({ ...event, order }))
  const boxes = events.filter(({ kind }) => kind === 'tma_load')
  const at = (address) => boxes.find((copy) =>
    copy.shared_address <= address && address < copy.shared_address + copy.bytes)
  const is_dS = ({ a }) => a !== undefined && !at(a.shared_address)
  const buffers = buffers_of(events, is_dS)
  const buffer_at = (address) => buffers.findIndex(({ at, bytes = 1 }) => at <= address && address < at + bytes)
  // The first wgmma of S and dP adds LSE or D.
  const product_of = ({ a, b }, next) => {
    if (is_dS({ a })) return { product: 'dQ', buffer: buffer_at(a.shared_address), of: 'dO' }
    const { shared_address } = next.a ? next.b : b
    const of = matrix_of(at(shared_address)), buffer = buffer_at(shared_address)
    if (next.a) return { product: of === 'Q' ? 'S' : 'dP', buffer, of }
    return { product: of === 'Q' ? 'dK' : 'dV', buffer, of: 'dO' }
  }
  const producer = boxes[0].warp, adding = events.find(({ kind }) => kind === 'tma_store').warp
  const warps = [producer, adding, ...consumers_of(events)]
  const lanes = warps.map((warp) => steps_of_warp(events.filter((event) => event.warp === warp), buffers, product_of))
  connect(lanes)
  take_turns(lanes.flatMap(({ steps }) => steps), lanes.flatMap(({ products }) => products), ({ kind }) => LENGTH[kind] ?? 0)
  const end = 1 + Math.max(...lanes.map(({ steps }) => steps.at(-1).to))
  const kept = ({ first, last, lines, after, until, ...step }) => step
  return { end, hazards: hazards_of(log, warps, lanes.map(({ steps }) => steps)),
    buffers: buffers.map((each, i) => ({ matrix: each.matrix, name: each.name, fills: fills_of(each, i, lanes, end) })),
    lanes: lanes.map(({ steps, products }) => ({ steps: steps.map(kept), products: products.map(
      ({ product, tile, from, to, after, known_at }) => ({ product, tile, from, to,
        given: after[0].from, known: known_at.to })) })) }
}

// ---- descriptions of a run ----

// Returns the times [from, to] at which the copy engine may read a half of dQ that is not yet stored,
// or that already holds the next tile.
export const conflicts_of = ({ fills }) => fills.flatMap(({ stored, reads: [[from, to]] }, i) => stored === undefined ? []
  : [...from <= stored ? [[from, stored]] : [], ...fills[i + 1]?.from <= to ? [[fills[i + 1].from, to]] : []])
