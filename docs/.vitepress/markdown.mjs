// How the repository's Markdown, written for a reader of files, becomes pages: pictures become figures,
// links to files lead to pages, quoted code says where it comes from.
import katex from '@vscode/markdown-it-katex'
import { posix } from 'node:path'

import { escape } from '../figures/draw.js'
import { figure_at, target_of, url_of } from './pages.mjs'

// A paragraph that is one picture of a figure: the figure itself.
function figures(md) {
  md.core.ruler.push('figures', (state) => {
    const { tokens } = state
    for (let i = 0; i + 2 < tokens.length; ++i) {
      const [image, ...others] = tokens[i + 1].children ?? []
      if (tokens[i].type !== 'paragraph_open' || image?.type !== 'image' || others.length) continue
      const path = posix.normalize(posix.join(posix.dirname(page_of(state.env)), image.attrGet('src')))
      const found = figure_at(path)
      if (!found) continue
      const figure = new state.Token('html_block', '', 0)
      const changes = escape(JSON.stringify(found.state))
      figure.content = `<Figure name="${found.name}" still="${path}" title="${escape(found.title)}" `
        + `alt="${escape(image.content)}" changes="${changes}" :size="[${found.size}]" />\n`
      tokens.splice(i, 3, figure)
    }
  })
}

const page_of = (env) => env.relativePath.endsWith('index.md')
  ? env.relativePath.replace(/index\.md$/, 'README.md') : env.relativePath

// Relative links lead to pages. A page made from a file (docs/source/…) has absolute links only.
function links(md) {
  md.core.ruler.push('links', (state) => {
    for (const token of state.tokens.flatMap((block) => block.children ?? [])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const [path, heading] = href.split('#')
      token.attrSet('href', url_of(target_of(page_of(state.env), path)) + (heading ? `#${heading}` : ''))
    }
  })
}

// <!-- code: attention.hpp#swizzle --> above a block: the file's name, with a link to all of it.
function quoted_code(md) {
  md.core.ruler.push('quoted_code', (state) => {
    for (const token of state.tokens) {
      const [, file] = token.type === 'html_block' && /^<!-- code: ([^\s#]+)#/.exec(token.content) || []
      if (!file) continue
      const path = target_of(page_of(state.env), file)
      token.content = `<p class="fa-source"><a href="${url_of(path)}">${path}</a></p>\n`
    }
  })
}

// Indented code is drawn like fenced code.
function indented_code(md) {
  md.core.ruler.push('indented_code', (state) => {
    for (const token of state.tokens) {
      if (token.type === 'code_block') Object.assign(token, { type: 'fence', info: 'text', markup: '```' })
    }
  })
}

// Formulas by KaTeX; v-pre keeps Vue away from their braces.
function formulas(md) {
  md.use(katex.default ?? katex, { throwOnError: true })
  for (const rule of ['math_inline', 'math_block', 'math_inline_block']) {
    const render = md.renderer.rules[rule]
    if (render) md.renderer.rules[rule] = (...all) => render(...all).replace(/<(span|p)\b/, '<$1 v-pre')
  }
}

// Headings are named as GitHub names them: links between the files are written for that.
const slugify = (heading) =>
  heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replace(/ /g, '-')

// Colours of code as classes: a style attribute on every word would be half of a page's weight. Some
// colours of the theme are too faint on its background and are made stronger here.
const TOKENS = [  // the theme's colours, light and dark; what stands for them
  ['24292E', 'E1E4E8'],
  ['D73A49', 'F97583', 'k', '#b3202e', '#f97583'],
  ['6F42C1', 'B392F0', 'f', '#6f42c1', '#b392f0'],
  ['005CC5', '79B8FF', 'n', '#005cc5', '#79b8ff'],
  ['032F62', '9ECBFF', 's', '#032f62', '#9ecbff'],
  ['6A737D', '6A737D', 'c', '#59636e', '#9198a1'],
  ['E36209', 'FFAB70', 'v', '#9a4a00', '#ffab70'],
  ['22863A', '85E89D', 't', '#1a6e2e', '#85e89d'],
]
const code_colors = { postprocess: (html) => html.replace(
  / style="--shiki-light:#(\w{6});--shiki-dark:#(\w{6});?"/g, (style, light, dark) => {
    const token = TOKENS.find((known) => known[0] === light && known[1] === dark)
    return !token ? style : token[2] ? ` class="t-${token[2]}"` : ''
  }).replace(/<span>([^<]*)<\/span>/g, '$1') }
export const code_css = TOKENS.filter((token) => token[2])
  .map(([, , name, light, dark]) => `.t-${name}{--shiki-light:${light};--shiki-dark:${dark}}`).join('')

export const markdown = {
  anchor: { slugify },
  toc: { slugify },
  languageAlias: { cuda: 'cpp' },
  codeTransformers: [code_colors],
  config(md) {
    [formulas, figures, quoted_code, indented_code, links].forEach((rule) => md.use(rule))
  },
}
