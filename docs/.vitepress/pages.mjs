// What the repository offers the site: its pages, the files they link to, their places in the sidebar.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, extname, join, posix, relative } from 'node:path'

import figures from '../figures/index.js'
import { ROOT } from '../figures/programs.mjs'

export { ROOT }

const FOLDERS = ['chapters', 'common', 'docs', 'exercises', 'reference']
const NO_PAGE = ['hints.md']  // ./learn hint gives them one at a time

function files_below(folder) {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name)
    if (entry.name.startsWith('.') || ['node_modules', '__pycache__'].includes(entry.name)) return []
    return entry.isDirectory() ? files_below(path) : [path]
  }).sort()
}

// Every page, as a path from the root.
export const pages = ['README.md', ...FOLDERS.flatMap(files_below)]
  .filter((path) => path.endsWith('.md') && !NO_PAGE.includes(posix.basename(path)) && !path.includes('['))

const read = (path) => readFileSync(join(ROOT, path), 'utf8')
const title_of = (path) => /^# (.+)$/m.exec(read(path))?.[1].replace(/`/g, '') ?? path

// How a figure stands in a page: { name, state, title, size } of the picture at `path`, or nothing.
export function figure_at(path) {
  for (const [name, figure] of Object.entries(figures)) {
    if (!(path in figure.stills)) continue
    const [, ...size] = /viewBox="0 0 (\d+) (\d+)"/.exec(read(path))
    return { name, state: figure.stills[path], title: figure.title, size }
  }
}

// The page of a path from the root: a README is its folder's page, a file of code has one of its own.
export function url_of(path) {
  if (path.endsWith('.md')) return '/' + path.replace(/(?<![^/])README\.md$/, '').replace(/\.md$/, '.html')
  return `/docs/source/${path}.html`
}

// What a link in a page leads to: a path from the root. A folder means its README.
export function target_of(page, href) {
  const path = posix.normalize(posix.join(posix.dirname(page), decodeURIComponent(href))).replace(/\/$/, '')
  const full = join(ROOT, path)
  if (!existsSync(full)) throw new Error(`${page}: link to ${href}: no such file`)
  if (!statSync(full).isDirectory()) return path
  return existsSync(join(full, 'README.md')) ? posix.join(path, 'README.md') : path
}

const LINK = /(?<!!)\[(?:[^[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>#]+)[^)]*\)|<!-- code: ([^\s#]+)/g
const without_code = (markdown) => markdown.replace(/^(`{3,}|~{3,})[^]*?^\1/gm, '').replace(/`[^`\n]*`/g, '')

// The files and folders without a page that pages link to or quote: they get one, with their source.
export function sources() {
  const found = new Set()
  for (const page of pages) {
    for (const [, link, code] of without_code(read(page)).matchAll(LINK)) {
      const href = link ?? code
      if (/^[a-z]+:/.test(href)) continue
      const target = target_of(page, href)
      if (!target.endsWith('.md')) found.add(target)
    }
  }
  for (const path of [...found]) {
    if (statSync(join(ROOT, path)).isDirectory()) files_below(path).forEach((file) => found.add(file))
  }
  return [...found].sort()
}

const LANGUAGES = { '.hpp': 'cpp', '.cpp': 'cpp', '.cu': 'cpp', '.py': 'python', '.mjs': 'js', '.js': 'js',
  '.json': 'json', '.sh': 'bash', '.cmake': 'cmake', '.diff': 'diff' }
const LARGEST = 60000  // characters of a file that a page shows

// The page that shows a file, or lists a folder.
export function source_page(path) {
  if (statSync(join(ROOT, path)).isDirectory()) {
    const list = files_below(path).map((file) => `- [${relative(path, file)}](${url_of(file)})`)
    return `# ${path}\n\n${list.join('\n')}\n`
  }
  const content = read(path)
  const fence = '`'.repeat(4)
  const shown = content.slice(0, LARGEST)
  const note = content.length > LARGEST ? `The first ${LARGEST} of ${content.length} characters.\n\n` : ''
  const language = content.length > LARGEST / 2 ? 'text' : LANGUAGES[extname(path)] ?? 'text'
  return `# ${path}\n\n${note}${fence}${language}\n${shown.trimEnd()}\n${fence}\n`
}

const entry = (path, text = title_of(path)) => ({ text, link: url_of(path) })
const readmes = (folder) => pages.filter((path) => posix.dirname(posix.dirname(path)) === folder)

export function sidebar() {
  const topics = [...new Set(readmes('exercises').concat(pages)
    .filter((path) => /^exercises\/[^/]+\/ex\d/.test(path)).map((path) => path.split('/')[1]))]
  const chapters = [
    { text: 'Chapters', items: [entry('README.md', 'Start here'),
      ...readmes('chapters').flatMap((path) => [
        ...(path.includes('/03_') ? [entry('docs/cuda-in-one-picture.md')] : []),
        entry(path, title_of(path).replace(/^Chapter /, '').replace(':', ''))])] },
    { text: 'Beside the chapters', items: [
      entry('docs/break-it.md'), entry('docs/profiling.md'), entry('common/simt/README.md'),
      entry('reference/README.md'), entry('docs/measurements/README.md'), entry('docs/figures/README.md'),
      entry('docs/CONTRIBUTING.md')] },
    { text: 'Exercises', items: [entry('exercises/README.md', 'The exercise track')] },
  ]
  const exercises = [
    { text: 'Exercises', items: [
      entry('README.md', 'Back to the chapters'), entry('exercises/README.md', 'The exercise track')] },
    ...topics.map((topic) => ({ text: topic.replace(/_/g, ' '), collapsed: false,
      items: readmes(`exercises/${topic}`).map((path) => entry(path)) })),
  ]
  return { '/': chapters, '/exercises/': exercises }
}
