#include "common/cuda/wgmma.hpp"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <map>
#include <string>
#include <vector>

using namespace llvm;

namespace emucuda {

namespace {

// wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {d…}, a, b, p, 1, 1[, transposed…];
struct Product {
  int n = 0;
  StringRef type;
  std::vector<StringRef> d, a;  // registers, or in `a` one descriptor
  StringRef b, scale;
  bool mn_major_a = false, mn_major_b = false;
};

std::vector<StringRef> parts(StringRef text) {
  std::vector<StringRef> all;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '{') ++depth;
    if (i < text.size() && text[i] == '}') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    all.push_back(text.slice(begin, i).trim());
    begin = i + 1;
  }
  return all;
}

std::vector<StringRef> registers(StringRef list) {
  if (!list.consume_front("{")) return {list};
  list.consume_back("}");
  return parts(list);
}

bool parse(StringRef statement, Product& product) {
  const auto [head, tail] = statement.trim().split(' ');
  const size_t shape = head.find(".m64n");
  if (shape == StringRef::npos) return false;
  StringRef rest = head.substr(shape + 5);
  if (rest.consumeInteger(10, product.n) || !rest.consume_front("k")) return false;
  unsigned k = 0;
  if (rest.consumeInteger(10, k)) return false;
  product.type = rest;
  const std::vector<StringRef> operands = parts(tail);
  if (operands.size() < 6 || operands[4] != "1" || operands[5] != "1") return false;
  product.d = registers(operands[0]);
  product.a = registers(operands[1]);
  product.b = operands[2];
  product.scale = operands[3];
  // In the form with A in registers only B can be transposed.
  if (operands.size() == 8) {
    product.mn_major_a = operands[6] == "1";
    product.mn_major_b = operands[7] == "1";
  } else if (operands.size() == 7) {
    product.mn_major_b = operands[6] == "1";
  }
  return product.d.size() == static_cast<size_t>(product.n / 2);
}

class Keeper {
 public:
  Keeper(Calls& calls, CallInst& call) : calls_(calls), call_(call), builder_(&call) {}

  bool run() {
    const auto* text = cast<InlineAsm>(call_.getCalledOperand());
    std::string source = text->getAsmString();
    for (char& c : source) c = c == '\n' || c == '\t' ? ' ' : c;
    Product product;
    std::map<std::string, StringRef> predicates;  // name, the number that it says is not 0
    bool found = false;
    for (StringRef statement : llvm::split(source, ';')) {
      statement = statement.trim(" {}").trim();
      const size_t at = statement.find("wgmma.mma_async");
      if (at != StringRef::npos) {
        statement = StringRef(source).substr(static_cast<size_t>(statement.data() - source.data()));
        statement = statement.take_until([](char c) { return c == ';'; });
        if (found || !parse(statement, product)) return fail(statement);
        found = true;
      } else if (statement.starts_with("setp.ne.b32")) {
        const std::vector<StringRef> operands = parts(statement.drop_front(11));
        if (operands.size() != 3 || operands[2] != "0") return fail(statement);
        predicates[operands[0].str()] = operands[1];
      }
    }
    static const std::map<std::string, int> kTypes = {
        {".f32.bf16.bf16", 0}, {".f32.f16.f16", 1}, {".f32.e4m3.e4m3", 2}};
    const auto type = kTypes.find(product.type.str());
    if (!found || type == kTypes.end()) return fail(source);
    bind(*text);
    const auto scale = predicates.find(product.scale.str());
    Value* accumulate = scale != predicates.end() ? value(scale->second) : value(product.scale);
    Value* b = value(product.b);
    std::vector<Value*> d, a;
    for (const StringRef name : product.d) d.push_back(variable(name));
    const bool a_in_registers = product.a.size() == 4;
    if (a_in_registers) {
      for (const StringRef name : product.a) a.push_back(variable(name));
    }
    Value* descriptor = a_in_registers ? builder_.getInt64(0) : value(product.a[0]);
    if (accumulate == nullptr || b == nullptr || descriptor == nullptr ||
        is_contained(d, nullptr) || is_contained(a, nullptr)) {
      return fail("wgmma whose registers are no variables");
    }
    Value* none = ConstantPointerNull::get(builder_.getPtrTy());
    const std::vector<Value*> arguments = {
        d[0],
        builder_.getInt32(static_cast<unsigned>(product.n)),
        a_in_registers ? a[0] : none,
        descriptor,
        b,
        builder_.CreateZExtOrTrunc(accumulate, builder_.getInt32Ty()),
        builder_.getInt32(static_cast<unsigned>(type->second | product.mn_major_a << 2 |
                                                product.mn_major_b << 3)),
        builder_.CreateZExt(builder_.CreateAnd(neighbours(d), neighbours(a)),
                            builder_.getInt32Ty())};
    std::vector<Type*> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    FunctionCallee callee = call_.getModule()->getOrInsertFunction(
        "emucuda_wgmma", FunctionType::get(builder_.getVoidTy(), types, false));
    CallInst* product_call = builder_.CreateCall(callee, arguments);
    product_call->setDebugLoc(call_.getDebugLoc());
    product_call->addFnAttr(Attribute::Convergent);
    for (Instruction* instruction : dead_) instruction->eraseFromParent();
    call_.eraseFromParent();
    return true;
  }

