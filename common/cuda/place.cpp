#include "common/cuda/place.hpp"

#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/Support/raw_ostream.h>

#include "common/cuda/window.hpp"

using namespace llvm;

namespace emucuda {

bool Places::is_system(const DILocation& location) const {
  std::string file = location.getFilename().str();  // clang makes it relative to its directory
  if (!file.empty() && file[0] != '/') file = location.getDirectory().str() + "/" + file;
  for (const std::string& directory : system_) {
    if (StringRef(file).starts_with(directory)) return true;
  }
  return file.empty();
}

Place Places::of(const Instruction& instruction) const {
  const DILocation* location = instruction.getDebugLoc();
  if (location == nullptr) {  // made by the optimizer, so the function's line
    const DISubprogram* function = instruction.getFunction()->getSubprogram();
    return function == nullptr ? Place{} : Place{file_of(*function), function->getLine(), ""};
  }
  while (is_system(*location) && location->getInlinedAt() != nullptr) {
    location = location->getInlinedAt();
  }
  Place place{file_of(*location), location->getLine(), ""};
  while ((location = location->getInlinedAt()) != nullptr) {
    if (!is_system(*location))
      place.calls += file_of(*location) + ":" + std::to_string(location->getLine()) + "\n";
  }
  return place;
}

// Returns the name, and after its end the calls, so that the names of one line that was inlined at
// two places are two pointers.
Constant* Calls::file_name(const Place& place) {
  std::string text = place.file;
  if (!place.calls.empty()) text += '\0' + place.calls;
  Constant*& name = files_[text];
  if (name == nullptr) {
    name = IRBuilder<>(module_.getContext())
               .CreateGlobalStringPtr(text, "llvm.emucuda.file", 0, &module_);
    if (!place.calls.empty()) inlined_.push_back(name);
  }
  return name;
}

void Calls::note(StringRef name, const std::vector<Value*>& arguments) {
  name.consume_front("emucuda_");
  for (const char* const proxy : {"tma_", "bulk_", "wgmma"}) {
    if (name.starts_with(proxy)) facts_.async_proxy = true;
  }
  // Positions of the size and the alignment.
  const bool plain = name.starts_with("load") || name.starts_with("store"),
             many = name == "memcpy" || name == "memset";
  if (!plain && !many && !name.starts_with("atomic_")) return;
  const std::vector<size_t> sizes = plain              ? std::vector<size_t>{2, 3}
                                    : name == "memcpy" ? std::vector<size_t>{3, 4}
                                    : name == "memset" ? std::vector<size_t>{3}
                                                       : std::vector<size_t>{4};
  for (const size_t i : sizes) {
    const auto* size = dyn_cast<ConstantInt>(arguments[i]);
    const uint64_t bytes = size == nullptr ? 1 : size->getZExtValue();
    facts_.narrowest = std::min(facts_.narrowest, bytes & -bytes);  // pieces are powers of two
  }
}

Value* Calls::call(IRBuilder<>& builder, const std::string& name, Type* result,
                   std::vector<Value*> arguments, Instruction& at) {
  if (exported_.count(name) == 0) {
    unsupported(name.substr(std::string("emucuda_").size()), at);
    return result->isVoidTy() ? nullptr : PoisonValue::get(result);
  }
  note(name, arguments);
  const auto small = [](Type* type) {
    return type->isIntegerTy() && type->getIntegerBitWidth() < 32;
  };
  for (Value*& argument : arguments) {
    Type* type = argument->getType();
    if (small(type)) argument = builder.CreateZExt(argument, builder.getInt32Ty());
    if (type->isPointerTy()) argument = generic(builder, argument);
  }
  Value* structure = nullptr;
  Type* returned = result;
  if (result->isStructTy()) {
    structure = slot(at, result);
    arguments.push_back(structure);
    returned = builder.getVoidTy();
  } else if (small(result)) {
    returned = builder.getInt32Ty();
  }
  const Place place = places_.of(at);
  arguments.push_back(builder.getInt32(place.line));
  arguments.push_back(file_name(place));
  std::vector<Type*> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  FunctionCallee callee =
      module_.getOrInsertFunction(name, FunctionType::get(returned, types, false));
  Value* value = builder.CreateCall(callee, arguments);
  if (structure != nullptr) return builder.CreateLoad(result, structure);
  if (result->isIntegerTy(1)) return builder.CreateICmpNE(value, builder.getInt32(0));
  return small(result) ? builder.CreateTrunc(value, result) : value;
}

Value* Calls::slot(Instruction& at, Type* type) {
  BasicBlock& entry = at.getFunction()->getEntryBlock();
  IRBuilder<> builder(&*entry.getFirstInsertionPt());
  AllocaInst* memory = builder.CreateAlloca(type);
  memory->setAlignment(Align(16));
  return memory;
}

Value* Calls::generic(IRBuilder<>& builder, Value* pointer) {
  const unsigned space = pointer->getType()->getPointerAddressSpace();
  if (space == 0) return pointer;
  if (space == 3) return shared(builder, builder.CreatePtrToInt(pointer, builder.getInt64Ty()));
  return builder.CreateAddrSpaceCast(pointer, builder.getPtrTy());
}

Value* Calls::shared(IRBuilder<>& builder, Value* address) {
  Value* low = builder.CreateZExt(builder.CreateZExtOrTrunc(address, builder.getInt32Ty()),
                                  builder.getInt64Ty());
  return builder.CreateIntToPtr(builder.CreateOr(low, builder.getInt64(kSharedWindow)),
                                builder.getPtrTy());
}

void Calls::unsupported(const std::string& name, const Instruction& at) {
  failed_ = true;
  const Place place = places_.of(at);
  const std::string text =
      place.file + ":" + std::to_string(place.line) + ": error: " + name + " is not supported";
  if (reported_.insert(text).second) errs() << text << "\n";
}

}  // namespace emucuda
