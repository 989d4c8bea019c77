// emucuda_retarget IN.bc OUT.bc --library LIBRARY [--system DIRECTORY]... [--unit NUMBER]
//
// Turns the device code that clang makes from a CUDA file, LLVM IR for nvptx64, into IR for the
// host whose instructions call the emulator. It reads and writes modules and nothing else, so that
// it can be compiled for any machine. In order:
//
//   join_struct_copies   an aligned copy of 2 to 16 bytes becomes one access
//   keep_accumulators    the registers of a wgmma stay variables
//   optimize             as for a GPU: inlines, keeps locals in registers
//   place_shared         a __shared__ variable becomes a number, its address in the shared window
//   Rewriter             loads, stores, atomics, intrinsics, divisions, asm become calls
//   register_all         kernels and variables are registered when the program starts
//
// A function that the library does not export is reported with its name and its place in the
// source, and the exit status is 2.

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/AttributeMask.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/ToolOutputFile.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>
#include <llvm/Transforms/Vectorize/LoadStoreVectorizer.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/cuda/place.hpp"
#include "common/cuda/ptx.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/window.hpp"

using namespace llvm;

namespace emucuda {

namespace {

constexpr unsigned kShared = 3;  // address space

// ---- before the optimizer
// ------------------------------------------------------------------------

bool is_kernel(const Function& function) { return function.hasFnAttribute("emucuda-kernel"); }

// Keeps the sizes of __cluster_dims__ as an attribute of the kernel: "2 1 1".
void note_cluster_dims(Module& module) {
  GlobalVariable* all = module.getGlobalVariable("llvm.global.annotations");
  if (all == nullptr) return;
  for (const Use& annotation : cast<ConstantArray>(all->getInitializer())->operands()) {
    const auto* fields = cast<ConstantStruct>(annotation);
    auto* function = dyn_cast<Function>(fields->getOperand(0)->stripPointerCasts());
    const auto* word = dyn_cast<GlobalVariable>(fields->getOperand(1)->stripPointerCasts());
    const auto* sizes = dyn_cast<GlobalVariable>(fields->getOperand(4)->stripPointerCasts());
    if (function == nullptr || word == nullptr || sizes == nullptr) continue;
    const auto* text = dyn_cast<ConstantDataArray>(word->getInitializer());
    if (text == nullptr || !text->isCString() || text->getAsCString() != "cluster_dims") continue;
    std::string dims;
    for (const Use& size : sizes->getInitializer()->operands()) {
      dims += std::to_string(cast<ConstantInt>(size)->getZExtValue()) + " ";
    }
    function->addFnAttr("emucuda-cluster", dims);
  }
  all->eraseFromParent();
}

// Marks kernels, which a module for nvptx names in its metadata. Everything else is internal.
void mark_kernels(Module& module) {
  if (const NamedMDNode* annotations = module.getNamedMetadata("nvvm.annotations")) {
    for (const MDNode* node : annotations->operands()) {
      auto* function = mdconst::dyn_extract_or_null<Function>(node->getOperand(0));
      if (function == nullptr) continue;
      for (unsigned i = 1; i + 1 < node->getNumOperands(); i += 2) {
        const auto* name = dyn_cast<MDString>(node->getOperand(i));
        if (name != nullptr && name->getString() == "kernel") function->addFnAttr("emucuda-kernel");
      }
    }
  }
  note_cluster_dims(module);
  // Makes the host, and every byte that a kernel did not write, unknown to the optimizer. Otherwise
  // it would remove loads of variables to which it sees no store.
  for (GlobalVariable& variable : module.globals()) {
    if (variable.hasLocalLinkage() && !variable.isConstant())
      variable.setLinkage(GlobalValue::ExternalLinkage);
  }
  for (Function& function : module) {
    if (function.isDeclaration() || is_kernel(function)) continue;
    function.setComdat(nullptr);
    function.setLinkage(GlobalValue::InternalLinkage);
  }
}

// Without this the optimizer splits the copy of a float4 into four loads, where nvcc makes one.
void join_struct_copies(Module& module) {
  for (Function& function : module) {
    for (BasicBlock& block : function) {
      for (Instruction& instruction : make_early_inc_range(block)) {
        auto* copy = dyn_cast<MemCpyInst>(&instruction);
        if (copy == nullptr) continue;
        const auto* length = dyn_cast<ConstantInt>(copy->getLength());
        if (length == nullptr) continue;
        const uint64_t bytes = length->getZExtValue();
        const uint64_t align = std::min(copy->getSourceAlign().valueOrOne().value(),
                                        copy->getDestAlign().valueOrOne().value());
        if (bytes < 2 || bytes > 16 || !isPowerOf2_64(bytes) || align < bytes) continue;
        IRBuilder<> builder(copy);
        // A vector, because the optimizer may split the copy of an integer into parts: a half2.
        Type* type = bytes == 2   ? cast<Type>(builder.getInt16Ty())
                     : bytes == 4 ? FixedVectorType::get(builder.getInt16Ty(), 2)
                                  : FixedVectorType::get(builder.getInt32Ty(),
                                                         static_cast<unsigned>(bytes / 4));
        LoadInst* load =
            builder.CreateAlignedLoad(type, copy->getSource(), Align(bytes), copy->isVolatile());
        builder.CreateAlignedStore(load, copy->getDest(), Align(bytes), copy->isVolatile());
        copy->eraseFromParent();
      }
    }
  }
}

void optimize(Module& module) {
  // Otherwise it would load from memory before a condition is known, as in `if (t == 0 && flag)`,
  // and such a load would race with a store that the program orders.
  for (Function& function : module) {
    if (!function.isDeclaration()) function.addFnAttr(Attribute::SanitizeThread);
  }
  // It would replace the load of a vector by loads of its elements, where a GPU makes one access.
  const char* const options_of_llvm[] = {"emucuda_retarget", "-disable-vector-combine"};
  cl::ParseCommandLineOptions(2, options_of_llvm);
  std::string error;
  const Target* target = TargetRegistry::lookupTarget(module.getTargetTriple(), error);
  std::unique_ptr<TargetMachine> machine(
      target == nullptr ? nullptr
                        : target->createTargetMachine(module.getTargetTriple(), "sm_80", "+ptx83",
                                                      TargetOptions{}, std::nullopt));
  PipelineTuningOptions options;
  options.LoopVectorization = options.SLPVectorization = false;
  PassBuilder builder(machine.get(), options);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  ModulePassManager passes = builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2);
  // Loads of x[i].x and x[i].y become one access if their alignment is known, as for a GPU.
  passes.addPass(createModuleToFunctionPassAdaptor(LoadStoreVectorizerPass()));
  passes.run(module, modules);
}

// ---- shared variables
// ----------------------------------------------------------------------------

// The functions that `kernel` calls, directly or not. An indirect call may reach every function.
std::set<Function*> reachable(Function& kernel) {
  std::set<Function*> found{&kernel};
  std::vector<Function*> open{&kernel};
  while (!open.empty()) {
    Function* function = open.back();
    open.pop_back();
    for (Instruction& instruction : instructions(*function)) {
      auto* call = dyn_cast<CallBase>(&instruction);
      if (call == nullptr) continue;
      if (Function* callee = call->getCalledFunction()) {
        if (found.insert(callee).second) open.push_back(callee);
      } else if (!call->isInlineAsm()) {
        for (Function& other : *function->getParent()) {
          if (other.hasAddressTaken() && found.insert(&other).second) open.push_back(&other);
        }
      }
    }
  }
  return found;
}

struct KernelShared {
  uint64_t static_bytes = 0;
};

// Gives each static __shared__ variable an offset at which no kernel has another one, and replaces
// it by its address. `extern __shared__` begins where the static variables of the kernel end.
std::map<Function*, KernelShared> place_shared(Module& module) {
  std::vector<GlobalVariable*> variables;
  for (GlobalVariable& variable : module.globals()) {
    if (variable.getAddressSpace() == kShared) variables.push_back(&variable);
  }
  std::vector<Constant*> constants(variables.begin(), variables.end());
  convertUsersOfConstantsToInstructions(constants);

  std::map<Function*, KernelShared> kernels;
  std::map<Function*, std::vector<Function*>> users;  // function, kernels that reach it
  for (Function& function : module) {
    if (!is_kernel(function) || function.isDeclaration()) continue;
    kernels[&function];
    for (Function* callee : reachable(function)) users[callee].push_back(&function);
  }
  const DataLayout& layout = module.getDataLayout();
  IRBuilder<> builder(module.getContext());
  const auto is_dynamic = [&](GlobalVariable* variable) {
    return variable->isDeclaration() || layout.getTypeAllocSize(variable->getValueType()) == 0;
  };
  const auto kernels_of = [&](GlobalVariable* variable) {
    std::set<Function*> found;
    for (User* user : variable->users()) {
      if (auto* instruction = dyn_cast<Instruction>(user)) {
        for (Function* kernel : users[instruction->getFunction()]) found.insert(kernel);
      }
    }
    return found;
  };
  std::map<Function*, Align> starts;  // alignment of the kernel's dynamic shared memory
  for (GlobalVariable* variable : variables) {
    if (!is_dynamic(variable)) continue;
    for (Function* kernel : kernels_of(variable)) {
      starts[kernel] = std::max({starts[kernel], variable->getAlign().valueOrOne(), Align(16)});
    }
  }
  for (GlobalVariable* variable : variables) {
    if (is_dynamic(variable)) {
      FunctionCallee start =
          module.getOrInsertFunction("emucuda_dynamic_shared", builder.getInt64Ty());
      std::map<Function*, Value*> addresses;
      for (Use& use : make_early_inc_range(variable->uses())) {
        auto* user = dyn_cast<Instruction>(use.getUser());
        if (user == nullptr) continue;
        Value*& address = addresses[user->getFunction()];
        if (address == nullptr) {
          builder.SetInsertPoint(&*user->getFunction()->getEntryBlock().getFirstInsertionPt());
          builder.SetCurrentDebugLocation(DebugLoc());
          address = builder.CreateIntToPtr(builder.CreateCall(start), variable->getType());
        }
        use.set(address);
      }
    } else {
      const std::set<Function*> mine = kernels_of(variable);
      uint64_t offset = 0;
      for (Function* kernel : mine) offset = std::max(offset, kernels[kernel].static_bytes);
      offset = alignTo(offset, std::max(variable->getAlign().valueOrOne(), Align(4)));
      for (Function* kernel : mine) {
        kernels[kernel].static_bytes = offset + layout.getTypeAllocSize(variable->getValueType());
      }
      variable->replaceAllUsesWith(ConstantExpr::getIntToPtr(
          builder.getInt64(kSharedWindow + kFirstSharedAddress + offset), variable->getType()));
    }
    variable->removeDeadConstantUsers();
    if (variable->use_empty()) variable->eraseFromParent();
  }
  for (const auto& [kernel, start] : starts) {
    kernels[kernel].static_bytes = alignTo(kernels[kernel].static_bytes, start);
  }
  return kernels;
}

// ---- the rewriting
// -------------------------------------------------------------------------------

class Rewriter {
 public:
  Rewriter(Module& module, const std::set<std::string>& exported, const Places& places)
      : module_(module),
        exported_(exported),
        builder_(module.getContext()),
        calls_(module, exported, places) {}

