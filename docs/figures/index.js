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
import ladder from './ladder.js'
import levels from './levels.js'
import tiled from './tiled.js'
import merge from './merge.js'
import pipeline from './pipeline.js'
import reuse from './reuse.js'
import lazy_maximum from './lazy_maximum.js'
import mask_tiles from './mask_tiles.js'
import mbarriers from './mbarriers.js'
import descriptor from './descriptor.js'
import roles from './roles.js'
import power from './power.js'
import overlap from './overlap.js'
import on_demand from './on_demand.js'
import backward_schedule from './backward_schedule.js'
import gradient_check from './gradient_check.js'
import splits from './splits.js'
import pages from './pages.js'
import ring from './ring.js'

export default {
  banks, tiles, memory_curves, break_it, timeline, online_softmax, toy_machine, fragments, ldmatrix, speed,
  profile, cuda, systolic, ladder, levels, tiled, merge, pipeline, reuse, lazy_maximum, mask_tiles, mbarriers,
  descriptor, roles, power, overlap, on_demand, backward_schedule,
  gradient_check, splits, pages, ring }
