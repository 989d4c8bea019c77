#include "common/cuda/ptx.hpp"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>

#include <array>
#include <map>
#include <string>
#include <vector>

using namespace llvm;

namespace emucuda {

namespace {

// One instruction: "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4]".
struct Statement {
  std::vector<std::string> name;  // between the dots
  std::vector<std::string>
      operands;  // "$0", "{$0,$1}", "[$4]", "16", "%laneid", a declared register
  bool has(StringRef part) const { return is_contained(name, part); }
};

std::string stripped(StringRef text) { return text.trim().str(); }

// Splits at `separator`, but not within brackets.
std::vector<std::string> split_list(StringRef text, char separator) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == separator && depth == 0) {
      parts.push_back(stripped(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!stripped(part).empty()) parts.push_back(stripped(part));
  return parts;
}

class Translator {
 public:
  Translator(Calls& calls, IRBuilder<>& builder, CallInst& call)
      : calls_(calls), builder_(builder), call_(call) {}

  Value* run() {
    const auto* text = cast<InlineAsm>(call_.getCalledOperand());
    bind(*text);
    std::string source;
    bool comment = false;
    for (size_t i = 0; i < text->getAsmString().size(); ++i) {
      const char c = text->getAsmString()[i];
      if (c == '/' && StringRef(text->getAsmString()).substr(i).starts_with("//")) comment = true;
      if (c == '\n') comment = false;
      if (!comment) source += c == '\n' || c == '\t' ? ' ' : c;
    }
    const StringRef unique = "${:uid}";  // clang's %=: labels are unique here anyway
    for (size_t at = source.find(unique.str()); at != std::string::npos;
         at = source.find(unique.str()))
      source.erase(at, unique.size());
    // A block of its own scope: its braces stand alone, those of a list follow an instruction.
    StringRef rest = StringRef(source).trim();
    if (rest.starts_with("{")) rest = rest.drop_front().trim();
    if (rest.ends_with("}") && rest.count('{') < rest.count('}')) rest = rest.drop_back().trim();
    const std::vector<std::string> statements = split_list(rest, ';');
    branches_ = any_of(statements, [](const std::string& statement) {
      StringRef body = statement;
      return !take_label(body).empty() || body.starts_with("@") || body.starts_with("bra");
    });
    if (branches_) open_blocks();
    for (const std::string& statement : statements) {
      StringRef body = statement;
      for (StringRef label = take_label(body); !label.empty(); label = take_label(body)) {
        BasicBlock* block = block_of(label);
        builder_.CreateBr(block);
        builder_.SetInsertPoint(block);
      }
      if (!body.empty() && !translate(body)) {
        calls_.unsupported("asm: " + body.str(), call_);
        return nullptr;
      }
    }
    if (branches_) {
      builder_.CreateBr(after_);
      builder_.SetInsertPoint(&call_);
    }
    return result();
  }

 private:
  // Operands are numbered: results first, then inputs; an input with a digit is that result before.
  void bind(const InlineAsm& text) {
    unsigned input = 0;
    for (const InlineAsm::ConstraintInfo& info : text.ParseConstraints()) {
      if (info.Type == InlineAsm::isClobber) continue;
      if (info.Type == InlineAsm::isOutput && !info.isIndirect) {
        values_.push_back(nullptr);
        ++results_;
        continue;
      }
      Value* value = call_.getArgOperand(input++);
      const std::string& code = info.Codes.empty() ? std::string() : info.Codes[0];
      if (!code.empty() && isDigit(code[0])) values_[std::stoul(code)] = value;
      values_.push_back(value);
    }
  }

  // "LOOP: ": the name, which it takes off.
  static StringRef take_label(StringRef& text) {
    const size_t end = text.find_first_of(" .:;{[,");
    if (end == StringRef::npos || end == 0 || text[end] != ':') return "";
    if (text.substr(end).starts_with("::")) return "";
    const StringRef label = text.take_front(end);
    text = text.drop_front(end + 1).trim();
    return label;
  }

  // With branches, registers are memory: a statement may be executed again.
  void open_blocks() {
    BasicBlock* before = call_.getParent();
    after_ = before->splitBasicBlock(&call_);
    before->getTerminator()->eraseFromParent();
    builder_.SetInsertPoint(before);
    builder_.SetCurrentDebugLocation(call_.getDebugLoc());
    for (unsigned i = 0; i < results_; ++i) {
      Value* first = values_[i] != nullptr ? values_[i] : builder_.getInt64(0);
      builder_.CreateStore(as(first, builder_.getInt64Ty()), slot_of("$" + std::to_string(i)));
    }
  }
  BasicBlock* block_of(StringRef label) {
    BasicBlock*& block = labels_[label.str()];
    if (block == nullptr)
      block = BasicBlock::Create(call_.getContext(), "", call_.getFunction(), after_);
    return block;
  }
  BasicBlock* new_block() {
    return BasicBlock::Create(call_.getContext(), "", call_.getFunction(), after_);
  }
  Value* slot_of(const std::string& name) {
    Value*& slot = slots_[name];
    if (slot == nullptr) slot = calls_.slot(call_, builder_.getInt64Ty());
    return slot;
  }

  Value* result() {
    if (branches_) {
      for (unsigned i = 0; i < results_; ++i) {
        values_[i] = builder_.CreateLoad(builder_.getInt64Ty(), slot_of("$" + std::to_string(i)));
      }
    }
    Type* type = call_.getType();
    if (results_ == 0) return builder_.getInt32(0);
    if (results_ == 1) return as(or_poison(values_[0], type), type);
    Value* all = PoisonValue::get(type);
    for (unsigned i = 0; i < results_; ++i) {
      Type* part = type->getStructElementType(i);
      all = builder_.CreateInsertValue(all, as(or_poison(values_[i], part), part), i);
    }
    return all;
  }
  static Value* or_poison(Value* value, Type* type) {
    return value != nullptr ? value : PoisonValue::get(type);
  }

  // The same bits as another type; integers are extended with zeros or cut off.
  Value* as(Value* value, Type* type) {
    if (value->getType() == type) return value;
    Type* from = value->getType();
    if (from->isPointerTy()) value = builder_.CreatePtrToInt(value, builder_.getInt64Ty());
    if (from->isFloatingPointTy())
      value = builder_.CreateBitCast(value, builder_.getIntNTy(from->getPrimitiveSizeInBits()));
    if (type->isPointerTy()) {
      return builder_.CreateIntToPtr(builder_.CreateZExtOrTrunc(value, builder_.getInt64Ty()),
                                     type);
    }
    if (type->isFloatingPointTy()) {
      return builder_.CreateBitCast(
          builder_.CreateZExtOrTrunc(value, builder_.getIntNTy(type->getPrimitiveSizeInBits())),
          type);
    }
    return builder_.CreateZExtOrTrunc(value, type);
  }

  static bool is_operand(StringRef text, unsigned& index) {
    return text.consume_front("$") && !text.getAsInteger(10, index);
  }

  Value* read(StringRef text) {
    unsigned index = 0;
    if (branches_ && slots_.count(text.str()) != 0)
      return builder_.CreateLoad(builder_.getInt64Ty(), slots_[text.str()]);
    if (is_operand(text, index)) return index < values_.size() ? values_[index] : nullptr;
    int64_t number = 0;
    if (!text.getAsInteger(0, number)) return builder_.getInt64(static_cast<uint64_t>(number));
    if (text.consume_front("0f") || text.consume_front("0F")) {
      uint32_t bits = 0;
      return text.getAsInteger(16, bits) ? nullptr : builder_.getInt32(bits);
    }
    if (text.starts_with("%")) {
      std::string name = "emucuda_read_ptx_sreg_" + text.drop_front().str();
      std::replace(name.begin(), name.end(), '.', '_');
      return calls_.call(builder_, name, builder_.getInt32Ty(), {}, call_);
    }
    const auto found = registers_.find(text.str());
    return found == registers_.end() ? nullptr : found->second;
  }

  bool write(StringRef text, Value* value) {
    unsigned index = 0;
    const bool operand = is_operand(text, index);
    if (text == "_") return true;  // PTX: the result is not used
    if (branches_) {
      if (operand && index >= results_) return false;
      builder_.CreateStore(as(value, builder_.getInt64Ty()),
                           slot_of((operand ? "$" : "") + text.str()));
      return true;
    }
    if (operand) {
      if (index >= results_) return false;
      values_[index] = value;
    } else {
      registers_[text.str()] = value;
    }
    return true;
  }

  static std::vector<std::string> list(StringRef text) {
    if (!text.consume_front("{")) return {text.str()};
    text.consume_back("}");
    return split_list(text, ',');
  }

  // "[$1]", "[$1 + 16]".
  Value* address(StringRef text) {
    text.consume_front("[");
    text.consume_back("]");
    const auto [base, offset] = text.split('+');
    Value* value = read(base.trim());
    if (value == nullptr) return nullptr;
    value = as(value, builder_.getInt64Ty());
    int64_t bytes = 0;
    if (!offset.empty()) {
      if (offset.trim().getAsInteger(0, bytes)) return nullptr;
      value = builder_.CreateAdd(value, builder_.getInt64(static_cast<uint64_t>(bytes)));
    }
    return value;
  }
  // The pointer for an address in the state space that the instruction names.
  Value* pointer(const Statement& statement, StringRef text) {
    Value* value = address(text);
    if (value == nullptr) return nullptr;
    const bool shared = statement.has("shared") || statement.has("shared::cta");
    return shared ? calls_.shared(builder_, value)
                  : builder_.CreateIntToPtr(value, builder_.getPtrTy());
  }

  static unsigned bits_of(const Statement& statement) {
    const StringRef type = statement.name.back();
    unsigned bits = 0;
    return type == "pred" || type.drop_front().getAsInteger(10, bits) ? 0 : bits;
  }

  void call(const std::string& name, std::vector<Value*> arguments) {
    calls_.call(builder_, name, builder_.getVoidTy(), std::move(arguments), call_);
  }
  Value* i32(uint64_t value) { return builder_.getInt32(static_cast<unsigned>(value)); }

  // Memory with the registers of a list, for the library to read.
  Value* packed(const std::vector<std::string>& names, Type* type) {
    Value* memory = calls_.slot(call_, ArrayType::get(type, names.size()));
    for (size_t i = 0; i < names.size(); ++i) {
      Value* value = read(names[i]);
      if (value == nullptr) return nullptr;
      builder_.CreateStore(as(value, type), builder_.CreateConstGEP1_64(type, memory, i));
    }
    return memory;
  }
  bool unpack(const std::vector<std::string>& names, Value* memory, Type* type) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!write(names[i], builder_.CreateLoad(type, builder_.CreateConstGEP1_64(type, memory, i))))
        return false;
    }
    return true;
  }

  bool translate(StringRef rest) {
    rest = rest.trim();
    if (rest.consume_front("@")) {
      const bool negated = rest.consume_front("!");
      const auto [guard, body] = rest.split(' ');
      Value* value = read(guard);
      if (value == nullptr) return false;
      value = as(value, builder_.getInt1Ty());
      if (negated) value = builder_.CreateNot(value);
      BasicBlock *then = new_block(), *next = new_block();
      builder_.CreateCondBr(value, then, next);
      builder_.SetInsertPoint(then);
      if (!translate(body)) return false;
      builder_.CreateBr(next);
      builder_.SetInsertPoint(next);
      return true;
    }
    if (rest.starts_with(".reg") || rest.starts_with("griddepcontrol") ||
        rest.starts_with("prefetch"))
      return true;
    const auto [head, tail] = rest.split(' ');
    if (head == "bra" || head == "bra.uni") {
      builder_.CreateBr(block_of(tail.trim()));
      builder_.SetInsertPoint(new_block());  // not reached
      return true;
    }
    Statement statement;
    for (const StringRef part : llvm::split(head, '.')) statement.name.push_back(part.str());
    statement.operands = split_list(tail, ',');
    const std::string& name = statement.name[0];
    if (name == "mov") return move(statement);
    if (name == "cvta") return convert_address(statement);
    if (name == "cvt") return convert(statement);
    if (name == "cp") return statement.has("bulk") ? bulk_copy(statement) : copy(statement);
    if (name == "mbarrier") return mbarrier(statement);
    if (name == "setp") return compare(statement);
    if (name == "selp") return select(statement);
    if (name == "elect") return elect(statement);
    if (name == "wgmma") return warpgroup(statement);
    if (name == "stmatrix") return store_matrix(statement);
    if (name == "setmaxnreg") {
      Value* registers = statement.operands.empty() ? nullptr : read(statement.operands[0]);
      if (registers == nullptr) return false;
      return call("emucuda_setmaxnreg",
                  {i32(statement.has("inc")), as(registers, builder_.getInt32Ty())}),
             true;
    }
    if (name == "ldmatrix") return matrix(statement);
    if (name == "mma") return multiply(statement);
    if (name == "ld" || name == "st") return access(statement);
    if (name == "bar" || name == "barrier") return barrier(statement);
    if (name == "membar" || name == "fence") return fence(statement);
    return arithmetic(statement);
  }

  bool move(const Statement& statement) {
    if (statement.operands.size() != 2) return false;
    const std::vector<std::string> to = list(statement.operands[0]),
                                   from = list(statement.operands[1]);
    const unsigned bits = bits_of(statement);
    if (bits == 0) return false;
    if (from.size() > 1) {  // the first is in the low bits
      Value* sum = nullptr;
      Type* whole = builder_.getIntNTy(bits);
      for (size_t i = from.size(); i-- > 0;) {
        Value* part = read(from[i]);
        if (part == nullptr) return false;
        part = as(as(part, builder_.getIntNTy(bits / static_cast<unsigned>(from.size()))), whole);
        sum = sum == nullptr ? part
                             : builder_.CreateOr(builder_.CreateShl(sum, bits / from.size()), part);
      }
      return write(to[0], sum);
    }
    Value* value = read(from[0]);
    if (value == nullptr) return false;
    if (to.size() == 1) return write(to[0], value);
    value = as(value, builder_.getIntNTy(bits));
    for (size_t i = 0; i < to.size(); ++i) {
      Value* part = builder_.CreateLShr(value, i * bits / to.size());
      if (!write(to[i], as(part, builder_.getIntNTy(bits / static_cast<unsigned>(to.size())))))
        return false;
    }
    return true;
  }

  bool convert_address(
      const Statement& statement) {  // cvta.to.shared.u64, cvta.shared.u64, …global…
    if (statement.operands.size() != 2) return false;
    Value* value = read(statement.operands[1]);
    if (value == nullptr) return false;
    value = as(value, builder_.getInt64Ty());
    if (statement.has("shared")) {
      value = statement.has("to")
                  ? builder_.CreateAnd(value, 0xffffffff)
                  : builder_.CreatePtrToInt(calls_.shared(builder_, value), builder_.getInt64Ty());
    }
    return write(statement.operands[0], value);
  }

  bool convert(const Statement& statement) {
    const size_t n = statement.name.size();
    if (statement.operands.size() < 2 || n < 3) return false;
    const std::string &to = statement.name[n - 2], &from = statement.name[n - 1];
    Value* value = read(statement.operands[1]);
    if (value == nullptr) return false;
    const auto integer = [](StringRef type) {
      return type[0] == 'u' || type[0] == 's' || type[0] == 'b';
    };
    if ((to == "f16x2" || to == "bf16x2") && from == "f32" && statement.operands.size() == 3) {
      Value* low = read(statement.operands[2]);
      if (low == nullptr) return false;
      Type* f32 = builder_.getFloatTy();
      return write(statement.operands[0],
                   calls_.call(builder_, "emucuda_pack_" + to, builder_.getInt32Ty(),
                               {as(value, f32), as(low, f32)}, call_));
    }
    if (to == "f16" && from == "f32") {
      return write(
          statement.operands[0],
          as(builder_.CreateFPTrunc(as(value, builder_.getFloatTy()), builder_.getHalfTy()),
             builder_.getInt16Ty()));
    }
    if (to == "f32" && from == "f16") {
      return write(statement.operands[0],
                   builder_.CreateFPExt(as(as(value, builder_.getInt16Ty()), builder_.getHalfTy()),
                                        builder_.getFloatTy()));
    }
    unsigned to_bits = 0, from_bits = 0;
    if (!integer(to) || !integer(from) || StringRef(to).drop_front().getAsInteger(10, to_bits) ||
        StringRef(from).drop_front().getAsInteger(10, from_bits)) {
      return false;
    }
    value = as(value, builder_.getIntNTy(from_bits));
    Type* type = builder_.getIntNTy(to_bits);
    return write(statement.operands[0], from[0] == 's' ? builder_.CreateSExtOrTrunc(value, type)
                                                       : builder_.CreateZExtOrTrunc(value, type));
  }

  Value* shared_address(StringRef text) {
    Value* value = address(text);
    return value == nullptr ? nullptr : as(value, builder_.getInt32Ty());
  }
  Value* integer(StringRef text) {
    Value* value = read(text);
    return value == nullptr ? nullptr : as(value, builder_.getInt32Ty());
  }

  // True if the program does nothing but ask again until the wait succeeds: then it may as well
  // wait.
  bool is_waiting_loop() const {
    if (branches_) return true;
    const BasicBlock* block = call_.getParent();
    if (!is_contained(successors(block), block)) return false;
    return all_of(*block, [&](const Instruction& other) {
      return &other == &call_ || !other.mayHaveSideEffects() || isa<DbgInfoIntrinsic>(other);
    });
  }

  bool mbarrier(const Statement& statement) {
    const std::vector<std::string>& operands = statement.operands;
    const std::string& verb = statement.name[1];
    const auto address_at = [&](size_t i) {
      return i < operands.size() ? shared_address(operands[i]) : nullptr;
    };
    const auto number_at = [&](size_t i) {
      return i < operands.size() ? integer(operands[i]) : nullptr;
    };
    if (verb == "init" || verb == "expect_tx") {
      Value *at = address_at(0), *count = number_at(1);
      if (at == nullptr || count == nullptr) return false;
      return call("emucuda_mbarrier_" + verb, {at, count}), true;
    }
    if (verb == "inval") {
      Value* at = address_at(0);
      if (at == nullptr) return false;
      return call("emucuda_mbarrier_inval", {at}), true;
    }
    if (verb == "arrive" && !statement.has("noComplete")) {
      const bool expects = statement.has("expect_tx"), state = operands[0][0] != '[';
      const size_t first = state ? 1 : 0;
      Value* at = address_at(first);
      Value* count = operands.size() > first + 1 ? number_at(first + 1) : i32(1);
      if (at == nullptr || count == nullptr) return false;
      const bool wanted = state && operands[0] != "_";
      Value* phase = wanted ? calls_.call(builder_, "emucuda_mbarrier_phase", builder_.getInt32Ty(),
                                          {at}, call_)
                            : nullptr;
      call(expects ? "emucuda_mbarrier_arrive_expect_tx" : "emucuda_mbarrier_arrive", {at, count});
      return !wanted || write(operands[0], phase);
    }
    if (verb == "try_wait" || verb == "test_wait") {
      Value *at = address_at(1), *phase = number_at(2);  // a state is the phase's parity
      if (at == nullptr || phase == nullptr) return false;
      if (is_waiting_loop()) {
        call("emucuda_mbarrier_wait", {at, phase});
        return write(operands[0], builder_.getTrue());
      }
      Value* done = calls_.call(builder_, "emucuda_mbarrier_try_wait", builder_.getInt32Ty(),
                                {at, phase}, call_);
      return write(operands[0], builder_.CreateICmpNE(done, i32(0)));
    }
    return false;
  }

  // cp.async.bulk…, cp.reduce.async.bulk…
  bool bulk_copy(const Statement& statement) {
    const std::vector<std::string>& operands = statement.operands;
    if (statement.has("multicast::cluster") || statement.has("prefetch")) return false;
    if (statement.has("commit_group")) return call("emucuda_bulk_commit_group", {}), true;
    if (statement.has("wait_group")) {
      Value* pending = operands.empty() ? nullptr : integer(operands[0]);
      if (pending == nullptr) return false;
      return call("emucuda_bulk_wait_group", {pending, i32(statement.has("read"))}), true;
    }
    if (statement.has("tensor")) {
      const bool loads = statement.name.size() > 5 && statement.name[5].find("shared") == 0;
      if (operands.size() < 2 || statement.name[1] == "reduce" || statement.has("im2col"))
        return false;
      const std::string& tensor = operands[loads ? 1 : 0];  // "[map, {x, y}]"
      const std::vector<std::string> parts =
          split_list(StringRef(tensor).drop_front().drop_back(), ',');
      if (parts.size() != 2) return false;
      Value* map = read(parts[0]);
      const std::vector<std::string> names = list(parts[1]);
      Value* coordinates = packed(names, builder_.getInt32Ty());
      Value* at = shared_address(operands[loads ? 0 : 1]);
      if (map == nullptr || coordinates == nullptr || at == nullptr) return false;
      map = as(map, builder_.getPtrTy());
      if (!loads) return call("emucuda_tma_store", {map, coordinates, i32(names.size()), at}), true;
      Value* barrier = operands.size() > 2 ? shared_address(operands[2]) : nullptr;
      if (barrier == nullptr) return false;
      return call("emucuda_tma_load", {at, map, coordinates, i32(names.size()), barrier}), true;
    }
    if (operands.size() < 3) return false;
    const bool reduces = statement.name[1] == "reduce";
    if (reduces && !(statement.has("add") && statement.has("f32") && statement.has("global")))
      return false;
    Value* bytes = integer(operands[2]);
    if (bytes == nullptr) return false;
    if (operands.size() > 3 && operands[3][0] == '[') {
      Value *to = shared_address(operands[0]), *from = address(operands[1]),
            *barrier = shared_address(operands[3]);
      if (to == nullptr || from == nullptr || barrier == nullptr || statement.name[3] == "global")
        return false;
      return call("emucuda_bulk_load", {to, as(from, builder_.getPtrTy()), bytes, barrier}), true;
    }
    Value *to = address(operands[0]), *from = shared_address(operands[1]);
    if (to == nullptr || from == nullptr) return false;
    call(reduces ? "emucuda_bulk_reduce_add" : "emucuda_bulk_store",
         {as(to, builder_.getPtrTy()), from, bytes});
    return true;
  }

  bool compare(const Statement& statement) {  // setp.ne.b32 p, a, b
    if (statement.operands.size() != 3 || statement.name.size() < 3) return false;
    const std::string &how = statement.name[1], &type = statement.name.back();
    Value *a = read(statement.operands[1]), *b = read(statement.operands[2]);
    const unsigned bits = bits_of(statement);
    if (a == nullptr || b == nullptr || bits == 0) return false;
    const bool is_float = type == "f32" || type == "f64";
    Type* kind = type == "f32" ? builder_.getFloatTy()
                 : is_float    ? builder_.getDoubleTy()
                               : cast<Type>(builder_.getIntNTy(bits));
    a = as(a, kind);
    b = as(b, kind);
    static const std::map<std::string, std::array<CmpInst::Predicate, 3>> kHow = {
        {"eq", {CmpInst::ICMP_EQ, CmpInst::ICMP_EQ, CmpInst::FCMP_OEQ}},
        {"ne", {CmpInst::ICMP_NE, CmpInst::ICMP_NE, CmpInst::FCMP_ONE}},
        {"lt", {CmpInst::ICMP_ULT, CmpInst::ICMP_SLT, CmpInst::FCMP_OLT}},
        {"le", {CmpInst::ICMP_ULE, CmpInst::ICMP_SLE, CmpInst::FCMP_OLE}},
        {"gt", {CmpInst::ICMP_UGT, CmpInst::ICMP_SGT, CmpInst::FCMP_OGT}},
        {"ge", {CmpInst::ICMP_UGE, CmpInst::ICMP_SGE, CmpInst::FCMP_OGE}}};
    const auto found = kHow.find(how);
    if (found == kHow.end()) return false;
    const CmpInst::Predicate predicate = found->second[is_float ? 2 : type[0] == 's'];
    return write(statement.operands[0], builder_.CreateCmp(predicate, a, b));
  }

  bool select(const Statement& statement) {  // selp.b32 d, a, b, p
    if (statement.operands.size() != 4) return false;
    Value *a = read(statement.operands[1]), *b = read(statement.operands[2]),
          *p = read(statement.operands[3]);
    const unsigned bits = bits_of(statement);
    if (a == nullptr || b == nullptr || p == nullptr || bits == 0) return false;
    Type* type = builder_.getIntNTy(bits);
    return write(statement.operands[0],
                 builder_.CreateSelect(as(p, builder_.getInt1Ty()), as(a, type), as(b, type)));
  }

  bool elect(const Statement& statement) {  // elect.sync d|p, mask
    if (statement.operands.size() != 2) return false;
    const auto [leader, predicate] = StringRef(statement.operands[0]).split('|');
    Value* elected = calls_.call(builder_, "emucuda_elect_sync", builder_.getInt32Ty(), {}, call_);
    return write(leader.trim(), i32(0)) &&
           write(predicate.trim(), builder_.CreateICmpNE(elected, i32(0)));
  }

  bool warpgroup(const Statement& statement) {  // wgmma.mma_async: see wgmma.cpp
    const std::string& verb = statement.name[1];
    if (verb == "fence" || verb == "commit_group") return call("emucuda_wgmma_" + verb, {}), true;
    if (verb != "wait_group" || statement.operands.size() != 1) return false;
    Value* pending = integer(statement.operands[0]);
    if (pending == nullptr) return false;
    return call("emucuda_wgmma_wait_group", {pending}), true;
  }

  bool store_matrix(const Statement& statement) {  // stmatrix.sync.aligned.m8n8.x4.shared.b16
    if (statement.operands.size() != 2 || statement.has("trans") || !statement.has("x4"))
      return false;
    Value* to = shared_address(statement.operands[0]);
    Value* memory = packed(list(statement.operands[1]), builder_.getInt32Ty());
    if (to == nullptr || memory == nullptr) return false;
    return call("emucuda_stmatrix_x4", {to, memory}), true;
  }

  bool copy(const Statement& statement) {  // cp.async…
    if (statement.name.size() < 3 || statement.name[1] != "async") return false;
    if (statement.has("mbarrier")) {  // cp.async.mbarrier.arrive[.noinc]
      Value* at = statement.operands.empty() ? nullptr : shared_address(statement.operands[0]);
      if (at == nullptr || !statement.has("noinc")) return false;
      return call("emucuda_cp_async_mbarrier_arrive", {at}), true;
    }
    if (statement.has("commit_group")) return call("emucuda_cp_async_commit_group", {}), true;
    if (statement.has("wait_all")) return call("emucuda_cp_async_wait_all", {}), true;
    if (statement.has("wait_group")) {
      Value* pending = statement.operands.size() == 1 ? read(statement.operands[0]) : nullptr;
      if (pending == nullptr) return false;
      return call("emucuda_cp_async_wait_group", {as(pending, builder_.getInt32Ty())}), true;
    }
    if (statement.operands.size() < 3 || statement.operands.size() > 4) return false;
    Value *to = address(statement.operands[0]), *from = address(statement.operands[1]);
    Value* bytes = read(statement.operands[2]);
    if (to == nullptr || from == nullptr || bytes == nullptr) return false;
    Value* source_bytes = statement.operands.size() == 4 ? read(statement.operands[3]) : bytes;
    if (source_bytes == nullptr) return false;
    call("emucuda_cp_async",
         {calls_.shared(builder_, to), builder_.CreateIntToPtr(from, builder_.getPtrTy()),
          as(bytes, builder_.getInt32Ty()), as(source_bytes, builder_.getInt32Ty())});
    return true;
  }

  bool matrix(const Statement& statement) {  // ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16
    if (statement.operands.size() != 2 || !statement.has("m8n8")) return false;
    const std::vector<std::string> to = list(statement.operands[0]);
    Value* from = address(statement.operands[1]);
    if (from == nullptr || (to.size() != 1 && to.size() != 2 && to.size() != 4)) return false;
    Value* memory = calls_.slot(call_, ArrayType::get(builder_.getInt32Ty(), to.size()));
    call("emucuda_ldmatrix",
         {memory, i32(to.size()), i32(statement.has("trans")), calls_.shared(builder_, from)});
    return unpack(to, memory, builder_.getInt32Ty());
  }

  bool multiply(
      const Statement& statement) {  // mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
    if (statement.operands.size() != 4 || statement.name.size() < 9) return false;
    if (statement.name[4] != "row" || statement.name[5] != "col") return false;
    const size_t n = statement.name.size();
    const std::string what = statement.name[3] + "_" + statement.name[n - 4] + "_" +
                             statement.name[n - 3] + "_" + statement.name[n - 2] + "_" +
                             statement.name[n - 1];
    const std::vector<std::string> to = list(statement.operands[0]);
    Type* word = builder_.getInt32Ty();
    Value *a = packed(list(statement.operands[1]), word),
          *b = packed(list(statement.operands[2]), word);
    Value* c = packed(list(statement.operands[3]), word);
    if (a == nullptr || b == nullptr || c == nullptr) return false;
    call("emucuda_mma_" + what, {a, b, c});
    return unpack(to, c, word);
  }

  bool access(const Statement& statement) {  // ld.global.nc.v4.f32 {…}, [p]; st.shared.b32 [p], x
    const bool loads = statement.name[0] == "ld";
    const unsigned bits = bits_of(statement);
    if (statement.operands.size() != 2 || bits == 0 || statement.has("param") ||
        statement.has("local"))
      return false;
    const std::vector<std::string> names = list(statement.operands[loads ? 0 : 1]);
    Value* p = pointer(statement, statement.operands[loads ? 1 : 0]);
    if (p == nullptr) return false;
    Type* type = builder_.getIntNTy(bits);
    Value* size = i32(bits / 8 * names.size());
    const bool atomic = statement.has("acquire") || statement.has("release") ||
                        statement.has("relaxed") || statement.has("volatile");
    const bool orders = statement.has("acquire") || statement.has("release");
    Value* memory =
        loads ? calls_.slot(call_, ArrayType::get(type, names.size())) : packed(names, type);
    if (memory == nullptr) return false;
    std::vector<Value*> arguments{p, memory, size, size};
    if (atomic) arguments.push_back(i32(orders));
    call(std::string("emucuda_") + (loads ? "load" : "store") + (atomic ? "_atomic" : ""),
         arguments);
    return !loads || unpack(names, memory, type);
  }

  bool barrier(const Statement& statement) {
    if (statement.has("warp")) {
      Value* mask = read(statement.operands.empty() ? "-1" : statement.operands[0]);
      if (mask == nullptr) return false;
      return call("emucuda_bar_warp_sync", {as(mask, builder_.getInt32Ty())}), true;
    }
    if (statement.has("cluster")) {  // the emulator waits where the program waits
      if (statement.has("arrive")) return true;
      return call("emucuda_cluster_sync", {}), true;
    }
    if (statement.has("red")) {  // barrier.red.or.pred.aligned q, id, threads, p
      const size_t n = statement.operands.size();
      if (!statement.has("or") || n != 4) return false;
      Value *id = integer(statement.operands[1]), *threads = integer(statement.operands[2]),
            *condition = read(statement.operands[3]);
      if (id == nullptr || threads == nullptr || condition == nullptr) return false;
      Value* any = calls_.call(
          builder_, "emucuda_barrier_red_or", builder_.getInt32Ty(),
          {id, threads,
           builder_.CreateZExt(as(condition, builder_.getInt1Ty()), builder_.getInt32Ty())},
          call_);
      return write(statement.operands[0], builder_.CreateICmpNE(any, i32(0)));
    }
    const bool arrives = statement.has("arrive");
    if ((!statement.has("sync") && !arrives) || statement.operands.empty() ||
        statement.operands.size() > 2)
      return false;
    Value* id = read(statement.operands[0]);
    Value* threads =
        statement.operands.size() == 2 ? read(statement.operands[1]) : builder_.getInt32(0);
    if (id == nullptr || threads == nullptr) return false;
    return call(arrives ? "emucuda_barrier_arrive" : "emucuda_barrier_sync_cnt",
                {as(id, builder_.getInt32Ty()), as(threads, builder_.getInt32Ty())}),
           true;
  }

  bool fence(const Statement& statement) {
    if (statement.has("mbarrier_init")) return call("emucuda_fence_mbarrier_init", {}), true;
    if (statement.has("proxy")) {
      if (!statement.has("async")) return false;
      const bool shared = statement.has("shared::cta") || statement.has("shared::cluster"),
                 global = statement.has("global");
      if (!global) call("emucuda_fence_proxy_async", {});
      if (!shared) call("emucuda_fence_proxy_async_global", {});
      return true;
    }
    return call("emucuda_fence", {}), true;
  }

  bool arithmetic(const Statement& statement) {
    const std::string& name = statement.name[0];
    const std::string& type = statement.name.back();
    std::vector<Value*> in;
    for (size_t i = 1; i < statement.operands.size(); ++i) {
      Value* value = read(statement.operands[i]);
      if (value == nullptr) return false;
      in.push_back(value);
    }
    const bool is_float = type == "f32" || type == "f64";
    unsigned bits = 0;
    if (type == "pred" && !in.empty()) {
      for (Value*& value : in) value = as(value, builder_.getInt1Ty());
      Value* out = name == "not"   ? builder_.CreateNot(in[0])
                   : in.size() < 2 ? nullptr
                   : name == "and" ? builder_.CreateAnd(in[0], in[1])
                   : name == "or"  ? builder_.CreateOr(in[0], in[1])
                   : name == "xor" ? builder_.CreateXor(in[0], in[1])
                                   : nullptr;
      return out != nullptr && write(statement.operands[0], out);
    }
    if (in.empty() || StringRef(type).drop_front().getAsInteger(10, bits) || bits > 64)
      return false;
    Type* kind = type == "f32"   ? builder_.getFloatTy()
                 : type == "f64" ? builder_.getDoubleTy()
                                 : cast<Type>(builder_.getIntNTy(bits));
    if (!is_float && type[0] == 'f') return false;
    for (Value*& value : in) value = as(value, kind);
    const auto math = [&](const char* function) {
      FunctionCallee callee = call_.getModule()->getOrInsertFunction(
          std::string("__nv_") + function + (type == "f32" ? "f" : ""),
          FunctionType::get(kind, {kind}, false));
      return builder_.CreateCall(callee, {in[0]});
    };
    Value* out = nullptr;
    if (is_float && in.size() == 1) {
      if (name == "ex2") out = math("exp2");
      if (name == "lg2") out = math("log2");
      if (name == "rsqrt") out = math("rsqrt");
      if (name == "sqrt") out = math("sqrt");
      if (name == "tanh") out = math("tanh");
      if (name == "sin") out = math("sin");
      if (name == "cos") out = math("cos");
      if (name == "rcp") out = builder_.CreateFDiv(ConstantFP::get(kind, 1), in[0]);
      if (name == "neg") out = builder_.CreateFNeg(in[0]);
      if (name == "abs") out = builder_.CreateUnaryIntrinsic(Intrinsic::fabs, in[0]);
    } else if (is_float && in.size() == 2) {
      if (name == "add") out = builder_.CreateFAdd(in[0], in[1]);
      if (name == "sub") out = builder_.CreateFSub(in[0], in[1]);
      if (name == "mul") out = builder_.CreateFMul(in[0], in[1]);
      if (name == "div") out = builder_.CreateFDiv(in[0], in[1]);
      if (name == "max") out = builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, in[0], in[1]);
      if (name == "min") out = builder_.CreateBinaryIntrinsic(Intrinsic::minnum, in[0], in[1]);
    } else if (is_float && in.size() == 3 && (name == "fma" || name == "mad")) {
      out = builder_.CreateIntrinsic(Intrinsic::fma, {kind}, in);
    } else if (!is_float && in.size() == 2) {
      if (name == "add") out = builder_.CreateAdd(in[0], in[1]);
      if (name == "sub") out = builder_.CreateSub(in[0], in[1]);
      if (name == "mul" && statement.has("lo")) out = builder_.CreateMul(in[0], in[1]);
      if (name == "and") out = builder_.CreateAnd(in[0], in[1]);
      if (name == "or") out = builder_.CreateOr(in[0], in[1]);
      if (name == "xor") out = builder_.CreateXor(in[0], in[1]);
      if (name == "max")
        out = builder_.CreateBinaryIntrinsic(type[0] == 's' ? Intrinsic::smax : Intrinsic::umax,
                                             in[0], in[1]);
      if (name == "min")
        out = builder_.CreateBinaryIntrinsic(type[0] == 's' ? Intrinsic::smin : Intrinsic::umin,
                                             in[0], in[1]);
      if (name == "shl" || name == "shr") {  // PTX: a count of the width or more shifts all out
        Value* count = as(in[1], kind);
        Value* most = ConstantInt::get(kind, bits - 1);
        Value* within = builder_.CreateICmpULE(count, most);
        Value* safe = builder_.CreateSelect(within, count, most);
        if (name == "shr" && type[0] == 's') {
          out = builder_.CreateAShr(in[0], safe);
        } else {
          out = name == "shl" ? builder_.CreateShl(in[0], safe) : builder_.CreateLShr(in[0], safe);
          out = builder_.CreateSelect(within, out, ConstantInt::get(kind, 0));
        }
      }
    } else if (!is_float && in.size() == 1) {
      if (name == "not") out = builder_.CreateNot(in[0]);
      if (name == "neg") out = builder_.CreateNeg(in[0]);
    } else if (!is_float && in.size() == 3 && name == "mad" && statement.has("lo")) {
      out = builder_.CreateAdd(builder_.CreateMul(in[0], in[1]), in[2]);
    }
    return out != nullptr && write(statement.operands[0], out);
  }

  Calls& calls_;
  IRBuilder<>& builder_;
  CallInst& call_;
  std::vector<Value*> values_;  // by operand number
  unsigned results_ = 0;
  std::map<std::string, Value*> registers_;  // declared in the statement
  bool branches_ = false;                    // then registers and results are in memory:
  std::map<std::string, Value*> slots_;
  std::map<std::string, BasicBlock*> labels_;
  BasicBlock* after_ = nullptr;  // what follows the asm statement
};

}  // namespace

Value* translate_ptx(Calls& calls, IRBuilder<>& builder, CallInst& call) {
  return Translator(calls, builder, call).run();
}

}  // namespace emucuda
