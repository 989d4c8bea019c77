// The owner of each page of the cache, step by step, from the log of chapter 11's serving loop.
import { el, line, rect, soft, svg, text, WIDE, wrapped } from './draw.js'

const COLORS = ['a', 'b', 'c', 'd', 'e', 'f', 'muted']
const color_of = (request) => COLORS[request % COLORS.length]

// Returns the consecutive steps in which a page has the same owner: [page, owner, first, steps].
const runs_of = (holders) => holders[0].flatMap((_, page) => {
  const runs = []
  holders.forEach((row, step) => {
    const last = runs.at(-1)
    if (last && last[1] === row[page]) last[3]++
    else runs.push([page, row[page], step, 1])
  })
  return runs.filter(([, holder]) => holder !== null)
})
const held = (data, request, step) => data.holders[step].filter((one) => one === request).length

export default {
  title: 'Pages of the cache, from hand to hand',
  sources: { serve: ['ch11_decoding', 'serve', '--device', 'emulator', '--json', '{json}'] },
  data: ({ serve }) => ({ pages: serve.pages, page_size: serve.page_size, bytes_read: serve.bytes_read,
    bytes_ideal: serve.bytes_ideal, steps: serve.steps.map(({ step }) => step),
    holders: serve.steps.map(({ holders }) => holders) }),
  stills: { 'chapters/11_decoding/figures/pages.svg': {} },
  initial: () => ({ step: 6, focus: null }),
  controls: (data) => [{ key: 'step', type: 'step', label: 'step', min: 0, max: data.steps.length - 1, step: 1,
    play: 200, show: (value) => `${data.steps[value]}` }],

  draw(data, state, width) {
    const left = 52, top = 34, wide = width >= WIDE, cell = 12
    const pitch = (width - left - 4) / data.steps.length, x_of = (step) => left + step * pitch
    const bottom = top + data.pages * cell
    const row = data.holders[state.step], used = row.filter((one) => one !== null).length
    const here = [...new Set(row.filter((one) => one !== null))].sort((a, b) => a - b)
    const said = wrapped(`Step ${data.steps[state.step]}: ${used} of ${data.pages} pages in use; `
      + here.map((one) => `request ${one} has ${held(data, one, state.step)}`).join(', '), width - left, 13)
    return svg(width, bottom + 36 + 18 * said.length, [
      text(left, 14, `${data.pages} pages of ${data.page_size} tokens, a row each`, { class: 'strong' }),
      text(left, 29, wide ? 'a number is the request that has the page' : 'the number: whose page', { class: 'small muted' }),
      rect(left, top, width - left - 4, data.pages * cell, { class: 'cell' }),
      runs_of(data.holders).map(([page, holder, first, steps]) => el('g', { 'data-focus': `${holder}` }, [
        rect(x_of(first), top + page * cell, steps * pitch, cell - 1,
          state.focus !== `${holder}` ? { class: soft(color_of(holder)) }
            : color_of(holder) === 'muted' ? { fill: 'var(--muted)' } : { class: color_of(holder) }),
        steps * pitch >= 12 ? text(x_of(first) + 2, top + page * cell + 10, `${holder}`,
          { class: state.focus === `${holder}` ? 'small strong inverse' : 'small' }) : ''])),
      line(x_of(state.step + 0.5), top - 2, x_of(state.step + 0.5), bottom + 4, { class: 'line-muted' }),
      data.steps.map((step, i) => step % 20 === 0
        ? text(x_of(i), bottom + 16, step ? `${step}` : 'step 0', { class: 'small muted' }) : ''),
      text(left - 6, top + 10, 'page 0', { class: 'small muted end' }),
      text(left - 6, bottom - 2, `${data.pages - 1}`, { class: 'small muted end' }),
      said.map((words, i) => text(left, bottom + 38 + 18 * i, words, { name: i ? undefined : 'used' }))])
  },

  describe(data, state) {
    const row = data.holders[state.step], here = [...new Set(row.filter((one) => one !== null))]
    const all = [...new Set(data.holders.flat().filter((one) => one !== null))].sort((a, b) => a - b)
    const of_request = (one) => {
      const steps = data.steps.filter((_, i) => held(data, one, i) > 0)
      const most = Math.max(...data.holders.map((_, i) => held(data, one, i)))
      return `request ${one}: up to ${most} pages, in ${steps.length} steps from ${steps[0]} to ${steps.at(-1)}`
    }
    const pointed = state.focus === null || state.focus === undefined ? '' : ` ${of_request(Number(state.focus))}.`
    return `Step ${data.steps[state.step]}: ${row.filter((one) => one !== null).length} of ${data.pages} pages in use, `
      + `by ${here.length} ${here.length === 1 ? 'request' : 'requests'}.${pointed}\nA page goes to whoever needs one `
      + `next, so a request's pages lie anywhere. ${all.map(of_request).join('; ')}.`
  },
}
