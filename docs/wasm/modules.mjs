// The programs that exist as WebAssembly, and their files in docs/public.

export const PROGRAMS = {
  1: 'ch01_toy_machine', 2: 'ch02_tiled_cpu',
  3: 'ch03_basic_kernel', 4: 'ch04_swizzling', 5: 'ch05_pipelining', 6: 'ch06_ldmatrix_x4',
  7: 'ch07_better_pipelining', 8: 'ch08_fewer_instructions', 9: 'ch09_masks_and_shapes',
  10: 'ch10_backward', 11: 'ch11_decoding',
  12: 'ch12_tma', 13: 'ch13_wgmma', 14: 'ch14_warp_specialization', 15: 'ch15_overlap',
  16: 'ch16_maximum_on_demand', 17: 'ch17_low_precision', 18: 'ch18_systolic_array',
  20: 'ch20_train_a_gpt', 21: 'ch21_persistent_blocks', 22: 'ch22_backward_on_hopper', 23: 'ch23_fp8'
}
export const EXERCISES = { '01.1': 'ex1_one_element', '01.2': 'ex2_reuse', '01.3': 'ex3_outer_product',
  '01.4': 'ex4_online_step', '01.5': 'ex5_beat_the_trace' }
// Returns the file of a chapter. Any module can answer a request for a chapter that does not exist.
export const MODULES = ['toy', 'tiled', 'ampere', 'backward', 'decoding', 'hopper', 'overlap', 'low_precision', 'persistent',
  'hopper_backward', 'fp8', 'systolic', 'gpt']
const MODULE_OF = { 1: 'toy', 2: 'tiled', 10: 'backward', 11: 'decoding', 12: 'hopper', 13: 'hopper', 14: 'hopper',
  15: 'overlap', 16: 'overlap', 17: 'low_precision', 18: 'systolic', 20: 'gpt', 21: 'persistent',
  22: 'hopper_backward', 23: 'fp8' }
export const module_of = (request) => request?.exercise !== undefined ? 'toy' : MODULE_OF[request?.chapter] ?? 'ampere'
