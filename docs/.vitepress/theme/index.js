import DefaultTheme from 'vitepress/theme'
import { defineAsyncComponent } from 'vue'

import 'katex/dist/katex.min.css'
import Figure from './Figure.vue'
import Prediction from './Prediction.vue'
import TryIt from './TryIt.vue'
import './style.css'

// VitePress fetches pages ahead of a click and asks each link for its pathname; links in drawings have none.
if (typeof SVGAElement !== 'undefined') {
  Object.defineProperty(SVGAElement.prototype, 'pathname',
    { configurable: true, get() { return new URL(this.href.animVal, this.baseURI).pathname } })
}

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) { app.component('Figure', Figure).component('Prediction', Prediction)
    .component('TryIt', TryIt)
    .component('Exercise', defineAsyncComponent(() => import('./Exercise.vue'))) },
}
