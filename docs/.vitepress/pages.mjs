// The repository's pages for the site, the files that they link to, and the sidebar.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, extname, join, posix, relative } from 'node:path'

import figures from '../figures/index.js'
import { ROOT } from '../figures/programs.mjs'

export { ROOT }

const FOLDERS = ['chapters', 'common', 'docs', 'exercises', 'reference']
const NO_PAGE = ['hints.md']  // ./learn hint shows them one at a time

function files_below(folder) {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name)
    if (entry.name.startsWith('.') || ['node_modules', '__pycache__'].includes(entry.name)) return []
    return entry.isDirectory() ? files_below(path) : [path]
  }).sort()
}

// All pages, as paths from the root.
export const pages = ['README.md', ...FOLDERS.flatMap(files_below)]
  .filter((path) => path.endsWith('.md') && !NO_PAGE.includes(posix.basename(path)) && !path.includes('['))

const read = (path) => readFileSync(join(ROOT, path), 'utf8')
const title_of = (path) => /^# (.+)$/m.exec(read(path))?.[1].replace(/`/g, '') ?? path

// Returns the figure of the picture at `path`, { name, state, title, size }, or nothing.
export function figure_at(path) {
  for (const [name, figure] of Object.entries(figures)) {
    if (!(path in figure.stills)) continue
    const [, ...size] = /viewBox="0 0 (\d+) (\d+)"/.exec(read(path))
    return { name, state: figure.stills[path], title: figure.title, size }
  }
}

// Returns the URL of the page for a path from the root. A README is its folder's page, and a code
// file has its own page.
export function url_of(path) {
  if (path.endsWith('.md')) return '/' + path.replace(/(?<![^/])README\.md$/, '').replace(/\.md$/, '.html')
  return `/docs/source/${path}.html`
}

// Returns the path from the root that a link in a page refers to. A folder means its README.
export function target_of(page, href) {
  const path = posix.normalize(posix.join(posix.dirname(page), decodeURIComponent(href))).replace(/\/$/, '')
  const full = join(ROOT, path)
  if (!existsSync(full)) throw new Error(`${page}: link to ${href}: no such file`)
  if (!statSync(full).isDirectory()) return path
  return existsSync(join(full, 'README.md')) ? posix.join(path, 'README.md') : path
}

