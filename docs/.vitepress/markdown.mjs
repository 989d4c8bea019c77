// Converts the repository's Markdown to pages, so that pictures become figures, links to files become links to
// pages, and quoted code names its source.
import katex from '@vscode/markdown-it-katex'
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { deflateRawSync } from 'node:zlib'

import { escape } from '../figures/draw.js'
import { EXERCISES, PROGRAMS } from '../wasm/modules.mjs'
import { clone_command, diff_of, figure_at, first_chapter, level_of, ROOT, slugify, sources, target_of, terms,
  url_of } from './pages.mjs'

// Replaces a paragraph that is one picture of a figure by the figure.
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
      const first = found.name === 'ladder'  // the first page, which a headline precedes
      if (first) tokens.slice(0, i).findLast(({ type }) => type === 'paragraph_open')?.attrJoin('class',
        'fa-headline')
      const hero = first ? start_html(url_of(first_chapter()), clone_command()) : ''
      figure.content = `${hero}<Figure name="${found.name}" still="${path}" title="${escape(found.title)}" `
        + `alt="${escape(image.content)}" changes="${changes}" :size="[${found.size}]" />\n`
      tokens.splice(i, 3, figure)
    }
  })
}

// The links above the ladder where a reader can start.
const start_html = (first, clone) =>
  `<p class="fa-start"><a class="fa-button" href="${first}">Start with chapter 01</a> `
  + `<a href="#three-commands">Three commands</a> <a href="#your-path">Your path</a>${clone ? ` <code>${escape(clone)}</code>` : ''}</p>\n`

const page_of = (env) => env.relativePath.endsWith('index.md')
  ? env.relativePath.replace(/index\.md$/, 'README.md') : env.relativePath

// Makes relative links point to pages. A page that shows a file (docs/source/…) has only absolute
// links.
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

