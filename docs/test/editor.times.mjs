// node docs/test/editor.times.mjs: seconds until the verdicts of the page, the rows of docs/measurements/editor.csv. With
// FA_FIREFOX=/usr/bin/firefox-esr: in Firefox. With FA_ONE_COMPILER=1: in Chromium as most tests start it.
import { readdirSync, readFileSync } from 'node:fs'
import { use_both_compilers, with_browser } from './browser.mjs'
import { panel_of } from './code_panel.mjs'

const PAGES = [
  ['exercise 02.2', 'exercise', '/exercises/02_tiled_cpu/ex2_online_softmax/'],
  ['exercise 05.1 on the emulator', 'exercise', '/exercises/05_pipelining/ex1_prefetch/'],
  ['kernel of chapter 04', 'kernel', '/chapters/04_swizzling/'],
  ['kernel of chapter 22', 'kernel', '/chapters/22_backward_on_hopper/4-loop.html'],
  ['reduction.cu in the playground', 'playground', '/docs/playground.html'],
]

if (!process.env.FA_ONE_COMPILER) use_both_compilers()  // as for a reader

// Returns the CPU time of the browser's processes so far, in seconds.
function cpu_time() {
  const children = {}, seconds = {}
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
      (children[words[1]] ??= []).push(pid)
      seconds[pid] = (Number(words[11]) + Number(words[12])) / 100
    } catch { /* it has ended */ }
  }
  const sum = (pid) => (children[pid] ?? []).reduce((all, child) => all + seconds[child] + sum(child), 0)
  return sum(process.pid)
}

const browser = process.env.FA_FIREFOX ? 'Firefox' : 'Chromium'
console.log('browser,page,what,seconds,cpu_seconds')
for (const [name, kind, url] of PAGES) {
  await with_browser(async (open) => {
    const page = await open(url, { quiet: true }), panel = panel_of(page, kind)
    page.on('dialog', (dialog) => dialog.accept())
    // Waits until the panel's state has been `begin` and then `ready`, and prints how long that took.
    async function timed(what, begin, act) {
      await page.evaluate(([kind, begin]) => {
        window.took = new Promise((settle) => {
          let from
          const watch = new MutationObserver(() => {
            const { state } = document.querySelector(`.fa-code-${kind}`)?.dataset ?? {}
            if (state === begin) from ??= performance.now()
            if (!from || state !== 'ready') return
            watch.disconnect()
            settle((performance.now() - from) / 1000)
          })
          watch.observe(document, { subtree: true, attributeFilter: ['data-state'] })
        })
      }, [kind, begin])
      const before = cpu_time()
      await act()
      const seconds = await page.evaluate(() => window.took)
      console.log([browser, name, what, seconds.toFixed(1), (cpu_time() - before).toFixed(1)].join())
    }
    const run = () => panel.press(kind === 'exercise' ? 'Check' : 'Run')
    async function begin(what) {
      await page.evaluate(() => document.querySelectorAll('details').forEach((fold) => { fold.open = true }))
      if (kind === 'playground') await page.getByRole('button', { name: 'reduction.cu' }).click()
      await timed(what, 'preparing', () => kind === 'kernel'
        ? page.locator('.fa-edit-kernel button').first().click() : panel.press('Edit'))
      if (kind === 'exercise') await panel.press('Solution')
    }
    await begin('ready after the download')
    for (const what of ['first verdict', 'second verdict', 'third verdict']) await timed(what, 'compiling', run)
    await panel.editor.click()
    await page.keyboard.press('Control+Home')
    await page.keyboard.type('wrong;')
    await timed('compile error', 'compiling', run)
    await page.reload({ waitUntil: 'networkidle' })
    await begin('ready at the next visit')
    if (kind !== 'exercise') await panel.press('Reset')
    await timed('first verdict of the next visit', 'compiling', run)
  })
}
process.exit()  // the browser has no test that ends it
