import DefaultTheme from 'vitepress/theme'
import { defineAsyncComponent, hydrateOnVisible } from 'vue'

import 'katex/dist/katex.min.css'
import Figure from './Figure.vue'
import Prediction from './Prediction.vue'
import './style.css'

// VitePress fetches pages ahead of a click and asks each link for its pathname; links in drawings have none.
if (typeof SVGAElement !== 'undefined') {
  Object.defineProperty(SVGAElement.prototype, 'pathname',
    { configurable: true, get() { return new URL(this.href.animVal, this.baseURI).pathname } })
}

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) { app.component('Figure', Figure).component('Prediction', Prediction)
    // Far down on its page: its script comes when the reader does.
    .component('TryIt', defineAsyncComponent({ loader: () => import('./TryIt.vue'), hydrate: hydrateOnVisible({ rootMargin: '600px' }) }))
    .component('Exercise', defineAsyncComponent(() => import('./Exercise.vue'))) },
}