// Shows the file's name, with a link, above a block with <!-- code: attention.hpp#swizzle -->.
function quoted_code(md) {
  md.core.ruler.push('quoted_code', (state) => {
    for (const token of state.tokens) {
      const [, file, anchor] = token.type === 'html_block' && /^<!-- code: ([^\s#]+)#(\w+)/.exec(token.content) || []
      if (!file) continue
      const path = target_of(page_of(state.env), file)
      token.meta = { quoted: `${file}#${anchor}` }
      token.content = `<p class="fa-source"><a href="${url_of(path)}">${path}</a></p>\n`
    }
  })
}

// An empty corner of a table is not a heading.
function corners(md) {
  md.core.ruler.push('corners', ({ tokens }) => tokens.forEach((token, i) => {
    if (token.type !== 'th_open' || tokens[i + 1].content) return
    token.tag = tokens[i + 2].tag = 'td'
  }))
}

// Draws indented code like fenced code.
function indented_code(md) {
  md.core.ruler.push('indented_code', (state) => {
    for (const token of state.tokens) {
      if (token.type === 'code_block') Object.assign(token, { type: 'fence', info: 'text', markup: '```' })
    }
  })
}

// Adds, below the title of a chapter with a kernel, the part of the machine that the chapter is
// about.
const LEVELS = [['grid', 'global memory'], ['', 'L2'], ['block', 'shared memory'], ['warp', 'registers'],
  ['mma', 'tensor core']]
function locator(md) {
  md.core.ruler.push('locator', (state) => {
    const on = level_of(page_of(state.env)), at = state.tokens.findIndex(({ type }) =>
      type === 'heading_close')
    if (!on || at < 0) return
    const items = LEVELS.map(([who, memory]) => {
      const here = on.includes(memory)
      return `<li${here ? ' class="on"' : ''}>${who ? `<small>${who}</small> ` : ''}${memory}`
        + `${here ? '<span class="fa-said"> (here)</span>' : ''}</li>`
    })
    state.tokens.splice(at + 1, 0, Object.assign(new state.Token('html_block', '', 0),
      { content: `<ol class="fa-locator" aria-label="Where this chapter is at work">${items.join('')}</ol>\n` }))
  })
}

// Adds the changed lines below `./learn diff 04 | tail -1`, which prints their number.
function diffs(md) {
  md.core.ruler.push('diffs', (state) => {
    const { tokens } = state
    for (let i = 0; i + 1 < tokens.length; ++i) {
      const [, chapter] = tokens[i].type === 'html_block'
        && /^<!-- run: \S*learn diff (\d\d)\b/.exec(tokens[i].content) || []
      if (!chapter || tokens[i + 1].type !== 'fence') continue
      const { before, after, lines, count } = diff_of(chapter)
      const html = (content) => Object.assign(new state.Token('html_block', '', 0), { content })
      const fence = Object.assign(new state.Token('fence', 'code', 0), { info: 'cpp', markup: '```',
        content: lines.map((line) => `${words_in_diff(line)}\n`).join(''),
          meta: { signs: lines.map(([sign]) => sign) } })
      tokens.splice(i, 2, html(`<details class="fa-diff" open><summary>${count}</summary>\n`
        + `<p>from <a href="${url_of(before)}">${before}</a> to <a href="${url_of(after)}">${after}</a></p>\n`),
      fence, html('</details>\n'))
    }
  })
}

// Returns a line without its sign, or, where lines are left out, the number of the next line.
const words_in_diff = (line) => line.replace(/^@@ .*\+(\d+)(?:,\d+)? @@.*/, ' // … line $1').slice(1)

// ---- lines of code blocks ----

// The columns that fit a page, and those of the widest table. A table is made smaller, and any
// other longer line is broken.
const LONGEST = 97, WIDEST_TABLE = 134
const SIGNS = { '+': ' diff add', '-': ' diff remove', '@': ' fa-gap' }

// Adds a link to a place in the source, file:line, in the output of a program. A file without a
// folder belongs to the chapter whose program was named last.
function with_places(line, state) {
  const [, chapter] = /(?<![\w/])(ch\d\d_\w+)/.exec(line) ?? []
  if (chapter) state.folder = `chapters/${chapter.slice(2)}`
  return line.replace(/(?<![\w/#])((?:chapters|common)\/)?([\w/]+\.(?:hpp|cpp|cu)):(\d+)/g,
    (words, root, name, number) => {
      const path = root ? root + name : `${state.folder}/${name}`
      return known_sources().has(path) ? `<a href="${url_of(path)}#L${number}">${words}</a>` : words
    })
}
let all_sources
const known_sources = () => all_sources ??= new Set(sources())

function lines_of_code(md) {
  const { fence } = md.renderer.rules
  md.renderer.rules.fence = (tokens, i, ...more) => {
    const { info, meta, content } = tokens[i], plain = /^(text|sh)\b/.test(info)
    const numbered = /\bnumbered\b/.test(info), words = content.split('\n'), place = {}
    const lengths = words.map(({ length }) => length)
    const widest = Math.max(...lengths), table = widest > LONGEST && widest <= WIDEST_TABLE
      && lengths.filter((length) => length > LONGEST).length > lengths.length / 3
    const smaller = plain && table ? ` style="--fa-table: ${(LONGEST / widest).toFixed(3)}"` : ''
    let number = 0
    return fence(tokens, i, ...more).replace(/<span class="line">(.*)<\/span>/g, (_, line) => {
      const sign = meta?.signs?.[number], long = plain && !table && lengths[number] > LONGEST ? ' fa-long'
        : ''
      const id = numbered ? ` id="L${++number}"` : (++number, '')
      return `<span class="line${SIGNS[sign] ?? ''}${long}"${id}>${plain ? with_places(line, place) : line}</span>`
    }).replace(/^<div class="language-/, `<div${smaller} class="${numbered ? 'fa-numbered ' : ''}language-`)
  }
}

// ---- predictions ----

// For "Write down …" before <details class="answer">, asks for the reader's answer first.
function predictions(md) {
  md.core.ruler.push('predictions', (state) => {
    let depth = null, prompt = ''
    for (const token of state.tokens) {
      if (token.type === 'inline' && /Write down/.test(token.content)) prompt = words_of(token)
      if (token.type !== 'html_block') continue
      token.content = token.content.replace(/<details(?=[\s>])[^>]*>|<\/details>/g, (tag) => {
        if (tag === '</details>') return depth === null ? tag : depth-- > 0 ? tag
          : (depth = null, '</Prediction>')
        if (depth !== null) depth++
        else if (/class="answer"/.test(tag)) {
          depth = 0
          return `<Prediction prompt="${escape(prompt)}">`
        }
        return tag
      })
    }
  })
}
const words_of = ({ children }) => children.map(({ content }) => content).join('').trim()

// ---- programs in the page ----

// Adds the programs of docs/wasm to a chapter's page before its exercises, and to Break it before
// its list.
function kernels(md) {
  md.core.ruler.push('kernels', (state) => {
    const page = page_of(state.env), { tokens } = state
    const [, chapter] = /^chapters\/(\d\d)_[^/]+\/README\.md$/.exec(page) ?? []
    const all = page === 'docs/break-it.md', numbers = Object.keys(PROGRAMS).map(Number)
      .filter((number) => number > 1 && (all || number % 100 === Number(chapter)))
    if (!numbers.length) return
    const heading = (words) => tokens.findIndex(({ type }, i) => type === 'heading_open' && tokens[i + 1].content === words)
    const at = [all ? tokens.findIndex(({ type }) => type === 'fence') : heading('Exercises'), heading('What still hurts'), tokens.length]
      .find((found) => found >= 0)
    tokens.splice(at, 0, Object.assign(new state.Token('html_block', '', 0),
      { content: `<TryIt :chapters="[${numbers}]" />\n` }))
  })
}

// The exercises and kernels that a page can compile. Without docs/public/editor there are none.
const EDITOR = new URL('../public/editor/editor.json', import.meta.url)
let all_in_editor
const in_editor = () => all_in_editor ??= existsSync(EDITOR) ? JSON.parse(readFileSync(EDITOR, 'utf8')) : { exercises: {}, kernels: {} }

// Adds an editor for a chapter's kernel below the output of each command that runs it. The editor shows the part of the
// kernel that the page quoted last.
function edited_kernels(md) {
  md.core.ruler.push('edited_kernels', (state) => {
    const { tokens } = state, folder = posix.basename(posix.dirname(page_of(state.env)))
    const files = in_editor().kernels[folder]
    if (!files) return
    const anchors = {}
    for (let i = 0; i + 1 < tokens.length; ++i) {
      const { type, content, meta } = tokens[i]
      if (type !== 'html_block') continue
      const [, quoted, anchor] = /^(\w+\.hpp)#(\w+)$/.exec(meta?.quoted) ?? []
      if (quoted) anchors[quoted] = anchor
      const [, command] = /^<!-- run(?:\(\d\))?: (ch\d\d_\w+(?: -[^\s|]+(?: [^-|][^\s|]*)?)*) (?:\||-->)/.exec(content) ?? []
      if (!command?.startsWith(`ch${folder} `) || command.includes(' --algorithm ')) continue  // that is the CPU's
      const file = files.find((name) => command.includes(` --design ${name.slice(0, -4).replace('_', '-')}`)) ?? files[0]
      tokens.splice(i + 2, 0, Object.assign(new state.Token('html_block', '', 0), { content:
        `<EditKernel kernel="${folder}" file="${file}" command="${escape(command)}" anchor="${anchors[file] ?? 'main_loop'}" />\n` }))
    }
  })
}

const file_of_exercise = (topic, directory) => `${directory.replace(/^ex\d+_/, '')}.${topic === '01_toy_machine' ? 'txt' : 'hpp'}`

// Adds the reader's progress to the page of all exercises.
function exercise_map(md) {
  md.core.ruler.push('exercise_map', (state) => {
    if (page_of(state.env) !== 'exercises/README.md') return
    const traces = Object.values(EXERCISES).map((directory) => `01_toy_machine/${directory}`)
    const list = [...traces, ...Object.keys(in_editor().exercises)].map((path) => {
      const [id] = /^# (\S+)/.exec(readFileSync(join(ROOT, 'exercises', path, 'README.md'), 'utf8')).slice(1)
      return [id, path, file_of_exercise(...path.split('/'))]
    })
    const at = state.tokens.findIndex(({ type, tag }, i) => type === 'heading_open' && tag === 'h2' && i > 0)
    state.tokens.splice(at, 0, Object.assign(new state.Token('html_block', '', 0),
      { content: `<ExerciseMap :exercises="${escape(JSON.stringify(list))}" />\n` }))
  })
}

// Adds the playground to its page, with the texts of its examples.
function playground(md) {
  md.core.ruler.push('playground', (state) => {
    if (page_of(state.env) !== 'docs/playground.md' || !in_editor().examples) return
    const examples = in_editor().examples.map((file) => ({ file, text: readFileSync(join(ROOT, 'docs/editor/examples', file), 'utf8') }))
    const at = state.tokens.findIndex(({ type, tag }) => type === 'heading_open' && tag === 'h2')
    state.tokens.splice(at, 0, Object.assign(new state.Token('html_block', '', 0),
      { content: `<Playground :examples="${escape(JSON.stringify(examples))}" />\n` }))
  })
}

// Returns a link to the playground with the program of an exercise whose answer is a CUDA file, and its stub in the place of
// its #include.
function in_playground(folder) {
  const read = (name) => readFileSync(join(ROOT, folder, name), 'utf8')
  const text = read('main.cu').replace(/^#include <(\w+\.cu)>\n/m, (_, name) => read(name))
  return `<p><a href="/docs/playground.html#code=${deflateRawSync(text).toString('base64url')}">Edit its program in the playground</a>, `
    + 'which shows hazards and counters. Only <code>./learn check</code> judges your answer.</p>\n'
}

// Adds an editor below the text of an exercise, if the page can check the exercise.
function exercises(md) {
  md.core.ruler.push('exercises', (state) => {
    const page = page_of(state.env), [, topic, directory] = /^exercises\/(\w+)\/(ex\d+_\w+)\/README\.md$/.exec(page) ?? []
    if (topic === 'cuda' && in_editor().examples) state.tokens.push(Object.assign(new state.Token('html_block', '', 0),
      { content: in_playground(posix.dirname(page)) }))
    const trace = topic === '01_toy_machine' && Object.values(EXERCISES).includes(directory), key = `${topic}/${directory}`
    if (!trace && !(key in in_editor().exercises)) return
    const file = file_of_exercise(topic, directory)
    const read = (name) => readFileSync(join(ROOT, posix.dirname(page), name), 'utf8')
    const title = /^# (.+)$/m.exec(read('README.md'))[1]
    const id = title.split(' ')[0], stacks = ['exercise_warp', 'exercise_ring'].includes(in_editor().exercises[key])
    const tag = trace ? 'Exercise' : `CodeExercise exercise="${key}"${stacks ? ' fibers' : ''}`
    const hints = read('hints.md').split(/^## Hint \d+$/m).slice(1).map((hint) => hint.trim().replace(/(?<!\n)\n(?!\n)/g, ' '))
    state.tokens.push(Object.assign(new state.Token('html_block', '', 0), { content:
      `<${tag} id="${id}" title="${escape(title)}" file="${file}" :stub="${escape(JSON.stringify(read(file)))}" `
      + `:hints="${escape(JSON.stringify(hints))}" />\n` }))
  })
}

// ---- glossary ----

const GLOSSARY = 'docs/glossary.md'

// Adds a link with the meaning to the first use of each glossary word on a page.
function glossary(md) {
  md.core.ruler.push('glossary', (state) => {
    const page = page_of(state.env)
    if (!/^(README|chapters\/|docs\/(break-it|profiling|cuda)|exercises\/)/.test(page)) return
    const left = new Map(terms().flatMap((term) => term.names.map((name) => [name, term])))
    if (!left.size) return
    const name_of = new RegExp(`(?<![\\w.-])(?:${[...left.keys()].sort((a, b) => b.length - a.length)
      .map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})(?:s|es)?(?![\\w-])`)
    state.tokens.forEach((token, i) => {
      if (token.type !== 'inline' || state.tokens[i - 1].type !== 'paragraph_open') return
      let links = 0
      token.children = token.children.flatMap((child) => {
        if (/^link_/.test(child.type)) links += child.nesting
        if (links || !['text', 'code_inline'].includes(child.type)) return [child]
        const match = name_of.exec(child.content)
        const term = match && (left.get(match[0]) ?? left.get(match[0].replace(/e?s$/, '')))
        if (!term || child.type === 'code_inline' && match[0] !== child.content) return [child]
        term.names.forEach((name) => left.delete(name))
        const piece = (type, content, more) =>
          Object.assign(new state.Token(type, '', 0), child.type === type ? { ...child } : {},
            { content, ...more })
        const open = piece('html_inline', `<a class="fa-term" href="${url_of(GLOSSARY)}#${term.id}" `
          + `data-means="${escape(term.means)}">`)
        const close = piece('html_inline', '</a>')
        if (child.type === 'code_inline') return [open, child, close]
        return [piece('text', child.content.slice(0, match.index)), open, piece('text', match[0]), close,
          piece('text', child.content.slice(match.index + match[0].length))]
      })
    })
  })
}

// Renders formulas with KaTeX. v-pre prevents Vue from reading their braces.
function formulas(md) {
  md.use(katex.default ?? katex, { throwOnError: true })
  for (const rule of ['math_inline', 'math_block', 'math_inline_block']) {
    const render = md.renderer.rules[rule]
    if (render) md.renderer.rules[rule] = (...all) => render(...all).replace(/<(span|p)\b/, '<$1 v-pre')
  }
}

// Colors of code as classes, because a style attribute on every word would double the size of a
// page. Some colors of the theme are too faint on its background and are made stronger here.
const TOKENS = [  // the theme's colors, light and dark, and the class that replaces them
  ['24292E', 'E1E4E8'],
  ['D73A49', 'F97583', 'k', '#b3202e', '#f97583'],
  ['6F42C1', 'B392F0', 'f', '#6f42c1', '#b392f0'],
  ['005CC5', '79B8FF', 'n', '#005cc5', '#79b8ff'],
  ['032F62', '9ECBFF', 's', '#032f62', '#9ecbff'],
  ['6A737D', '6A737D', 'c', '#59636e', '#9198a1'],
  ['E36209', 'FFAB70', 'v', '#9a4a00', '#ffab70'],
  ['22863A', '85E89D', 't', '#1a6e2e', '#85e89d'],
]
const code_colors = {
  // On a busy machine a line that takes longer than half a second would lose its colors in one of
  // the two themes, which gives pairs that are not in the list above.
  preprocess: (code, options) => { options.tokenizeTimeLimit = 0 },
  postprocess: (html) => html.replace(
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
    [formulas, figures, quoted_code, indented_code, corners, locator, diffs, links, predictions, kernels,
      edited_kernels, playground, exercises, exercise_map, glossary, lines_of_code].forEach((rule) => md.use(rule))
  },
}
