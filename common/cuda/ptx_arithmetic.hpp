#pragma once
// PTX's conversions and its arithmetic of integers and floats, as LLVM's instructions.

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>

#include <string>
#include <vector>

#include "common/cuda/place.hpp"

namespace emucuda {

/// One instruction: "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4]".
struct Statement {
  std::vector<std::string> name;      // between the dots
  std::vector<std::string> operands;  // "$0", "{$0,$1}", "[$4]", "16", "%laneid", a register's name
  bool has(llvm::StringRef part) const;
};

/// Takes the operands' values. Returns that of the result, or nullptr if it is not supported.
class Arithmetic {
 public:
  Arithmetic(Calls& calls, llvm::IRBuilder<>& builder, llvm::CallInst& call)
      : calls_(calls), builder_(builder), call_(call) {}

 protected:
  /// The same bits as another type. Integers are extended with zeros or cut off.
  llvm::Value* as(llvm::Value* value, llvm::Type* type);
  llvm::Value* i32(uint64_t value) { return builder_.getInt32(static_cast<unsigned>(value)); }

  llvm::Value* convert(const Statement& statement, const std::vector<llvm::Value*>& in);
  llvm::Value* arithmetic(const Statement& statement, std::vector<llvm::Value*> in);

  Calls& calls_;
  llvm::IRBuilder<>& builder_;
  llvm::CallInst& call_;  // the asm statement

 private:
  llvm::Value* convert_float(const Statement& statement, llvm::Value* value, const std::string& to,
                             const std::string& from);
  llvm::Value* widened(llvm::Value* bits, const std::string& type);
  llvm::Value* narrowed(llvm::Value* value, const std::string& type);
  llvm::Value* saturated(llvm::Value* value, llvm::Type* kind);
  llvm::Value* halves(const Statement& statement, const std::vector<llvm::Value*>& in);
  llvm::Value* integers(const Statement& statement, const std::vector<llvm::Value*>& in,
                        unsigned bits);
  llvm::Value* shifted(llvm::Value* value, llvm::Value* count);
  llvm::Value* low_bits(llvm::Value* n);
};

}  // namespace emucuda
