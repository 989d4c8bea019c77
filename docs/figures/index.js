// Every figure by its name, which is its file's.
import banks from './banks.js'
import timeline from './timeline.js'

export default { banks, timeline }
