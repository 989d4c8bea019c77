// Every figure by its name, which is its file's.
import banks from './banks.js'

export default { banks }
