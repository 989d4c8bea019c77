// A page for each file that another page links to or quotes.
import { source_page, sources } from '../.vitepress/pages.mjs'

export default { paths: () => sources().map((file) => ({ params: { file }, content: source_page(file) })) }