  void run() {
    for (Function& function : module_) {
      if (!function.isDeclaration()) rewrite(function);
    }
  }
  bool failed() const { return calls_.failed(); }
  const Calls& calls() const { return calls_; }

 private:
  void rewrite(Function& function) {
    std::vector<Instruction*> all;
    for (Instruction& instruction : instructions(function)) all.push_back(&instruction);
    for (Instruction* instruction : all) rewrite(*instruction);
  }

  void rewrite(Instruction& instruction) {
    if (auto* load = dyn_cast<LoadInst>(&instruction)) return rewrite_load(*load);
    if (auto* store = dyn_cast<StoreInst>(&instruction)) return rewrite_store(*store);
    if (auto* atomic = dyn_cast<AtomicRMWInst>(&instruction)) return rewrite_atomic(*atomic);
    if (auto* exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
      return rewrite_exchange(*exchange);
    if (auto* fence = dyn_cast<FenceInst>(&instruction)) {
      begin(*fence);
      calls_.call(builder_, "emucuda_fence", builder_.getVoidTy(), {}, *fence);
      fence->eraseFromParent();
      return;
    }
    if (auto* cast = dyn_cast<AddrSpaceCastInst>(&instruction)) {
      if (cast->getSrcAddressSpace() != kShared || cast->getDestAddressSpace() != 0) return;
      begin(*cast);
      return replace(*cast, calls_.generic(builder_, cast->getPointerOperand()));
    }
    switch (instruction.getOpcode()) {
      case Instruction::SDiv:
      case Instruction::UDiv:
      case Instruction::SRem:
      case Instruction::URem:
        return rewrite_division(cast<BinaryOperator>(instruction));
      default:
        break;
    }
    if (auto* call = dyn_cast<CallInst>(&instruction)) rewrite_call(*call);
  }

  void begin(Instruction& instruction) {
    builder_.SetInsertPoint(&instruction);
    builder_.SetCurrentDebugLocation(instruction.getDebugLoc());
  }
  static void replace(Instruction& instruction, Value* value) {
    instruction.replaceAllUsesWith(value);
    instruction.eraseFromParent();
  }

  // Certainly on the thread's own stack.
  static bool is_private(const Value* pointer) {
    const Value* object = getUnderlyingObject(pointer, 32);
    if (isa<AllocaInst>(object)) return true;
    const auto* argument = dyn_cast<Argument>(object);
    return argument != nullptr && argument->hasByValAttr();
  }
  uint64_t bytes_of(Type* type) const { return module_.getDataLayout().getTypeStoreSize(type); }

  // Returns a pointer that is safe to access. This is the same pointer, or a spare place if the
  // pointer leaves its array. In this case the library reports the access.
  Value* within_array(Instruction& at, Value* pointer, Type* type, bool writes) {
    Value* outside = outside_array(at, pointer, builder_.getInt64(bytes_of(type)), writes);
    if (outside == nullptr) return pointer;
    return builder_.CreateSelect(outside, calls_.slot(at, type), pointer);
  }
  // Returns a value that is true at run time if the bytes are not all in the local array that the
  // pointer points into, or nullptr if they always are or the array is not known.
  Value* outside_array(Instruction& at, Value* pointer, Value* bytes, bool writes) {
    auto* array = dyn_cast<AllocaInst>(getUnderlyingObject(pointer, 32));
    const DataLayout& layout = module_.getDataLayout();
    const auto size = array == nullptr ? std::nullopt : array->getAllocationSize(layout);
    if (!size || size->isScalable()) return nullptr;
    const uint64_t all = size->getFixedValue();
    APInt offset(layout.getIndexTypeSizeInBits(pointer->getType()), 0);
    const auto* known = dyn_cast<ConstantInt>(bytes);
    if (known != nullptr &&
        pointer->stripAndAccumulateConstantOffsets(layout, offset, true) == array &&
        offset.isNonNegative() && offset.getZExtValue() + known->getZExtValue() <= all)
      return nullptr;
    begin(at);
    Type* number = builder_.getInt64Ty();
    Value* from = builder_.CreateSub(builder_.CreatePtrToInt(pointer, number),
                                     builder_.CreatePtrToInt(array, number));
    Value* outside = builder_.CreateICmpUGT(from, builder_.getInt64(all));
    Value* room = builder_.CreateSub(builder_.getInt64(all), from);
    outside = builder_.CreateOr(outside, builder_.CreateICmpUGT(bytes, room));
    Instruction* then = SplitBlockAndInsertIfThen(outside, &at, false);
    builder_.SetInsertPoint(then);
    calls_.call(builder_, "emucuda_outside_array", builder_.getVoidTy(),
                {from, bytes, builder_.getInt64(all), builder_.getInt32(writes)}, at);
    begin(at);
    return outside;
  }

  void rewrite_load(LoadInst& load) {
    if (is_private(load.getPointerOperand())) {
      load.setOperand(0, within_array(load, load.getPointerOperand(), load.getType(), false));
      return;
    }
    begin(load);
    replace(load, load_from(load, load.getPointerOperand(), load.getType(), load.getAlign(),
                            load.isAtomic() || load.isVolatile(), load.getOrdering()));
  }

  Value* load_from(Instruction& at, Value* pointer, Type* type, Align align, bool atomic,
                   AtomicOrdering ordering) {
    Value* slot = calls_.slot(at, type);
    std::vector<Value*> arguments{calls_.generic(builder_, pointer), slot,
                                  builder_.getInt32(static_cast<unsigned>(bytes_of(type))),
                                  builder_.getInt32(static_cast<unsigned>(align.value()))};
    if (atomic) arguments.push_back(builder_.getInt32(isAcquireOrStronger(ordering)));
    calls_.call(builder_, atomic ? "emucuda_load_atomic" : "emucuda_load", builder_.getVoidTy(),
                arguments, at);
    return builder_.CreateLoad(type, slot);
  }

  void rewrite_store(StoreInst& store) {
    if (is_private(store.getPointerOperand())) {
      Type* type = store.getValueOperand()->getType();
      store.setOperand(1, within_array(store, store.getPointerOperand(), type, true));
      return;
    }
    begin(store);
    const bool atomic = store.isAtomic() || store.isVolatile();
    Value* value = store.getValueOperand();
    Value* slot = calls_.slot(store, value->getType());
    builder_.CreateStore(value, slot);
    std::vector<Value*> arguments{
        calls_.generic(builder_, store.getPointerOperand()), slot,
        builder_.getInt32(static_cast<unsigned>(bytes_of(value->getType()))),
        builder_.getInt32(static_cast<unsigned>(store.getAlign().value()))};
    if (atomic) arguments.push_back(builder_.getInt32(isReleaseOrStronger(store.getOrdering())));
    calls_.call(builder_, atomic ? "emucuda_store_atomic" : "emucuda_store", builder_.getVoidTy(),
                arguments, store);
    store.eraseFromParent();
  }

  // The operation's name with the type that it works on, for the library to know: "fadd", "f32".
  Value* update(Instruction& at, StringRef operation, Value* pointer, Value* operand,
                Value* compare, AtomicOrdering ordering) {
    Type* type = operand->getType();
    Value* old = calls_.slot(at, type);
    Value* operand_slot = calls_.slot(at, type);
    builder_.CreateStore(operand, operand_slot);
    Value* compare_slot = ConstantPointerNull::get(builder_.getPtrTy());
    if (compare != nullptr) {
      compare_slot = calls_.slot(at, type);
      builder_.CreateStore(compare, compare_slot);
    }
    calls_.call(builder_, ("emucuda_atomic_" + operation).str(), builder_.getVoidTy(),
                {calls_.generic(builder_, pointer), operand_slot, compare_slot, old,
                 builder_.getInt32(static_cast<unsigned>(bytes_of(type))),
                 builder_.getInt32((isAcquireOrStronger(ordering) ? 1 : 0) |
                                   (isReleaseOrStronger(ordering) ? 2 : 0))},
                at);
    return builder_.CreateLoad(type, old);
  }

  void rewrite_atomic(AtomicRMWInst& atomic) {
    begin(atomic);
    replace(atomic, update(atomic, AtomicRMWInst::getOperationName(atomic.getOperation()),
                           atomic.getPointerOperand(), atomic.getValOperand(), nullptr,
                           atomic.getOrdering()));
  }

  void rewrite_exchange(AtomicCmpXchgInst& exchange) {
    begin(exchange);
    Value* expected = exchange.getCompareOperand();
    Value* old = update(exchange, "cas", exchange.getPointerOperand(), exchange.getNewValOperand(),
                        expected, exchange.getMergedOrdering());
    Value* both = builder_.CreateInsertValue(PoisonValue::get(exchange.getType()), old, 0);
    replace(exchange, builder_.CreateInsertValue(both, builder_.CreateICmpEQ(old, expected), 1));
  }

  // A GPU divides by zero without a trap, and so must the host. The result is all ones.
  void rewrite_division(BinaryOperator& division) {
    Value* divisor = division.getOperand(1);
    if (isa<Constant>(divisor) || divisor->getType()->isVectorTy()) return;
    begin(division);
    Type* type = divisor->getType();
    const auto opcode = division.getOpcode();
    const bool is_signed = opcode == Instruction::SDiv || opcode == Instruction::SRem;
    const bool remainder = opcode == Instruction::SRem || opcode == Instruction::URem;
    Value* zero = builder_.CreateICmpEQ(divisor, ConstantInt::get(type, 0));
    Instruction* then = SplitBlockAndInsertIfThen(zero, &division, false);
    builder_.SetInsertPoint(then);
    calls_.call(builder_, "emucuda_division_by_zero", builder_.getVoidTy(), {}, division);
    begin(division);
    Value* minus_one = ConstantInt::getSigned(type, -1);
    Value* special = zero;  // the divisor is 0, or the quotient may overflow
    if (is_signed) special = builder_.CreateOr(zero, builder_.CreateICmpEQ(divisor, minus_one));
    Value* safe = builder_.CreateSelect(special, ConstantInt::get(type, 1), divisor);
    Value* result = builder_.CreateBinOp(opcode, division.getOperand(0), safe);
    if (is_signed && !remainder) {
      result = builder_.CreateSelect(special, builder_.CreateNeg(division.getOperand(0)), result);
    }
    result = builder_.CreateSelect(zero, minus_one, result);
    replace(division, result);
  }

  void rewrite_call(CallInst& call) {
    if (call.isInlineAsm()) {
      begin(call);
      if (Value* result = translate_ptx(calls_, builder_, call)) {
        if (!call.getType()->isVoidTy()) call.replaceAllUsesWith(result);
        call.eraseFromParent();
      }
      return;
    }
    Function* callee = call.getCalledFunction();
    if (callee == nullptr || !callee->isDeclaration()) return;
    begin(call);
    if (auto* memory = dyn_cast<MemIntrinsic>(&call)) return rewrite_memory(*memory);
    const StringRef name = callee->getName();
    if (callee->getIntrinsicID() == Intrinsic::trap ||
        callee->getIntrinsicID() == Intrinsic::debugtrap) {
      return to_library(call, "emucuda_trap");
    }
    if (name.starts_with("llvm.nvvm.ldg.global.")) {
      const auto align = cast<ConstantInt>(call.getArgOperand(1))->getAlignValue();
      return replace(call, load_from(call, call.getArgOperand(0), call.getType(), align, false,
                                     AtomicOrdering::NotAtomic));
    }
    if (name.starts_with("llvm.nvvm.atomic.load.inc.32") ||
        name.starts_with("llvm.nvvm.atomic.load.dec.32")) {
      return replace(call, update(call, name.contains(".inc.") ? "uinc_wrap" : "udec_wrap",
                                  call.getArgOperand(0), call.getArgOperand(1), nullptr,
                                  AtomicOrdering::Monotonic));
    }
    if (name.starts_with("llvm.nvvm.")) {
      std::string base = Intrinsic::getBaseName(callee->getIntrinsicID()).str();
      base = base.substr(std::string("llvm.nvvm.").size());
      std::replace(base.begin(), base.end(), '.', '_');
      return to_library(call, "emucuda_" + base);
    }
    if (callee->isIntrinsic() || name == "emucuda_dynamic_shared") return;
    if (name.starts_with("emucuda_")) return to_library(call, name.str());
    if (exported_.count("emucuda_" + name.str())) return to_library(call, "emucuda_" + name.str());
    if (name.starts_with("__nv_") && exported_.count(name.str())) return;
    calls_.unsupported(demangle(name) + ", which this file does not define,", call);
  }

  void to_library(CallInst& call, const std::string& name) {
    std::vector<Value*> arguments(call.arg_begin(), call.arg_end());
    Value* result = calls_.call(builder_, name, call.getType(), arguments, call);
    if (!call.getType()->isVoidTy()) call.replaceAllUsesWith(result);
    call.eraseFromParent();
  }

  void rewrite_memory(MemIntrinsic& memory) {
    auto* transfer = dyn_cast<MemTransferInst>(&memory);
    if (is_private(memory.getDest()) &&
        (transfer == nullptr || is_private(transfer->getSource()))) {
      Value* none = ConstantInt::get(memory.getLength()->getType(), 0);
      const auto check = [&](Value* pointer, bool writes) {
        begin(memory);
        Value* bytes = builder_.CreateZExtOrTrunc(memory.getLength(), builder_.getInt64Ty());
        if (Value* outside = outside_array(memory, pointer, bytes, writes))
          memory.setLength(builder_.CreateSelect(outside, none, memory.getLength()));
      };
      check(memory.getDest(), true);
      if (transfer != nullptr) check(transfer->getSource(), false);
      return;
    }
    const auto align = [&](MaybeAlign a) {
      return builder_.getInt32(static_cast<unsigned>(a.valueOrOne().value()));
    };
    Value* to = calls_.generic(builder_, memory.getDest());
    Value* length = builder_.CreateZExtOrTrunc(memory.getLength(), builder_.getInt64Ty());
    if (transfer != nullptr) {
      calls_.call(builder_, "emucuda_memcpy", builder_.getVoidTy(),
                  {to, calls_.generic(builder_, transfer->getSource()), length,
                   align(memory.getDestAlign()), align(transfer->getSourceAlign())},
                  memory);
    } else {
      auto* set = cast<MemSetInst>(&memory);
      calls_.call(builder_, "emucuda_memset", builder_.getVoidTy(),
                  {to, builder_.CreateZExt(set->getValue(), builder_.getInt32Ty()), length,
                   align(memory.getDestAlign())},
                  memory);
    }
    memory.eraseFromParent();
  }

  Module& module_;
  const std::set<std::string>& exported_;
  IRBuilder<> builder_;
  Calls calls_;
};

// ---- after the rewriting
// -------------------------------------------------------------------------

// void thunk(void** arguments) calls the kernel as cudaLaunchKernel passes its arguments.
Function* make_thunk(Function& kernel) {
  Module& module = *kernel.getParent();
  IRBuilder<> builder(module.getContext());
  auto* thunk =
      Function::Create(FunctionType::get(builder.getVoidTy(), {builder.getPtrTy()}, false),
                       GlobalValue::InternalLinkage, "emucuda_thunk", module);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", thunk));
  std::vector<Value*> arguments;
  for (Argument& argument : kernel.args()) {
    Value* address = builder.CreateLoad(
        builder.getPtrTy(),
        builder.CreateConstGEP1_32(builder.getPtrTy(), thunk->getArg(0), argument.getArgNo()));
    arguments.push_back(argument.hasByValAttr() ? address
                                                : builder.CreateLoad(argument.getType(), address));
  }
  CallInst* call = builder.CreateCall(&kernel, arguments);
  call->setAttributes(kernel.getAttributes());
  builder.CreateRetVoid();
  return thunk;
}

// A copy of the variable with 64 KB after it that belong to no other one, so that an index that is
// out of bounds does not hit the next variable.
GlobalVariable* with_gap(GlobalVariable* variable) {
  LLVMContext& context = variable->getContext();
  auto* gap = ArrayType::get(Type::getInt8Ty(context), 64 * 1024);
  Constant* value =
      ConstantStruct::getAnon({variable->getInitializer(), ConstantAggregateZero::get(gap)});
  auto* wide = new GlobalVariable(*variable->getParent(), value->getType(), variable->isConstant(),
                                  variable->getLinkage(), value, "", variable,
                                  variable->getThreadLocalMode(), variable->getAddressSpace());
  wide->copyAttributesFrom(variable);
  wide->takeName(variable);
  variable->replaceAllUsesWith(wide);
  variable->eraseFromParent();
  return wide;
}

void register_all(Module& module, const std::map<Function*, KernelShared>& kernels,
                  const Facts& facts, const std::vector<Constant*>& inlined, unsigned unit) {
  IRBuilder<> builder(module.getContext());
  auto* start = Function::Create(FunctionType::get(builder.getVoidTy(), false),
                                 GlobalValue::InternalLinkage, "emucuda_register", module);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", start));
  Type* pointer = builder.getPtrTy();
  FunctionCallee add_kernel = module.getOrInsertFunction(
      "emucuda_register_kernel", builder.getVoidTy(), builder.getInt32Ty(), pointer, pointer,
      builder.getInt64Ty(), pointer, pointer, pointer, pointer, builder.getInt32Ty(),
      builder.getInt32Ty());
  FunctionCallee add_variable = module.getOrInsertFunction(
      "emucuda_register_variable", builder.getVoidTy(), builder.getInt32Ty(), pointer, pointer,
      builder.getInt64Ty(), builder.getInt32Ty());
  std::vector<GlobalVariable*> variables;
  for (GlobalVariable& variable : module.globals()) {
    if (variable.isDeclaration() || variable.getName().starts_with("llvm.")) continue;
    if (variable.getAddressSpace() == kShared || variable.hasAppendingLinkage()) continue;
    variables.push_back(&variable);
  }
  for (const auto& [kernel, shared] : kernels) {
    std::string where, parameters, parameter_bytes;
    if (const DISubprogram* place = kernel->getSubprogram()) {
      where = file_of(*place) + ":" + std::to_string(place->getLine());
    }
    for (const Argument& argument : kernel->args()) {
      parameters += argument.getName().str() + ",";
      Type* type = argument.hasByValAttr() ? argument.getParamByValType() : argument.getType();
      parameter_bytes += std::to_string(module.getDataLayout().getTypeStoreSize(type)) + " ";
    }
    builder.CreateCall(
        add_kernel,
        {builder.getInt32(unit), builder.CreateGlobalStringPtr(kernel->getName()),
         make_thunk(*kernel), builder.getInt64(shared.static_bytes),
         builder.CreateGlobalStringPtr(where), builder.CreateGlobalStringPtr(parameters),
         builder.CreateGlobalStringPtr(parameter_bytes),
         builder.CreateGlobalStringPtr(
             kernel->getFnAttribute("emucuda-cluster").getValueAsString()),
         builder.getInt32(static_cast<unsigned>(facts.narrowest)),
         builder.getInt32(facts.async_proxy)});
    kernel->setLinkage(GlobalValue::InternalLinkage);
    kernel->setComdat(nullptr);
  }
  for (GlobalVariable* variable : variables) {
    variable->setComdat(nullptr);
    const uint64_t bytes = module.getDataLayout().getTypeAllocSize(variable->getValueType());
    const bool constant = variable->isConstant() || variable->getAddressSpace() == 4;
    if (constant && !variable->isConstant()) variable->setConstant(false);
    if (!variable->hasGlobalUnnamedAddr()) variable = with_gap(variable);  // else a string
    builder.CreateCall(add_variable,
                       {builder.getInt32(unit), builder.CreateGlobalStringPtr(variable->getName()),
                        builder.CreatePointerBitCastOrAddrSpaceCast(variable, pointer),
                        builder.getInt64(bytes), builder.getInt32(constant)});
    variable->setLinkage(GlobalValue::InternalLinkage);
    variable->setExternallyInitialized(false);
    variable->setAlignment(std::max(variable->getAlign().valueOrOne(), Align(16)));
  }
  FunctionCallee add_inlined =
      module.getOrInsertFunction("emucuda_register_inlined", builder.getVoidTy(), pointer);
  for (Constant* file : inlined) builder.CreateCall(add_inlined, {file});
  builder.CreateRetVoid();
  appendToGlobalCtors(module, start, 0);
}

// Fibers are unwound by an exception, which passes through all of this code.
void let_exceptions_pass(Module& module) {
  AttributeMask wrong;
  for (const Attribute::AttrKind kind :
       {Attribute::NoUnwind, Attribute::WillReturn, Attribute::Memory, Attribute::NoSync,
        Attribute::NoFree, Attribute::MustProgress, Attribute::Speculatable, Attribute::NoReturn,
        Attribute::NoCallback, Attribute::Convergent}) {
    wrong.addAttribute(kind);
  }
  wrong.addAttribute("target-cpu");
  wrong.addAttribute("target-features");
  for (Function& function : module) {
    if (!function.isIntrinsic()) {
      function.removeFnAttrs(wrong);
      function.setUWTableKind(UWTableKind::Async);
      function.addFnAttr("probe-stack", "inline-asm");  // large arrays reach the stack's guard
      function.setCallingConv(CallingConv::C);
    }
    for (Instruction& instruction : instructions(function)) {
      if (auto* call = dyn_cast<CallBase>(&instruction)) {
        call->removeFnAttrs(wrong);
        if (Function* callee = call->getCalledFunction()) {
          if (!callee->isIntrinsic()) call->setCallingConv(CallingConv::C);
        } else {
          call->setCallingConv(CallingConv::C);
        }
      }
    }
  }
}

void retarget(Module& module) {
  const std::string triple = sys::getDefaultTargetTriple();
  std::string error;
  const Target* target = TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) throw std::runtime_error(error);
  const std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(triple, "", "", TargetOptions{}, Reloc::PIC_));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  if (NamedMDNode* annotations = module.getNamedMetadata("nvvm.annotations"))
    annotations->eraseFromParent();
  if (NamedMDNode* flags = module.getModuleFlagsMetadata()) flags->eraseFromParent();
  module.setPICLevel(PICLevel::BigPIC);
}

