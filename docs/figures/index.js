// Every figure by its name, which is its file's.
import banks from './banks.js'
import break_it from './break_it.js'
import timeline from './timeline.js'

export default { banks, break_it, timeline }
