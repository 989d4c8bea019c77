// Reduces chapter 13's event log to the descriptors of wgmma, decoded as in the PTX ISA and in
// common/simt/descriptor.hpp, and to the 16-byte chunks of a tile that they address.
import { matrix_of } from './mbarriers_log.js'

export const LINE = 128, CHUNK = 16, CHUNKS = LINE / CHUNK  // bytes, bytes, chunks of a line
const DEPTH = 16  // columns of K, or keys of V, per wgmma

// Returns the first tile of K or V, and the descriptors of warp 0 that address it, in order.
export function reduce({ events }, matrix) {
  const mine = events.filter(({ block, warp }) => block === 0 && warp === 0)
  const copy = mine.find((event) => event.kind === 'tma_load' && matrix_of(event) === matrix)
  const inside = ({ shared_address: at }) => copy.shared_address <= at && at < copy.shared_address + copy.bytes
  const own = mine.flatMap(({ kind, b, n }) => kind === 'wgmma' && b && inside(b) ? [{ ...b, n }] : [])
  const [{ descriptor, shared_address, major, n }] = own
  // the start address of K or V in descriptors
  const start = fields_of(descriptor).start - shared_address + copy.shared_address
  return { matrix, start, bytes: copy.bytes, major, n, descriptors: own.map((each) => each.descriptor) }
}

export const bits_of = (descriptor) => BigInt(descriptor).toString(2).padStart(64, '0')

// Returns the fields in bytes, and the number of the swizzle.
export function fields_of(descriptor) {
  const bits = BigInt(descriptor), field = (low) => Number(bits >> BigInt(low) & 0x3fffn) * 16
  return { start: field(0), leading: field(16), stride: field(32), swizzle: Number(bits >> 62n) }
}

// In the 128-byte swizzle, bits 4 to 6 of an address are XORed with bits 7 to 9.
const swizzled = (address) => address ^ (address >> 7 & 7) << 4

// Returns the position of a chunk, which is its line in the tile and its place in the line, its row in the matrix,
// and its chunk among the panel's 64 columns.
export function place_of({ start, bytes }, address) {
  const lines = bytes / LINE / 2, line = Math.floor((swizzled(address) - start) / LINE)
  const place = Math.floor(swizzled(address) % LINE / CHUNK), row = line % lines
  return { panel: Math.floor(line / lines), row, place, chunk: chunk_in(row, place) }
}
export const chunk_in = (row, place) => place ^ row % 8

// Returns the chunks that one wgmma reads, with the [row, panel, chunk] that it uses each of them
// for.
export function reads_of(tile, step) {
  const { start, leading, stride } = fields_of(tile.descriptors[step])
  if (tile.major === 'k') {
    return Array.from({ length: 2 * tile.n }, (_, i) => {
      const row = i >> 1, chunk = 2 * step + i % 2
      const address = start + Math.floor(row / 8) * stride + row % 8 * LINE + i % 2 * CHUNK
      return { ...place_of(tile, address), for: [row, Math.floor(chunk / CHUNKS), chunk % CHUNKS] }
    })
  }
  return Array.from({ length: DEPTH * tile.n / 8 }, (_, i) => {
    const chunk = i % (tile.n / 8), k = Math.floor(i / (tile.n / 8)), panel = Math.floor(chunk / CHUNKS)
    const address = start + panel * leading + chunk % CHUNKS * CHUNK + Math.floor(k / 8) * stride + k % 8 * LINE
    return { ...place_of(tile, address), for: [DEPTH * step + k, panel, chunk % CHUNKS] }
  })
}
export const is_right = ({ row, panel, chunk, for: wanted }) =>
  row === wanted[0] && panel === wanted[1] && chunk === wanted[2]
