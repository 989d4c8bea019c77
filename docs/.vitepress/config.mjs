// The configuration of the site. Its pages are the repository's READMEs, and srcDir is the root, so
// nothing is copied.
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { defineConfig } from 'vitepress'

import { site_css } from '../figures/draw.js'
import { code_css, markdown } from './markdown.mjs'
import { pages, ROOT, sidebar } from './pages.mjs'

const require = createRequire(import.meta.url)

// Four tiles, one of which is highlighted.
const ICON = 'data:image/svg+xml,' + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
  + '<path fill="#0b62c4" d="M1 1h6v6H1zM9 9h6v6H9z"/><path fill="#8fb8e8" d="M1 9h6v6H1z"/>'
  + '<path fill="#b45309" d="M9 1h6v6H9z"/></svg>')

const TITLE = 'Flash Attention, step by step'
const DESCRIPTION = 'From a toy machine with three registers to an H100 kernel that is faster than FlashAttention-3, '
  + 'one idea per chapter. No GPU needed.'

// ---- search: all words must match; lessons come first ----

// Diffs on a page are not searched, but the text of its figures is. Pages for contributors are left
// out.
function searchable(source, env, md) {
  const html = md.render(source, env)
  const left_out = env.frontmatter?.search === false || /^docs\/(figures\/|CONTRIBUTING)/.test(env.relativePath)
  return left_out ? ''
    : html.replace(/<details class="fa-diff"[^]*?<\/details>/g, '')
    .replace(/<Figure [^>]*title="([^"]*)" alt="([^"]*)"[^>]*>/g, '<p>$1. $2</p>')
}

// The browser gets these two functions as text, so they must not use other names.
function processTerm(term) {
  const word = term.toLowerCase().replace(/^[`*("]+|[`*)".,:;?!]+$/g, '')
  return /^(|the|a|an|of|to|do|does|how|is|are|i|it|in|on|for|what|why|where|which|and)$/.test(word)
    ? null : word
}
function boostDocument(id) {
  if (/^\/(#|$|docs\/cuda)/.test(id)) return 3
  if (/^\/docs\/glossary/.test(id)) return 1.5
  if (/^\/chapters\//.test(id)) return 2
  return /^\/docs\/(figures|measurements|CONTRIBUTING)|^\/(common|reference)/.test(id) ? 0.2 : 0.6
}

// ---- a strict Content-Security-Policy: no script in a page's text, no text that becomes code ----

// Workers are in the text of a script (blob:), because a page without a network starts them again. Drawings have styles.
const POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; "
  + "font-src 'self' data:; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'"

// VitePress sends the functions of its configuration as text, which the pages would compile.
const COMPILED = 'new Function(`return ${r.slice(7)}`)()'
const FUNCTIONS = `({processTerm:${processTerm},boostDocument:${boostDocument}})[/ (\\w+)/.exec(r)[1]]`

const scripts = new Map()  // name in assets/: text; the same for all pages

function to_file(text) {
  if (text.includes('new Function') && !text.includes(COMPILED)) throw new Error('VitePress compiles text in another way')
  const script = text.replace(COMPILED, () => FUNCTIONS)
  const name = `script.${createHash('sha256').update(script).digest('hex').slice(0, 8)}.js`
  scripts.set(name, script)
  return name
}

// Moves the scripts of a page into files, and adds the policy.
const strict = (html) => html
  .replace('<meta charset="utf-8">', `$&\n    <meta http-equiv="Content-Security-Policy" content="${POLICY}">`)
  .replace(/<script( id="[\w-]+")?>([^]*?)<\/script>/g, (_, id = '', text) => `<script${id} src="/assets/${to_file(text)}"></script>`)

export default defineConfig({
  title: TITLE,
  description: DESCRIPTION,
  lang: 'en',
  srcDir: ROOT,
  srcExclude: ['**/hints.md', 'solutions/**', 'build*/**', 'my_exercises/**', '**/node_modules/**'],
  rewrites: Object.fromEntries(pages.filter((page) => basename(page) === 'README.md')
    .map((page) => [page, join(dirname(page), 'index.md')])),
  markdown,
  head: [['style', {}, site_css() + code_css], ['link', { rel: 'icon', href: ICON }],
    ['meta', { property: 'og:type', content: 'website' }],
      ['meta', { property: 'og:site_name', content: TITLE }]],
  transformHtml: strict,
  buildEnd: ({ outDir }) => scripts.forEach((text, name) => writeFileSync(join(outDir, 'assets', name), text)),
  transformHead: ({ title, pageData }) => [['meta',
    { property: 'og:title', content: pageData.title || title }],
    ['meta', { property: 'og:description', content: pageData.description || DESCRIPTION }]],
  themeConfig: {
    siteTitle: 'Flash Attention',
    logo: { src: ICON, alt: '' },
    sidebar: sidebar(),
    nav: [{ text: 'Chapter 01', link: '/chapters/01_toy_machine/' },
      { text: 'Exercises', link: '/exercises/' }, { text: 'Break it', link: '/docs/break-it.html' }, { text: 'Playground', link: '/docs/playground.html' },
      { text: 'Glossary', link: '/docs/glossary.html' }],
    outline: [2, 3],
    search: { provider: 'local', options: { _render: searchable, miniSearch: { options: { processTerm },
      searchOptions: { combineWith: 'AND', fuzzy: 0.1, boostDocument } } } },
  },
  vite: {  // pages are outside of docs/, where Vue is installed
    resolve: { alias: [
      { find: /^vue$/, replacement: require.resolve('vue/dist/vue.runtime.esm-bundler.js') },
      { find: /^vue\/server-renderer$/, replacement: require.resolve('vue/server-renderer') }] },
    server: { fs: { allow: [ROOT] } },
  },
})
