// Compares the grid of docs/cuda-in-one-picture.md with the program: its counts, and the place of
// each thread.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import cuda from '../figures/cuda.js'
import { NARROW, WIDE } from '../figures/draw.js'
import { output_of } from '../figures/programs.mjs'

const data = cuda.data({ run: output_of(['cuda_in_one_picture']) })

test('cuda: as many blocks, warps and sums as the program says', () => {
  assert.deepEqual(data,
    { numbers: 300, blocks: 3, warps: 4, threads: 128, spare: 84, sums: [8256, 24640, 12254] })
  assert.equal(data.sums.reduce((sum, one) => sum + one), data.numbers * (data.numbers + 1) / 2)
})

test('cuda: a lane for each thread, grey where there is no number', () => {
  const drawing = cuda.draw(data, { thread: 0 }, WIDE)
  assert.equal(drawing.match(/data-focus=/g).length, data.blocks * data.threads)
  assert.equal(drawing.match(/data-focus="\d+"><rect [^>]*class="soft"/g).length, data.spare)
  assert.match(drawing, /data-focus="0"><rect [^>]*class="a on"/)
  assert.equal(cuda.draw(data, { thread: 300 }, NARROW).match(/data-focus=/g).length, data.threads)
})

test('cuda: where a thread is', () => {
  assert.match(cuda.describe(data, { thread: 165 }),
    /thread 37 of block 1: lane 5 of warp 1\. It adds number 165/)
  assert.match(cuda.describe(data, { thread: 299 }), /lane 11 of warp 1\. It adds number 299/)
  assert.match(cuda.describe(data, { thread: 300 }),
    /lane 12 of warp 1\. x has only 300 numbers.* 84 to spare/)
})
