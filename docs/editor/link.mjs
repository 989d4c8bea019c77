// The text of a playground in the fragment of a link: #code=, then deflate in base64url.

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer())
}

/// Returns '#code=…'.
export async function write_link(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream('deflate-raw'))
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
  return `#code=${base64.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}`
}

/// Returns the text. Throws if the fragment is broken.
export async function read_link(fragment) {
  const base64 = fragment.replace(/^#code=/, '').replaceAll('-', '+').replaceAll('_', '/')
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  return new TextDecoder('utf-8', { fatal: true }).decode(await through(bytes, new DecompressionStream('deflate-raw')))
}
