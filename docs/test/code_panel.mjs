// An editor of the page in a test.

const LONGEST = 400_000  // milliseconds, because a busy machine needs minutes to load the compiler and to precompile headers

/// Returns a panel of docs/.vitepress/theme/CodePanel.vue, used as by a reader: that of an exercise, or of a kernel.
export function panel_of(page, kind = 'exercise') {
  const root = page.locator(`.fa-code-${kind}`), editor = root.locator('.cm-content'), words = root.locator('[data-result]')
  const press = (name) => root.getByRole('button', { name }).click()
  const ready = () => root.and(page.locator('[data-state=ready]')).waitFor({ timeout: LONGEST })
  return {
    root, editor, words, press, ready,
    async check() {
      await press(kind === 'exercise' ? 'Check' : 'Run')
      await ready()
      return words.textContent()
    },
    // Scrolls to the line with a text, because the editor has only lines near those that it shows.
    async reach(text) {
      await editor.click()
      await page.keyboard.press('Control+Home')
      while (!await editor.locator('.cm-line').filter({ hasText: text }).count()) await page.keyboard.press('PageDown')
    },
    // Replaces the line with `old` by typed text.
    async type(old, text) {
      await editor.locator('.cm-line').filter({ hasText: old }).first().click()
      await page.keyboard.press('Home')
      await page.keyboard.press('Shift+End')
      await page.keyboard.type(text)
    },
    text: () => editor.evaluate((content) => [...content.querySelectorAll('.cm-line')].map((line) => line.textContent).join('\n')),
  }
}
