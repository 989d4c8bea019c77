// Every figure by its name, which is its file's.
import banks from './banks.js'
import tiles from './tiles.js'
import memory_curves from './memory_curves.js'
import break_it from './break_it.js'
import timeline from './timeline.js'
import online_softmax from './online_softmax.js'
import toy_machine from './toy_machine.js'
import fragments from './fragments.js'
import ldmatrix from './ldmatrix.js'
import speed from './speed.js'
import profile from './profile.js'
import cuda from './cuda.js'
import systolic from './systolic.js'

export default {
  banks, tiles, memory_curves, break_it, timeline, online_softmax, toy_machine, fragments, ldmatrix, speed,
  profile, cuda, systolic }
