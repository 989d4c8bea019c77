#pragma once
// Places in the user's source, and calls to the library that tell it the place.

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/FileSystem.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace emucuda {

struct Place {
  std::string file;
  unsigned line = 0;
  std::string calls;  // "file:line" of each call that was inlined, from the inside, each with \n
};

/// Returns the name of a source file as the command line gave it, or the whole path. (clang leaves
/// out the directories that a path shares with the working directory.)
template <class Scope>
std::string file_of(const Scope& scope) {
  const llvm::StringRef file = scope.getFilename(), directory = scope.getDirectory();
  llvm::SmallString<256> working;
  llvm::sys::fs::current_path(working);
  const bool as_given = file.empty() || file[0] == '/' || directory.empty() || directory == working;
  return as_given ? file.str() : directory.str() + "/" + file.str();
}

/// Returns the place in the source from which an instruction comes. For a place in a directory of
/// `system`, which is not the user's, returns the place into which it was inlined. Names the calls
/// through which the optimizer has inlined it.
class Places {
 public:
  explicit Places(std::vector<std::string> system) : system_(std::move(system)) {}
  Place of(const llvm::Instruction& instruction) const;

 private:
  bool is_system(const llvm::DILocation& location) const;
  std::vector<std::string> system_;
};

/// Facts about a program that let the emulator check less.
struct Facts {
  uint64_t narrowest = 4;    // size of the smallest access in bytes, up to 4
  bool async_proxy = false;  // it has bulk copies or wgmma
};

/// Makes calls to functions of the library. Each gets two more arguments, line and file.
class Calls {
 public:
  Calls(llvm::Module& module, const std::set<std::string>& exported, const Places& places)
      : module_(module), exported_(exported), places_(places) {}

  /// Calls `name` with `arguments` at the builder's place, for the instruction `at`. Integers of
  /// fewer than 32 bits are passed and returned as 32 bits. A structure is returned through a
  /// pointer, the last argument before the place. An unsupported name is reported, and its result
  /// is poison.
  llvm::Value* call(llvm::IRBuilder<>& builder, const std::string& name, llvm::Type* result,
                    std::vector<llvm::Value*> arguments, llvm::Instruction& at);

  /// Memory for a value of that type on the stack of at's function.
  llvm::Value* slot(llvm::Instruction& at, llvm::Type* type);
  /// The pointer in the generic address space.
  llvm::Value* generic(llvm::IRBuilder<>& builder, llvm::Value* pointer);
  /// The pointer to a shared address of 32 or 64 bits.
  llvm::Value* shared(llvm::IRBuilder<>& builder, llvm::Value* address);

  /// Prints "file:line: error: NAME is not supported", once for each name and place.
  void unsupported(const std::string& name, const llvm::Instruction& at);
  bool failed() const { return failed_; }
  /// Facts about the calls so far.
  const Facts& facts() const { return facts_; }
  /// The file names that are followed by the calls of their place.
  const std::vector<llvm::Constant*>& inlined() const { return inlined_; }

 private:
  void note(llvm::StringRef name, const std::vector<llvm::Value*>& arguments);
  llvm::Constant* file_name(const Place& place);

  llvm::Module& module_;
  const std::set<std::string>& exported_;
  const Places& places_;
  std::map<std::string, llvm::Constant*> files_;
  std::vector<llvm::Constant*> inlined_;
  std::set<std::string> reported_;
  bool failed_ = false;
  Facts facts_;
};

}  // namespace emucuda
