// Chapter 13's event log: the descriptors of wgmma, taken apart as the PTX ISA says and
// common/simt/descriptor.hpp does, and which 16-byte chunks of a tile they lead to.
import { matrix_of } from './mbarriers_log.js'

export const LINE = 128, CHUNK = 16, CHUNKS = LINE / CHUNK  // bytes, bytes, chunks of a line
const DEPTH = 16  // of one wgmma: columns of K, keys of V

// The tile of K or V that comes first, and the descriptors that warp 0 gives of it, in order.
export function reduce({ events }, matrix) {
  const mine = events.filter(({ block, warp }) => block === 0 && warp === 0)
  const copy = mine.find((event) => event.kind === 'tma_load' && matrix_of(event) === matrix)
  const inside = ({ shared_address: at }) => copy.shared_address <= at && at < copy.shared_address + copy.bytes
  const own = mine.flatMap(({ kind, b, n }) => kind === 'wgmma' && b && inside(b) ? [{ ...b, n }] : [])
  const [{ descriptor, shared_address, major, n }] = own
  // Where K or V begins, in the addresses of descriptors.
  const start = fields_of(descriptor).start - shared_address + copy.shared_address
  return { matrix, start, bytes: copy.bytes, major, n, descriptors: own.map((each) => each.descriptor) }
}

export const bits_of = (descriptor) => BigInt(descriptor).toString(2).padStart(64, '0')

// Bytes, and the number of the swizzle.
export function fields_of(descriptor) {
  const bits = BigInt(descriptor), field = (low) => Number(bits >> BigInt(low) & 0x3fffn) * 16
  return { start: field(0), leading: field(16), stride: field(32), swizzle: Number(bits >> 62n) }
}

// The 128-byte swizzle: bits 4 to 6 of an address, exclusive-or bits 7 to 9.
const swizzled = (address) => address ^ (address >> 7 & 7) << 4

// Where a chunk of the tile lies: line and place in it; and the chunk's place in the matrix: its row,
// and its chunk of the panel's 64 columns.
export function place_of({ start, bytes }, address) {
  const lines = bytes / LINE / 2, line = Math.floor((swizzled(address) - start) / LINE)
  const place = Math.floor(swizzled(address) % LINE / CHUNK), row = line % lines
  return { panel: Math.floor(line / lines), row, place, chunk: chunk_in(row, place) }
}
export const chunk_in = (row, place) => place ^ row % 8

// The chunks that one wgmma reads: where they lie, and [row, panel, chunk] for which it takes them.
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
