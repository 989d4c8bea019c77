import DefaultTheme from 'vitepress/theme'
import { defineAsyncComponent } from 'vue'

import 'katex/dist/katex.min.css'
import EditKernel from './EditKernel.vue'
import Figure from './Figure.vue'
import Prediction from './Prediction.vue'
import './style.css'

// VitePress fetches pages before a click and reads the pathname of each link. Links in drawings
// have none.
if (typeof SVGAElement !== 'undefined') {
  Object.defineProperty(SVGAElement.prototype, 'pathname',
    { configurable: true, get() { return new URL(this.href.animVal, this.baseURI).pathname } })
}

// A panel below the window stays static until the reader scrolls, so a page does not load its
// script at first.
async function reader_is_near() {
  const top = globalThis.document?.querySelector('.fa-try')?.getBoundingClientRect().top ?? 0
  if (top > globalThis.innerHeight) await new Promise((moved) =>
    ['scroll', 'pointerdown', 'keydown'].forEach((event) => addEventListener(event, moved, { once: true, capture: true })))
}

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) { app.component('Figure', Figure).component('Prediction', Prediction).component('EditKernel', EditKernel)
    .component('TryIt', defineAsyncComponent(() => reader_is_near().then(() => import('./TryIt.vue'))))
    .component('Exercise', defineAsyncComponent(() => import('./Exercise.vue')))
    .component('CodeExercise', defineAsyncComponent(() => import('./CodeExercise.vue')))
    .component('Playground', defineAsyncComponent(() => import('./Playground.vue')))
    .component('ExerciseMap', defineAsyncComponent(() => import('./ExerciseMap.vue'))) },
}