std::set<std::string> exported_names(const std::string& library) {
  auto file = object::ObjectFile::createObjectFile(library);
  if (!file) throw std::runtime_error(library + ": " + toString(file.takeError()));
  std::set<std::string> names;
  const auto* elf = dyn_cast<object::ELFObjectFileBase>(file->getBinary());
  if (elf == nullptr) throw std::runtime_error(library + ": not an ELF file");
  for (const object::ELFSymbolRef& symbol : elf->getDynamicSymbolIterators()) {
    if (Expected<StringRef> name = symbol.getName()) names.insert(name->str());
  }
  return names;
}

int run(const std::string& in, const std::string& out, const std::string& library,
        const std::vector<std::string>& system, unsigned unit) {
  InitializeAllTargets();
  InitializeAllTargetInfos();
  InitializeAllTargetMCs();
  LLVMContext context;
  SMDiagnostic diagnostic;
  const std::unique_ptr<Module> module = parseIRFile(in, diagnostic, context);
  if (module == nullptr) throw std::runtime_error(in + ": " + diagnostic.getMessage().str());

  const std::set<std::string> exported = exported_names(library);
  const Places places(system);
  mark_kernels(*module);
  join_struct_copies(*module);
  Calls calls(*module, exported, places);
  if (!keep_accumulators(*module, calls)) return 2;
  optimize(*module);
  const std::map<Function*, KernelShared> kernels = place_shared(*module);
  Rewriter rewriter(*module, exported, places);
  rewriter.run();
  if (rewriter.failed()) return 2;
  Facts facts = rewriter.calls().facts();
  facts.async_proxy = facts.async_proxy || calls.facts().async_proxy;
  register_all(*module, kernels, facts, rewriter.calls().inlined(), unit);
  let_exceptions_pass(*module);
  StripDebugInfo(*module);
  retarget(*module);
  if (verifyModule(*module, &errs()))
    throw std::runtime_error("the module that was made is broken");

  std::error_code error;
  ToolOutputFile file(out, error, sys::fs::OF_None);
  if (error) throw std::runtime_error(out + ": " + error.message());
  WriteBitcodeToFile(*module, file.os());
  file.keep();
  return 0;
}

}  // namespace

}  // namespace emucuda

int main(int argc, char** argv) {
  std::vector<std::string> files, system;
  std::string library;
  unsigned unit = 0;  // the file's number in the command, because files may have the same names
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--library" && i + 1 < argc) {
      library = argv[++i];
    } else if (argument == "--system" && i + 1 < argc) {
      system.emplace_back(argv[++i]);
    } else if (argument == "--unit" && i + 1 < argc) {
      unit = static_cast<unsigned>(std::atoi(argv[++i]));
    } else {
      files.push_back(argument);
    }
  }
  if (files.size() != 2 || library.empty()) {
    errs() << "usage: emucuda_retarget IN.bc OUT.bc --library LIBRARY [--system DIRECTORY]... "
              "[--unit NUMBER]\n";
    return 2;
  }
  try {
    return emucuda::run(files[0], files[1], library, system, unit);
  } catch (const std::exception& error) {
    errs() << "error: " << error.what() << "\n";
    return 2;
  }
}
