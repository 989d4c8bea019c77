// Reduces the event logs of chapters 14 and 15 to the products that a consumer starts, its waits,
// and its computations in between. The arrival of tiles is left out, because they are assumed to be there.
import { consumers_of, mine_of, products_of, settle } from './roles_log.js'

// The drawn length of a step. It is not measured, because the log has an order but no times. A
// wgmma is as long as the exponentials of the 16 keys that it multiplies.
const LENGTH = { start: 1, turn: 1, issue: 1, wait: 1, maximum: 2, pack: 1, store: 2 }

// A warp whose maximum grew votes again, on whether the maximum is large. The figures show one vote
// per tile.
export const without_second_votes = (events) => events.filter(({ kind }, i) => kind !== 'vote' ||
  events.slice(0, i).findLast((event) => event.kind !== 'shuffle')?.kind !== 'vote')

// Returns the steps of a warp, and the groups of wgmma that it commits. Exponentials and packing
// have no events. If O is computed in pieces, the exponentials come before each piece, otherwise
// after the row maximum. P is then packed as soon as no product reads the previous P.
function steps_of_warp(all, product_of) {
  const events = without_second_votes(all)
  const steps = [], groups = [], add = (step) => steps.push(step)
  const tiles = events.filter(({ kind }) => kind === 'vote').length
  const of_O = events.filter((event) => event.kind === 'wgmma' && product_of(event).product === 'O').length / tiles
  const pieces = events.filter(({ kind }) => kind === 'commit').length / tiles - 1  // pieces of O, because S is one piece
  let maxima = 0
  const flying = (product) => groups.filter((group) => group.product === product && !group.waited)
  const pack = () => add({ kind: 'pack', tile: maxima - 1 })
  events.forEach(({ kind, barrier, pending_groups, order, b }, i) => {
    const last = steps.at(-1)
    if (kind === 'barrier' && barrier) add({ kind: 'turn', barrier })
    if (kind === 'barrier_arrive') {
      if (!last) add({ kind: 'start' })
      steps.at(-1).passes = barrier
    }
    if (kind === 'wgmma' && events[i - 1].kind === 'fence') {
      const { product } = product_of({ b })
      const tile = product === 'O' ? maxima - 1 : groups.filter((group) => group.product === 'S').length
      add(product === 'O' && pieces > 1 ? { kind: 'exponentials', product, tile, length: of_O / pieces }
        : { kind: 'issue', product, tile })
      groups.push({ product, tile, order, length: 0, after: [steps.at(-1)] })
    }
    if (kind === 'wgmma') groups.at(-1).length++
    if (kind === 'wait') {
      const until = groups.slice(0, groups.length - pending_groups).filter(({ waited }) => !waited)
      const { product, tile } = until.at(-1)
      add({ kind: 'wait', product, tile, until })
      for (const group of until) group.waited = steps.at(-1)
      if (product === 'O' && tile < maxima - 1) pack()
    }
    if (kind === 'vote') {
      add({ kind: 'maximum', tile: maxima++ })
      if (pieces === 1) {
        add({ kind: 'exponentials', tile: maxima - 1, length: of_O })
        if (!flying('O').length) pack()
      }
    }
    if (kind === 'store_global' && last.kind !== 'store') add({ kind: 'store' })
  })
  return { steps, groups }
}

// Computes when each step of the warps and each group of wgmma is drawn. The tensor cores execute one
// group after the other, in the order of the commits. A group comes after the step that issues it.
export function take_turns(steps, groups, length_of) {
  let queue = groups.sort((one, other) => one.order - other.order)
  const given = (group) => group.after[0].from
  for (let order = []; order.some((group, i) => group !== queue[i]) || !order.length;) {
    order = queue
    order.forEach((group, i) => Object.assign(group, { until: [],
      after: [group.after[0], ...order.slice(i && i - 1, i)] }))
    settle([...steps, ...order], length_of)
    queue = [...order].sort((one, other) => given(one) - given(other))
  }
}

// Reduces block 0 of a run to the first warps of the first `consumers` consumers. A turn waits for
// the step that passes it on.
export function reduce(log, consumers) {
  const product_of = products_of(log), mine = mine_of(log).map((event, order) => ({ ...event, order }))
  const lanes = consumers_of(mine).slice(0, consumers).map((first) =>
    steps_of_warp(mine.filter(({ warp }) => warp === first), product_of))
  const steps = lanes.flatMap((lane) => lane.steps)
  for (const lane of lanes) {
    lane.steps.forEach((step, i) => Object.assign(step, { after: lane.steps.slice(i && i - 1, i),
      until: step.until ?? [] }))
    const [first] = lane.steps.filter(({ kind }) => kind === 'turn'), own = first?.barrier
    const passes = steps.filter((step) => step.passes === own)
    lane.steps.filter(({ kind }) => kind === 'turn').forEach((turn, i) => turn.until.push(passes[i]))
  }
  take_turns(steps, lanes.flatMap((lane) => lane.groups), ({ kind, length }) => length ?? LENGTH[kind])

  // A product, that is, when it was started, when its end was known, and when it ran in between.
  const products = ({ groups }) => [...new Set(groups.map(({ product, tile }) => `${product}${tile}`))].map((name) => {
    const own = groups.filter(({ product, tile }) => name === `${product}${tile}`)
    const runs = own.reduce((all, { from, to }) => all.at(-1)?.[1] === from - 1
      ? [...all.slice(0, -1), [all.at(-1)[0], to]] : [...all, [from, to]], [])
    return { product: own[0].product, tile: own[0].tile, given: own[0].after[0].from, known: own[0].waited.to, runs }
  })
  const kept = ({ after, until, length, ...step }) => step
  return { lanes: lanes.map((lane) => ({ steps: lane.steps.map(kept), products: products(lane) })) }
}

export const length_of = ({ lanes }) => 1 + Math.max(...lanes.map(({ steps }) => steps.at(-1).to))
