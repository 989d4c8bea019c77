// The utilization of a GPU by the number of splits, in waves of blocks, of which the last one is rarely full.
import { el, line, rect, svg, text, WIDE } from './draw.js'

const ITEMS = [1, 2, 8, 24, 64, 128], MACHINE = 132, TILES = 1024
const percent = (part) => `${(100 * part).toFixed(1)} %`
const row_of = (one, splits) => one.rows[splits - 1]

export default {
  title: 'Waves: how busy a GPU is, by the number of splits',
  sources: Object.fromEntries(ITEMS.map((items) => [`${items}`,
    ['ch11_decoding', 'waves', '--items', `${items}`, '--tiles', `${TILES}`, '--json', '{json}']])),
  data: (outputs) => Object.fromEntries(Object.entries(outputs).map(([items, { rows, chosen, flash_attention }]) =>
    [items, { rows: rows.slice(0, 40).map(({ efficiency, tiles_each }) => [efficiency, tiles_each]), chosen,
      flash_attention }])),
  stills: { 'chapters/11_decoding/figures/splits.svg': {} },
  initial: () => ({ items: '8', focus: '16' }),
  controls: () => [{ key: 'items', type: 'choice', label: 'blocks without splitting',
    options: ITEMS.map((items) => [`${items}`, `${items}`]) }],
  settle(data, state) { state.focus ??= '1' },

  draw(data, state, width) {
    const one = data[state.items], wide = width >= WIDE, left = 42, top = 44, height = 170
    const pitch = (width - left - 6) / one.rows.length, y_of = (part) => top + height * (1 - part)
    const splits = Number(state.focus), [efficiency, tiles] = row_of(one, splits), bottom = top + height
    const blocks = splits * Number(state.items), full = Math.floor(blocks / MACHINE), rest = blocks % MACHINE
    const waves = full === 0 ? `${rest} of ${MACHINE} multiprocessors, in one wave`
      : `${full} full ${full === 1 ? 'wave' : 'waves'}${rest ? `, and one of ${rest}` : ''}`
    const said = [`${splits} ${splits === 1 ? 'split' : 'splits'}: ${blocks} blocks`, waves,
      `${tiles} tiles of keys each`]
    return svg(width, bottom + (wide ? 70 : 100), [
      text(wide ? left : 4, 16, `${state.items} ${state.items === '1' ? 'block' : 'blocks'}${wide ? ' without splitting' : ''}, `
        + `${MACHINE} multiprocessors`, { class: 'strong' }),
      text(wide ? left : 4, 34, wide ? 'the part of the multiprocessors that is busy, on average over the waves'
        : 'multiprocessors busy, over the waves', { class: 'small muted' }),
      [0, 0.5, 1].map((part) => [line(left, y_of(part), width - 6, y_of(part)),
        text(left - 6, y_of(part) + 4, `${100 * part} %`, { class: 'small muted end' })]),
      one.rows.map(([part], i) => rect(left + i * pitch + 1, y_of(part), pitch - 2, height * part, {
        class: i + 1 === splits ? 'a' : i + 1 === one.chosen ? 'c' : i + 1 === one.flash_attention ? 'b' : 'soft-a' })),
      one.rows.map((_, i) => el('g', { 'data-focus': `${i + 1}` },
        [rect(left + i * pitch, top, pitch, height + 16, { opacity: 0 })])),
      one.rows.map((_, i) => i === 0 || (i + 1) % 8 === 0
        ? text(left + (i + 0.5) * pitch, bottom + 15, `${i + 1}`, { class: 'small muted middle' }) : ''),
      wide ? text(left, bottom + 38, said.join(' · ')) : said.map((words, i) =>
        text(left, bottom + 38 + 18 * i, words)),
      text(left, bottom + (wide ? 58 : 92), `busy ${percent(efficiency)}`, { class: 'strong', name: 'efficiency' }),
      text(width - 6, bottom + (wide ? 58 : 92),
        `85 %: ${one.flash_attention} · 95 %: ${one.chosen}`, { class: 'small muted end', name: 'chosen' })])
  },

  describe(data, state) {
    const one = data[state.items], splits = Number(state.focus), [efficiency, tiles] = row_of(one, splits)
    return `${state.items} blocks without splitting, ${splits} ${splits === 1 ? 'split' : 'splits'} of the keys: `
      + `${splits * Number(state.items)} blocks on ${MACHINE} multiprocessors, ${percent(efficiency)} busy, ${tiles} `
      + `tiles of keys each.\nThe smallest number that reaches 85 % of the best efficiency, FlashAttention's rule, is `
      + `${one.flash_attention}; 95 %, as here, ${one.chosen}. If 80 % of the multiprocessors have a block already, `
      + `nothing is split. ${TILES} tiles of keys in all.`
  },
}
