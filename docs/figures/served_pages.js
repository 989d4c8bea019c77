// The holders of each page of the cache, step by step, from the trace of chapter 24's server.
import { el, line, rect, soft, svg, text, WIDE, wrapped } from './draw.js'

const COLORS = ['a', 'b', 'c', 'd', 'e', 'f', 'muted']
const color_of = (request) => COLORS[request % COLORS.length]

// Returns the consecutive steps in which a page has the same holders: [page, holders, first, steps].
const runs_of = (holders) => holders[0].flatMap((_, page) => {
  const runs = []
  holders.forEach((row, step) => {
    const last = runs.at(-1)
    if (last && last[1].join() === row[page].join()) last[3]++
    else runs.push([page, row[page], step, 1])
  })
  return runs.filter(([, held]) => held.length)
})
const held = (data, request, step) => data.holders[step].filter((one) => one.includes(request)).length
const counts = (data, step) => {
  const row = data.holders[step]
  return [row.filter((one) => one.length).length, row.filter((one) => one.length > 1).length]
}

export default {
  title: 'Pages that requests share',
  sources: { serve: ['ch24_serve_a_gpt', '--steps', '1', '--device', 'cpu', '--json', '{json}'] },
  data: ({ serve }) => ({ pages: serve.pages, page_size: serve.page_size,
    holders: serve.trace.map(({ holders }) => holders), events: serve.trace.map(({ events }) => events) }),
  stills: { 'chapters/24_serve_a_gpt/figures/served_pages.svg': {} },
  initial: () => ({ step: 8, focus: null }),
  controls: (data) => [{ key: 'step', type: 'step', label: 'step', min: 0, max: data.holders.length - 1, step: 1,
    play: 200 }],

  draw(data, state, width) {
    const left = 52, top = 34, wide = width >= WIDE, cell = 12
    const pitch = (width - left - 4) / data.holders.length, x_of = (step) => left + step * pitch
    const bottom = top + data.pages * cell, [used, shared] = counts(data, state.step)
    const here = [...new Set(data.holders[state.step].flat())].sort((a, b) => a - b)
    const said = wrapped(`Step ${state.step}: ${used} of ${data.pages} pages in use, ${shared} of them shared; `
      + here.map((one) => `request ${one} holds ${held(data, one, state.step)}`).join(', '), width - left, 13)
    return svg(width, bottom + 36 + 18 * said.length, [
      text(left, 14, `${data.pages} pages of ${data.page_size} tokens, a row each`, { class: 'strong' }),
      text(left, 29, wide ? 'the numbers are the requests that hold the page' : 'the numbers: its holders', { class: 'small muted' }),
      rect(left, top, width - left - 4, data.pages * cell, { class: 'cell' }),
      runs_of(data.holders).map(([page, holders, first, steps]) => {
        const chosen = holders.map(String).includes(`${state.focus}`)
        const color = color_of(holders[0]), label = holders.join(' ')
        return el('g', { 'data-focus': `${holders[0]}` }, [
          rect(x_of(first), top + page * cell, steps * pitch, cell - 1,
            !chosen ? { class: soft(color) } : color === 'muted' ? { fill: 'var(--muted)' } : { class: color }),
          steps * pitch >= 5 + 7 * label.length ? text(x_of(first) + 2, top + page * cell + 10, label,
            { class: chosen ? 'small strong inverse' : holders.length > 1 ? 'small strong' : 'small' }) : ''])
      }),
      line(x_of(state.step + 0.5), top - 2, x_of(state.step + 0.5), bottom + 4, { class: 'line-muted' }),
      data.holders.map((_, i) => i % 20 === 0
        ? text(x_of(i), bottom + 16, i ? `${i}` : 'step 0', { class: `small muted${i ? ' middle' : ''}` }) : ''),
      text(left - 6, top + 10, 'page 0', { class: 'small muted end' }),
      text(left - 6, bottom - 2, `${data.pages - 1}`, { class: 'small muted end' }),
      said.map((words, i) => text(left, bottom + 38 + 18 * i, words, { name: i ? undefined : 'used' }))])
  },

  describe(data, state) {
    const [used, shared] = counts(data, state.step)
    const all = [...new Set(data.holders.flat(2))].sort((a, b) => a - b)
    const of_request = (one) => {
      const steps = data.holders.map((_, i) => i).filter((i) => held(data, one, i) > 0)
      return `request ${one}: up to ${Math.max(...steps.map((i) => held(data, one, i)))} pages, in ${steps.length} `
        + `steps from ${steps[0]} to ${steps.at(-1)}`
    }
    const pointed = state.focus === null || state.focus === undefined ? '' : ` ${of_request(Number(state.focus))}.`
    const happened = data.events[state.step].join('; ')
    return `Step ${state.step}: ${used} of ${data.pages} pages in use, ${shared} of them by several requests.`
      + `${happened && ` What happened: ${happened}.`}${pointed}\n${all.map(of_request).join('; ')}.`
  },
}