const LINK = /(?<!!)\[(?:[^[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>#]+)[^)]*\)|<!-- code: ([^\s#]+)/g
const without_code = (markdown) => markdown.replace(/^(`{3,}|~{3,})[^]*?^\1/gm, '').replace(/`[^`\n]*`/g, '')

// Returns the files and folders without a page that pages link to or quote. They get a page with
// their source.
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

// Returns the page that shows a file with line numbers, or lists a folder.
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
  return `# ${path}\n\n${note}${fence}${language} numbered\n${shown.trimEnd()}\n${fence}\n`
}

// The changes of a chapter's kernel against the chapter before, as `./learn diff` prints them, that is, the lines
// without the file names, and the text about their number.
const diffs = {}
export const diff_of = (chapter) => diffs[chapter] ??= diff_from_learn(chapter)
function diff_from_learn(chapter) {
  const { status, stdout, stderr } = spawnSync(join(ROOT, 'learn'), ['diff', chapter], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`./learn diff ${chapter}: ${stderr}`)
  const [from, to, ...lines] = stdout.trimEnd().split('\n'), [, count] = lines.splice(-2)
  return { before: from.slice(4), after: to.slice(4), lines, count }
}

// Returns the words of the glossary, with name, first sentence of the meaning, anchor of the heading.
export function terms() {
  if (!pages.includes('docs/glossary.md')) return []
  return [...read('docs/glossary.md').matchAll(/^### (.+)\n\n([^]+?)\n(?=\n|$)/gm)].map(([, heading,
    text]) => ({
    names: heading.replace(/`/g, '').split(', '), id: slugify(heading),
    means: /^[^]+?\.(?=\s|$)/.exec(text.replace(/[`*]|\]\([^)]*\)|\[/g, '').replace(/\s+/g, ' '))[0] }))
}

// Names headings as GitHub does, because links between the files use these names.
export const slugify = (heading) =>
  heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replace(/ /g, '-')

const entry = (path, text = title_of(path)) => ({ text, link: url_of(path) })
const readmes = (folder) => pages.filter((path) => posix.dirname(posix.dirname(path)) === folder)
const folder_of = posix.dirname

// The curriculum. A chapter exists if its directory has a README. Other chapters are named without
// a link. A directory that is not in the list comes last.
const PARTS = JSON.parse(read('chapters/parts.json'))
const listed = PARTS.flatMap(({ chapters }) => chapters)
const unlisted = readmes('chapters').map((path) => path.split('/')[1])
  .filter((name) => !listed.includes(name))
if (unlisted.length) PARTS.push({ part: 'More', chapters: unlisted })
const readme_of = (name) => pages.find((path) => path === `chapters/${name}/README.md`)

// The memories that a chapter's idea concerns.
const WHERE = { '03': ['global memory', 'shared memory', 'registers', 'tensor core'], '04': ['shared memory'],
  '05': ['global memory', 'shared memory'], '06': ['shared memory', 'registers'], '07': ['shared memory'],
  '08': ['registers', 'tensor core'], '12': ['global memory', 'shared memory'],
  '13': ['shared memory', 'tensor core'], '14': ['shared memory', 'registers'],
  '15': ['registers', 'tensor core'], '16': ['shared memory', 'registers', 'tensor core'] }
export const level_of = (page) => WHERE[/^chapters\/(\d\d)_[^/]+\/[^/]+\.md$/.exec(page)?.[1]]

export const first_chapter = () => readme_of(PARTS[0].chapters[0])

// Returns the command that clones the project, if the origin of this copy is known.
export function clone_command() {
  const { status, stdout } = spawnSync('git', ['remote', 'get-url', 'origin'],
    { cwd: ROOT, encoding: 'utf8' })
  const [url] = status === 0 && /^https:\/\/[^@\s]+$/.exec(stdout.trim()) || []
  return url ? `git clone ${url}` : ''
}

const BEFORE = { '03_basic_kernel': 'docs/cuda-in-one-picture.md' }  // read before the chapter

function chapter_entries(name) {
  const path = readme_of(name), before = pages.includes(BEFORE[name]) ? [entry(BEFORE[name])] : []
  const words = name.replace(/_/g, ' ').replace(/\b(tma|gpt)$|(?<=^\d+ )(?!wgmma)[a-z]/g,
    (letters) => letters.toUpperCase())
  if (!path) return [...before, { text: `<span class="fa-coming">${words}</span>` }]
  const own = pages.filter((other) => folder_of(other) === folder_of(path) && other !== path)
    .map((other) => entry(other, title_of(other).replace(/^Chapter \d+, page \d+: /, '')))
  const title = title_of(path).replace(/^Chapter /, '').replace(':', '')
  return [...before, { ...entry(path, title), ...own.length && { collapsed: true, items: own } }]
}

// Returns " 17, 19, 20 coming" for the chapters that do not exist yet.
function coming({ chapters }) {
  const numbers = chapters.filter((name) => !readme_of(name)).map((name) => name.slice(0, 2))
  if (!numbers.length) return ''
  return ` <span class="fa-coming">${numbers.length < chapters.length ? `${numbers.join(', ')} ` : ''}coming</span>`
}

const LAST = ['docs/figures/README.md', 'docs/CONTRIBUTING.md']  // for contributors

export function sidebar() {
  const topics = [...new Set(readmes('exercises').concat(pages)
    .filter((path) => /^exercises\/[^/]+\/ex\d/.test(path)).map((path) => path.split('/')[1]))]
  const known = Object.values(BEFORE)
  const beside = pages.filter((path) => folder_of(path) === 'docs' && ![...known, ...LAST].includes(path))
  const course = [
    { text: 'Flash Attention', items: [entry('README.md', 'Start here')] },
    ...PARTS.map((one) => ({ text: one.part + coming(one), items: one.chapters.flatMap(chapter_entries) })),
    { text: 'Practice', items: [entry('exercises/README.md', 'Exercises'),
      ...beside.map((path) => entry(path))] },
    { text: 'Evidence', items: ['docs/measurements/README.md', 'common/simt/README.md', 'reference/README.md']
      .map((path) => entry(path)) },
    { text: 'For contributors', collapsed: true, items: LAST.map((path) => entry(path)) },
  ]
  const exercises = [
    { text: 'Exercises', items: [
      entry('README.md', 'Back to the chapters'), entry('exercises/README.md', 'The exercise track')] },
    ...topics.map((topic) => ({ text: topic.replace(/_/g, ' '), collapsed: false,
      items: readmes(`exercises/${topic}`).map((path) => entry(path)) })),
  ]
  return { '/': course, '/exercises/': exercises }
}
