#include "common/cuda/ptx.hpp"

#include <llvm/IR/InlineAsm.h>

using namespace llvm;

namespace emucuda {

Value* translate_ptx(Calls& calls, IRBuilder<>&, CallInst& call) {
  const auto* text = cast<InlineAsm>(call.getCalledOperand());
  calls.unsupported("asm(\"" + text->getAsmString() + "\")", call);
  return nullptr;
}

}  // namespace emucuda
