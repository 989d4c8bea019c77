#pragma once
// The emulator's functions with one block_sync or cp_async_wait left out: which, the test says.

#include "common/simt/device.hpp"

namespace mutant {

using emulator::block_index;
using emulator::block_index_3d;
using emulator::block_size;
using emulator::cp_async_16;
using emulator::cp_async_commit;
using emulator::Dim3;
using emulator::dynamic_smem;
using emulator::exp;
using emulator::exp2;
using emulator::fma;
using emulator::grid_size;
using emulator::launch;
using emulator::LaunchConfig;
using emulator::ldmatrix_x1;
using emulator::ldmatrix_x1_trans;
using emulator::ldmatrix_x2;
using emulator::ldmatrix_x2_trans;
using emulator::ldmatrix_x4;
using emulator::ldmatrix_x4_trans;
using emulator::load_global;
using emulator::load_shared;
using emulator::max;
using emulator::mma_m16n8k16;
using emulator::pack_bf16x2;
using emulator::shfl_xor;
using emulator::store_global;
using emulator::store_shared;
using emulator::thread_index;
using emulator::thread_index_3d;
using emulator::warp_any;
using emulator::warp_sync;

// Is the call at this place to be left out? Also notes that the place exists.
bool left_out(int line, const char* what);

inline void block_sync(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  if (!left_out(line, "block_sync")) emulator::block_sync(line, file);
}

template <int N>
void cp_async_wait(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  if (!left_out(line, "cp_async_wait")) emulator::cp_async_wait<N>(line, file);
}

}  // namespace mutant
