import { defineConfig } from 'vitepress'

export default defineConfig({
  title: 'Flash Attention, step by step',
  srcDir: '..',
  srcExclude: ['build*/**', 'my_exercises/**', '**/node_modules/**'],
  rewrites: (id) => id.replace(/README\.md$/, 'index.md'),
  cleanUrls: false,
  ignoreDeadLinks: true,
  themeConfig: { search: { provider: 'local' } },
})
