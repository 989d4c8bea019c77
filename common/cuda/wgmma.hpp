#pragma once
// wgmma in a CUDA file, whose accumulators stay in memory.

#include <llvm/IR/Module.h>

#include "common/cuda/place.hpp"

namespace emucuda {

/// Replaces each asm statement with a wgmma.mma_async by a call that gets pointers to the variables
/// of its registers. Must run before the optimizer, which would turn the variables into values: the
/// hardware, and the emulator, change a wgmma's registers later than the instruction itself.
/// Returns false after it has reported what is not supported.
bool keep_accumulators(llvm::Module& module, Calls& calls);

}  // namespace emucuda
