// CodeMirror as the editor of an exercise or a kernel.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { cpp } from '@codemirror/lang-cpp'
import { indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint'
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view'
import { classHighlighter } from '@lezer/highlight'

/// Returns an editor in `parent`. Calls `changed` with each new text.
export function open_editor(parent, { text, label, changed }) {
  const view = new EditorView({ parent, doc: text, extensions: [lineNumbers(), lintGutter(), history(), drawSelection(),
    indentOnInput(), keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]), cpp(), syntaxHighlighting(classHighlighter),
    EditorView.contentAttributes.of({ 'aria-label': label }),
    EditorView.updateListener.of((update) => { if (update.docChanged) changed(update.state.doc.toString()) })] })
  function show(number, y = 'center') {
    const { from, to } = view.state.doc.line(Math.min(number, view.state.doc.lines))
    view.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y }) })
    view.focus()
  }
  return {
    /// Replaces the part of the text that differs, and shows it.
    write(text) {
      const old = view.state.doc.toString(), shortest = Math.min(old.length, text.length)
      let from = 0, end = 0
      while (from < shortest && old[from] === text[from]) from++
      while (end < shortest - from && old.at(-1 - end) === text.at(-1 - end)) end++
      view.dispatch({ changes: { from, to: old.length - end, insert: text.slice(from, text.length - end) },
        effects: EditorView.scrollIntoView(from, { y: 'center' }) })
    },
    /// Selects a line, from 1, and shows it.
    show,
    /// Selects and shows the line that has a text, if there is one.
    show_text(text) {
      const at = view.state.doc.toString().indexOf(text)
      if (at >= 0) show(view.state.doc.lineAt(at).number, 'start')
    },
    focus: () => view.focus(),
    text: () => view.state.doc.toString(),
    /// Marks errors in the margin: [{ line, column, text, severity = 'error' }].
    mark(places) {
      const { doc } = view.state
      view.dispatch(setDiagnostics(view.state, places.map(({ line: number, column, text, severity = 'error' }) => {
        const line = doc.line(Math.min(number, doc.lines)), from = Math.min(line.from + column - 1, line.to)
        return { from, to: line.to, severity, message: text }
      })))
    },
    close: () => view.destroy(),
  }
}
