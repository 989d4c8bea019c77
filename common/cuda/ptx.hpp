#pragma once
// Inline PTX, of which each instruction becomes a call to the library.

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include "common/cuda/place.hpp"

namespace emucuda {

/// Translates the asm statement that `call` is, at the builder's place. Returns its result (for a
/// statement without one: any value), or nullptr after it has reported what is not supported.
llvm::Value* translate_ptx(Calls& calls, llvm::IRBuilder<>& builder, llvm::CallInst& call);

}  // namespace emucuda
