// The site. Its pages are the repository's own READMEs: nothing is copied, srcDir is the root.
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { defineConfig } from 'vitepress'

import { site_css } from '../figures/draw.js'
import { code_css, markdown } from './markdown.mjs'
import { pages, ROOT, sidebar } from './pages.mjs'

const require = createRequire(import.meta.url)

// Four tiles, one of them being worked on.
const ICON = 'data:image/svg+xml,' + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
  + '<path fill="#0b62c4" d="M1 1h6v6H1zM9 9h6v6H9z"/><path fill="#8fb8e8" d="M1 9h6v6H1z"/>'
  + '<path fill="#b45309" d="M9 1h6v6H9z"/></svg>')

export default defineConfig({
  title: 'Flash Attention, step by step',
  description: 'From a machine with three registers to a FlashAttention kernel on tensor cores, '
    + 'one idea a chapter.',
  lang: 'en',
  srcDir: ROOT,
  srcExclude: ['**/hints.md', 'solutions/**', 'build*/**', 'my_exercises/**', '**/node_modules/**'],
  rewrites: Object.fromEntries(pages.filter((page) => basename(page) === 'README.md')
    .map((page) => [page, join(dirname(page), 'index.md')])),
  markdown,
  head: [['style', {}, site_css() + code_css], ['link', { rel: 'icon', href: ICON }]],
  themeConfig: {
    sidebar: sidebar(),
    nav: [{ text: 'Chapter 01', link: '/chapters/01_toy_machine/' },
      { text: 'Break it', link: '/docs/break-it.html' }, { text: 'Exercises', link: '/exercises/' }],
    outline: [2, 3],
    search: { provider: 'local' },
  },
  vite: {  // pages lie outside of docs/, where Vue is installed
    resolve: { alias: [
      { find: /^vue$/, replacement: require.resolve('vue/dist/vue.runtime.esm-bundler.js') },
      { find: /^vue\/server-renderer$/, replacement: require.resolve('vue/server-renderer') }] },
    server: { fs: { allow: [ROOT] } },
  },
})
