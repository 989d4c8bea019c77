// Archives of small files (ustar), for all answers at once.

const BLOCK = 512
const padded = (count) => Math.ceil(count / BLOCK) * BLOCK

/// Returns an archive of { path: text }. A path has at most 100 bytes.
export function packed(files) {
  const parts = Object.entries(files).flatMap(([path, text]) => {
    const name = new TextEncoder().encode(path), data = new TextEncoder().encode(text)
    if (name.length > 100) throw new Error(`${path}: the path has more than 100 bytes`)
    const header = new Uint8Array(BLOCK), body = new Uint8Array(padded(data.length))
    const put = (at, words) => header.set(new TextEncoder().encode(words), at)
    const octal = (number, digits) => number.toString(8).padStart(digits, '0')
    header.set(name)
    put(100, '0000644\0' + '0000000\0'.repeat(2) + `${octal(data.length, 11)}\0${octal(0, 11)}\0` + ' '.repeat(8) + '0')
    put(257, 'ustar\x0000')
    put(148, `${octal(header.reduce((sum, byte) => sum + byte), 6)}\0 `)  // with spaces in place of itself
    body.set(data)
    return [header, body]
  })
  return new Blob([...parts, new Uint8Array(2 * BLOCK)], { type: 'application/x-tar' })
}

/// Returns { path: text } of an archive without compression.
export function unpacked(bytes) {
  const text = (from, count) => new TextDecoder().decode(bytes.subarray(from, from + count)).replace(/\0[^]*$/, '')
  const files = {}
  for (let at = 0; at + BLOCK <= bytes.length && bytes[at] !== 0;) {
    if (text(at + 257, 5) !== 'ustar') throw new Error('this is not a .tar file')
    const size = Number.parseInt(text(at + 124, 12).trim(), 8), prefix = text(at + 345, 155)
    if (['0', ''].includes(text(at + 156, 1))) {
      files[`${prefix && `${prefix}/`}${text(at, 100)}`.replace(/^\.\//, '')] = new TextDecoder().decode(bytes.subarray(at + BLOCK, at + BLOCK + size))
    }
    at += BLOCK + padded(size)
  }
  return files
}
