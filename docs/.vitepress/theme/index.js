import DefaultTheme from 'vitepress/theme'

export default { extends: DefaultTheme }
