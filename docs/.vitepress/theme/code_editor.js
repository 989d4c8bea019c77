// CodeMirror as the editor of an exercise.
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
  return {
    write: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    focus: () => view.focus(),
    /// Marks errors in the margin: [{ line, column, text }].
    mark(places) {
      const { doc } = view.state
      view.dispatch(setDiagnostics(view.state, places.map(({ line: number, column, text }) => {
        const line = doc.line(Math.min(number, doc.lines)), from = Math.min(line.from + column - 1, line.to)
        return { from, to: line.to, severity: 'error', message: text }
      })))
    },
    close: () => view.destroy(),
  }
}