 private:
  bool fail(StringRef what) {
    calls_.unsupported("asm: " + what.trim().str(), call_);
    return false;
  }

  void bind(const InlineAsm& text) {
    unsigned input = 0;
    for (const InlineAsm::ConstraintInfo& info : text.ParseConstraints()) {
      if (info.Type == InlineAsm::isClobber) continue;
      const bool output = info.Type == InlineAsm::isOutput && !info.isIndirect;
      if (output) ++results_;
      operands_.push_back(output ? nullptr : call_.getArgOperand(input++));
    }
    for (User* user : call_.users()) {
      if (auto* part = dyn_cast<ExtractValueInst>(user)) {
        for (User* use : part->users()) note_store(part->getIndices()[0], use);
        dead_.push_back(part);
      } else {
        note_store(0, user);
      }
    }
  }
  void note_store(unsigned result, User* user) {
    auto* store = dyn_cast<StoreInst>(user);
    if (store == nullptr) return;
    stored_to_[result] = store->getPointerOperand();
    dead_.insert(dead_.begin(), store);  // before the value that it stores
  }

  static bool is_operand(StringRef text, unsigned& index) {
    return text.consume_front("$") && !text.getAsInteger(10, index);
  }
  Value* value(StringRef text) {
    unsigned index = 0;
    int64_t number = 0;
    if (is_operand(text, index)) return index < operands_.size() ? operands_[index] : nullptr;
    return text.getAsInteger(0, number) ? nullptr
                                        : builder_.getInt64(static_cast<uint64_t>(number));
  }
  // Returns the address of the register's variable, where the result is stored or from which the
  // input is loaded.
  Value* variable(StringRef text) {
    unsigned index = 0;
    if (!is_operand(text, index) || index >= operands_.size()) return nullptr;
    if (index < results_) {
      const auto found = stored_to_.find(index);
      return found == stored_to_.end() ? nullptr : found->second;
    }
    auto* load = dyn_cast<LoadInst>(operands_[index]);
    return load == nullptr ? nullptr : load->getPointerOperand();
  }
  // True if the variables follow each other in memory. The optimizer knows it for an array.
  Value* neighbours(const std::vector<Value*>& variables) {
    Value* all = builder_.getTrue();
    for (size_t i = 1; i < variables.size(); ++i) {
      Value* expected = builder_.CreateConstGEP1_64(builder_.getInt32Ty(), variables[0], i);
      all = builder_.CreateAnd(all, builder_.CreateICmpEQ(variables[i], expected));
    }
    return all;
  }

  Calls& calls_;
  CallInst& call_;
  IRBuilder<> builder_;
  std::vector<Value*> operands_;  // by number, nullptr for a result
  unsigned results_ = 0;
  std::map<unsigned, Value*> stored_to_;
  std::vector<Instruction*> dead_;
};

}  // namespace

bool keep_accumulators(Module& module, Calls& calls) {
  std::vector<CallInst*> products, others;
  std::vector<Instruction*> lifetimes;
  for (Function& function : module) {
    for (Instruction& instruction : instructions(function)) {
      if (auto* intrinsic = dyn_cast<IntrinsicInst>(&instruction)) {
        if (intrinsic->isLifetimeStartOrEnd()) lifetimes.push_back(intrinsic);
        continue;
      }
      auto* call = dyn_cast<CallInst>(&instruction);
      if (call == nullptr || !call->isInlineAsm()) continue;
      const StringRef text = cast<InlineAsm>(call->getCalledOperand())->getAsmString();
      if (text.contains("wgmma.mma_async")) {
        products.push_back(call);
      } else if (text.contains("wgmma.")) {
        others.push_back(call);
      }
    }
  }
  if (products.empty()) return true;
  // A variable's memory must not have another use while a wgmma is in flight.
  for (Instruction* lifetime : lifetimes) lifetime->eraseFromParent();
  // A wait changes the variables, whether it says "memory" or not.
  for (CallInst* other : others) {
    auto* text = cast<InlineAsm>(other->getCalledOperand());
    const std::string constraints = text->getConstraintString();
    if (StringRef(constraints).contains("~{memory}")) continue;
    other->setCalledOperand(
        InlineAsm::get(text->getFunctionType(), text->getAsmString(),
                       constraints + (constraints.empty() ? "" : ",") + "~{memory}", true));
    other->removeFnAttr(Attribute::Memory);
  }
  bool done = true;
  for (CallInst* product : products) done = Keeper(calls, *product).run() && done;
  return done;
}

}  // namespace emucuda
