import DefaultTheme from 'vitepress/theme'

import 'katex/dist/katex.min.css'
import Figure from './Figure.vue'
import './style.css'

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) { app.component('Figure', Figure) },
}
