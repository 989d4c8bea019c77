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
    // A block with its own scope. Its braces are alone, while those of a list follow an
    // instruction.
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

  // With branches, registers are memory, because a statement may be executed several times.
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
      const bool wide = text == "%clock64" || text == "%globaltimer";
      return calls_.call(builder_, name, wide ? builder_.getInt64Ty() : builder_.getInt32Ty(), {},
                         call_);
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
    for (const char* const hint : {".reg", ".pragma", "griddepcontrol", "prefetch", "discard",
                                   "applypriority", "cp.async.bulk.prefetch"}) {
      if (rest.starts_with(hint)) return true;  // nothing that a result depends on
    }
    if (rest == "trap" || rest == "brkpt") return call("emucuda_trap", {}), true;
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
    static const char* const kAlone[] = {"cp", "wgmma", "bar", "barrier", "membar", "fence"};
    if (statement.name.size() < 2 || is_contained(statement.name, "") ||
        (statement.operands.empty() && !is_contained(kAlone, name)))
      return false;
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
    if (name == "shfl") return shuffle(statement);
    if (name == "vote" || name == "match" || name == "redux" || name == "activemask")
      return warp_wide(statement);
    if (name == "atom" || name == "red") return atomic(statement);
    if (name == "createpolicy") return write(statement.operands[0], builder_.getInt64(0));
    if (name == "nanosleep") {
      Value* time = statement.operands.empty() ? nullptr : integer(statement.operands[0]);
      return time != nullptr && (call("emucuda_nanosleep", {time}), true);
    }
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
      if (low == nullptr || rounds_otherwise(statement)) return false;
      Type* f32 = builder_.getFloatTy();
      const auto part = [&](Value* x) {
        x = as(x, f32);
        const bool positive = statement.has("relu");
        return positive
                   ? builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, x, ConstantFP::get(f32, 0))
                   : x;
      };
      return write(statement.operands[0],
                   calls_.call(builder_, "emucuda_pack_" + to, builder_.getInt32Ty(),
                               {part(value), part(low)}, call_));
    }
    if (to != "tf32" && statement.has("relu")) return false;
    if ((to == "bf16" || to == "f16") && rounds_otherwise(statement)) return false;
    if (to == "bf16" && from == "f32") return write(statement.operands[0], narrowed(value, to));
    if (to == "f32" && from == "bf16") return write(statement.operands[0], widened(value, from));
    if (to == "tf32" && from == "f32") {  // rounds the 13 low bits away
      Value* bits = as(value, builder_.getInt32Ty());
      Value* half = i32(0x1000);
      if (!statement.has("rna")) {  // to even
        half = builder_.CreateAdd(i32(0xfff), builder_.CreateAnd(builder_.CreateLShr(bits, 13), 1));
      }
      Value* number = builder_.CreateFCmpORD(as(value, builder_.getFloatTy()),
                                             as(value, builder_.getFloatTy()));
      Value* rounded = builder_.CreateAnd(builder_.CreateAdd(bits, half), i32(0xffffe000));
      return write(statement.operands[0], builder_.CreateSelect(number, rounded, bits));
    }
    if (from == "f32" || from == "f64" || to == "f32" || to == "f64") {
      Value* result = convert_float(statement, value, to, from);
      if (result != nullptr) return write(statement.operands[0], result);
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
    if (statement.has("sat")) {  // to the nearest number that `to` has
      if (from_bits > 32 || to_bits > 32) return false;
      Type* wide = builder_.getInt64Ty();
      value = from[0] == 's' ? builder_.CreateSExt(value, wide) : builder_.CreateZExt(value, wide);
      const bool to_signed = to[0] == 's';
      const int64_t most = (int64_t{1} << (to_signed ? to_bits - 1 : to_bits)) - 1;
      value = builder_.CreateBinaryIntrinsic(Intrinsic::smin, value,
                                             ConstantInt::getSigned(wide, most));
      value = builder_.CreateBinaryIntrinsic(
          Intrinsic::smax, value, ConstantInt::getSigned(wide, to_signed ? -most - 1 : 0));
      return write(statement.operands[0], builder_.CreateTrunc(value, type));
    }
    return write(statement.operands[0], from[0] == 's' ? builder_.CreateSExtOrTrunc(value, type)
                                                       : builder_.CreateZExtOrTrunc(value, type));
  }

  // In another direction than to the nearest.
  static bool rounds_otherwise(const Statement& statement) {
    return statement.has("rz") || statement.has("rm") || statement.has("rp");
  }

  // Between integers and floats, and between floats of 32 and 64 bits.
  Value* convert_float(const Statement& statement, Value* value, const std::string& to,
                       const std::string& from) {
    unsigned to_bits = 0, from_bits = 0;
    if (StringRef(to).drop_front().getAsInteger(10, to_bits) ||
        StringRef(from).drop_front().getAsInteger(10, from_bits))
      return nullptr;
    const bool to_float = to[0] == 'f', from_float = from[0] == 'f';
    if ((to_float && to_bits < 32) || (from_float && from_bits < 32)) return nullptr;
    const auto float_type = [&](unsigned bits) {
      return bits == 32 ? builder_.getFloatTy() : builder_.getDoubleTy();
    };
    if (to_float && !statement.has("rni") && rounds_otherwise(statement)) return nullptr;
    if (!from_float) {
      value = as(value, builder_.getIntNTy(from_bits));
      return from[0] == 's' ? builder_.CreateSIToFP(value, float_type(to_bits))
                            : builder_.CreateUIToFP(value, float_type(to_bits));
    }
    value = as(value, float_type(from_bits));
    const Intrinsic::ID whole = statement.has("rni")   ? Intrinsic::rint
                                : statement.has("rzi") ? Intrinsic::trunc
                                : statement.has("rmi") ? Intrinsic::floor
                                : statement.has("rpi") ? Intrinsic::ceil
                                                       : Intrinsic::not_intrinsic;
    if (whole != Intrinsic::not_intrinsic) value = builder_.CreateUnaryIntrinsic(whole, value);
    if (to_float) {
      value = builder_.CreateFPCast(value, float_type(to_bits));
      return statement.has("sat") ? saturated(value, value->getType()) : value;
    }
    return builder_.CreateIntrinsic(to[0] == 's' ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
                                    {builder_.getIntNTy(to_bits), value->getType()}, {value});
  }

  // One float of 16 bits as fp32, and back.
  Value* widened(Value* bits, const std::string& type) {
    Value* half = as(bits, builder_.getInt16Ty());
    if (type == "f16")
      return builder_.CreateFPExt(as(half, builder_.getHalfTy()), builder_.getFloatTy());
    return as(builder_.CreateShl(as(half, builder_.getInt32Ty()), 16), builder_.getFloatTy());
  }
  Value* narrowed(Value* value, const std::string& type) {
    value = as(value, builder_.getFloatTy());
    Value* pair = calls_.call(builder_, "emucuda_pack_" + type + "x2", builder_.getInt32Ty(),
                              {ConstantFP::get(builder_.getFloatTy(), 0), value}, call_);
    return as(pair, builder_.getInt16Ty());
  }

  Value* predicate(StringRef text) {
    const bool negated = text.consume_front("!");
    Value* value = read(text);
    if (value == nullptr) return nullptr;
    value = as(value, builder_.getInt1Ty());
    return builder_.CreateZExt(negated ? builder_.CreateNot(value) : value, builder_.getInt32Ty());
  }

  bool shuffle(const Statement& statement) {  // shfl.sync.bfly.b32 d|p, a, b, c, mask
    if (statement.operands.size() != 5 || statement.name.size() != 4) return false;
    const auto [to, found] = StringRef(statement.operands[0]).split('|');
    Value *value = integer(statement.operands[1]), *lane = integer(statement.operands[2]),
          *control = integer(statement.operands[3]), *mask = integer(statement.operands[4]);
    if (value == nullptr || lane == nullptr || control == nullptr || mask == nullptr) return false;
    Value* result = calls_.call(builder_, "emucuda_shfl_sync_" + statement.name[2] + "_i32p",
                                StructType::get(builder_.getInt32Ty(), builder_.getInt32Ty()),
                                {mask, value, lane, control}, call_);
    Value* ok = builder_.CreateICmpNE(builder_.CreateExtractValue(result, 1), i32(0));
    return write(to.trim(), builder_.CreateExtractValue(result, 0)) &&
           (found.empty() || write(found.trim(), ok));
  }

  // vote.sync.ballot.b32 d, p, mask; match.any.sync.b32 d, a, mask; redux.sync.add.s32 d, a, mask
  bool warp_wide(const Statement& statement) {
    const std::vector<std::string>& operands = statement.operands;
    const std::string& name = statement.name[0];
    Type* word = builder_.getInt32Ty();
    if (name == "activemask")
      return write(operands[0], calls_.call(builder_, "emucuda_activemask", word, {}, call_));
    if (operands.size() != 3 || statement.name.size() != 4) return false;
    Value* mask = integer(operands[2]);
    if (mask == nullptr) return false;
    if (name == "vote") {
      const std::string& mode = statement.name[2];
      Value* p = predicate(operands[1]);
      if (p == nullptr) return false;
      Value* votes =
          calls_.call(builder_, "emucuda_vote_" + mode + "_sync", word, {mask, p}, call_);
      return write(operands[0], mode == "ballot" ? votes : builder_.CreateICmpNE(votes, i32(0)));
    }
    if (name == "match") {
      if (statement.name[1] != "any") return false;
      const bool wide = bits_of(statement) == 64;
      Value* value = read(operands[1]);
      if (value == nullptr) return false;
      value = as(value, wide ? builder_.getInt64Ty() : word);
      return write(
          operands[0],
          calls_.call(builder_, wide ? "emucuda_match_any_sync_i64" : "emucuda_match_any_sync_i32",
                      word, {mask, value}, call_));
    }
    Value* value = integer(operands[1]);
    std::string operation = statement.name[2];
    if (value == nullptr) return false;
    if (statement.name[3] == "u32" && (operation == "min" || operation == "max"))
      operation = "u" + operation;
    return write(operands[0], calls_.call(builder_, "emucuda_redux_sync_" + operation, word,
                                          {value, mask}, call_));
  }

  // atom.global.add.u32 d, [p], x; atom.cas.b32 d, [p], compare, x; red.… without a result
  bool atomic(const Statement& statement) {
    const bool returns = statement.name[0] == "atom";
    const size_t first = returns ? 1 : 0, n = statement.operands.size();
    const std::string& type = statement.name.back();
    const unsigned bits = bits_of(statement);
    const bool is_float = type == "f32" || type == "f64";
    if (n < first + 2 || (bits != 16 && bits != 32 && bits != 64) ||
        (type[0] == 'f' && !is_float) || statement.has("noftz") || type == "bf16" ||
        statement.has("shared::cluster"))
      return false;
    static const std::map<std::string, std::array<const char*, 3>> kNames = {
        // unsigned or bits, signed, float
        {"add", {"add", "add", "fadd"}},    {"min", {"umin", "min", "fmin"}},
        {"max", {"umax", "max", "fmax"}},   {"and", {"and", "and", ""}},
        {"or", {"or", "or", ""}},           {"xor", {"xor", "xor", ""}},
        {"exch", {"xchg", "xchg", "xchg"}}, {"cas", {"cas", "cas", "cas"}},
        {"inc", {"uinc_wrap", "", ""}},     {"dec", {"udec_wrap", "", ""}}};
    const char* operation = "";
    for (size_t i = 1; i + 1 < statement.name.size(); ++i) {
      const auto found = kNames.find(statement.name[i]);
      if (found != kNames.end()) operation = found->second[is_float ? 2 : type[0] == 's'];
    }
    const bool swaps = StringRef(operation) == "cas";
    if (*operation == 0 || n != first + (swaps ? 3 : 2)) return false;
    Value* p = pointer(statement, statement.operands[first]);
    Value* operand = read(statement.operands[n - 1]);
    Value* compare = swaps ? read(statement.operands[first + 1]) : nullptr;
    if (p == nullptr || operand == nullptr || (swaps && compare == nullptr)) return false;
    Type* kind = builder_.getIntNTy(bits);
    const auto kept = [&](Value* value) {
      Value* slot = calls_.slot(call_, kind);
      if (value != nullptr) builder_.CreateStore(as(value, kind), slot);
      return slot;
    };
    Value* old = kept(nullptr);
    Value* nothing = ConstantPointerNull::get(builder_.getPtrTy());
    const bool both = statement.has("acq_rel");
    call(std::string("emucuda_atomic_") + operation,
         {p, kept(operand), swaps ? kept(compare) : nothing, old, i32(bits / 8),
          i32((both || statement.has("acquire") ? 1 : 0) |
              (both || statement.has("release") ? 2 : 0))});
    return !returns || write(statement.operands[0], builder_.CreateLoad(kind, old));
  }

  Value* shared_address(StringRef text) {
    Value* value = address(text);
    return value == nullptr ? nullptr : as(value, builder_.getInt32Ty());
  }
  Value* integer(StringRef text) {
    Value* value = read(text);
    return value == nullptr ? nullptr : as(value, builder_.getInt32Ty());
  }

  // True if the program only repeats the test until it succeeds, so that it may as well wait.
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
      if (tensor.size() < 2) return false;
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
      if (to == nullptr || from == nullptr || barrier == nullptr ||
          (statement.name.size() > 3 && statement.name[3] == "global"))
        return false;
      return call("emucuda_bulk_load", {to, as(from, builder_.getPtrTy()), bytes, barrier}), true;
    }
    Value *to = address(operands[0]), *from = shared_address(operands[1]);
    if (to == nullptr || from == nullptr) return false;
    call(reduces ? "emucuda_bulk_reduce_add" : "emucuda_bulk_store",
         {as(to, builder_.getPtrTy()), from, bytes});
    return true;
  }

  // setp.ne.b32 p, a, b; setp.lt.and.f32 p|q, a, b, c
  bool compare(const Statement& statement) {
    const size_t n = statement.operands.size();
    if ((n != 3 && n != 4) || statement.name.size() < 3) return false;
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
        {"lo", {CmpInst::ICMP_ULT, CmpInst::ICMP_ULT, CmpInst::BAD_FCMP_PREDICATE}},
        {"ls", {CmpInst::ICMP_ULE, CmpInst::ICMP_ULE, CmpInst::BAD_FCMP_PREDICATE}},
        {"hi", {CmpInst::ICMP_UGT, CmpInst::ICMP_UGT, CmpInst::BAD_FCMP_PREDICATE}},
        {"hs", {CmpInst::ICMP_UGE, CmpInst::ICMP_UGE, CmpInst::BAD_FCMP_PREDICATE}},
        {"eq", {CmpInst::ICMP_EQ, CmpInst::ICMP_EQ, CmpInst::FCMP_OEQ}},
        {"ne", {CmpInst::ICMP_NE, CmpInst::ICMP_NE, CmpInst::FCMP_ONE}},
        {"lt", {CmpInst::ICMP_ULT, CmpInst::ICMP_SLT, CmpInst::FCMP_OLT}},
        {"le", {CmpInst::ICMP_ULE, CmpInst::ICMP_SLE, CmpInst::FCMP_OLE}},
        {"gt", {CmpInst::ICMP_UGT, CmpInst::ICMP_SGT, CmpInst::FCMP_OGT}},
        {"ge", {CmpInst::ICMP_UGE, CmpInst::ICMP_SGE, CmpInst::FCMP_OGE}}};
    const auto found = kHow.find(how);
    if (found == kHow.end()) return false;
    const CmpInst::Predicate predicate = found->second[is_float ? 2 : type[0] == 's'];
    if (predicate == CmpInst::BAD_FCMP_PREDICATE) return false;
    Value* result = builder_.CreateCmp(predicate, a, b);
    Value* opposite = builder_.CreateNot(result);
    if (n == 4) {
      StringRef text = statement.operands[3];
      const bool negated = text.consume_front("!");
      Value* other = read(text);
      if (other == nullptr) return false;
      other = as(other, builder_.getInt1Ty());
      if (negated) other = builder_.CreateNot(other);
      const auto combine = [&](Value* x) -> Value* {
        return statement.has("and")   ? builder_.CreateAnd(x, other)
               : statement.has("or")  ? builder_.CreateOr(x, other)
               : statement.has("xor") ? builder_.CreateXor(x, other)
                                      : nullptr;
      };
      result = combine(result);
      opposite = combine(opposite);
      if (result == nullptr) return false;
    }
    const auto [p, q] = StringRef(statement.operands[0]).split('|');
    return write(p.trim(), result) && (q.empty() || write(q.trim(), opposite));
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
      return false;  // the emulator has this one
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
    if (loads && bits < 32 && statement.name.back()[0] == 's') {
      for (size_t i = 0; i < names.size(); ++i) {
        Value* value = builder_.CreateLoad(type, builder_.CreateConstGEP1_64(type, memory, i));
        if (!write(names[i], builder_.CreateSExt(value, builder_.getInt32Ty()))) return false;
      }
      return true;
    }
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
    if (type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2")
      return halves(statement, in);
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
    const bool arithmetic_of_floats = name != "ex2" && name != "lg2" && name != "tanh";
    if (is_float && arithmetic_of_floats && rounds_otherwise(statement)) return false;
    if (!is_float && statement.has("sat")) {
      if (type != "s32" || in.size() != 2 || (name != "add" && name != "sub")) return false;
      return write(
          statement.operands[0],
          builder_.CreateBinaryIntrinsic(name == "add" ? Intrinsic::sadd_sat : Intrinsic::ssub_sat,
                                         as(in[0], kind), as(in[1], kind)));
    }
    if (!is_float && name != "shl" && name != "shr") {
      if (Value* out = integers(statement, in, bits)) return write(statement.operands[0], out);
    }
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
      if (out != nullptr && statement.has("sat")) out = saturated(out, kind);
    } else if (is_float && in.size() == 2) {
      if (name == "add") out = builder_.CreateFAdd(in[0], in[1]);
      if (name == "sub") out = builder_.CreateFSub(in[0], in[1]);
      if (name == "mul") out = builder_.CreateFMul(in[0], in[1]);
      if (name == "div") out = builder_.CreateFDiv(in[0], in[1]);
      const bool nan = statement.has("NaN");  // a NaN wins, or loses
      if (name == "max")
        out = builder_.CreateBinaryIntrinsic(nan ? Intrinsic::maximum : Intrinsic::maxnum, in[0],
                                             in[1]);
      if (name == "min")
        out = builder_.CreateBinaryIntrinsic(nan ? Intrinsic::minimum : Intrinsic::minnum, in[0],
                                             in[1]);
      if (name == "copysign")  // sign of the first, magnitude of the second
        out = builder_.CreateBinaryIntrinsic(Intrinsic::copysign, in[1], in[0]);
      if (out != nullptr && statement.has("sat")) out = saturated(out, kind);
    } else if (is_float && in.size() == 3 && (name == "fma" || name == "mad")) {
      out = builder_.CreateIntrinsic(Intrinsic::fma, {kind}, in);
      if (statement.has("sat")) out = saturated(out, kind);
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

  Value* saturated(Value* value, Type* kind) {  // in [0, 1]; NaN becomes 0
    value = builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, value, ConstantFP::get(kind, 0));
    return builder_.CreateBinaryIntrinsic(Intrinsic::minnum, value, ConstantFP::get(kind, 1));
  }

  // Arithmetic of one or two floats of 16 bits: in fp32, rounded once.
  bool halves(const Statement& statement, const std::vector<Value*>& in) {
    StringRef type = statement.name.back();
    const bool two = type.consume_back("x2");
    const std::string& name = statement.name[0];
    std::array<Value*, 2> out{};
    for (unsigned half = 0; half < (two ? 2u : 1u); ++half) {
      std::vector<Value*> x;
      for (Value* value : in) {
        Value* bits = as(value, two ? builder_.getInt32Ty() : builder_.getInt16Ty());
        x.push_back(widened(half == 1 ? builder_.CreateLShr(bits, 16) : bits, type.str()));
      }
      Type* kind = builder_.getFloatTy();
      const auto math = [&](const char* function) {
        FunctionCallee callee = call_.getModule()->getOrInsertFunction(
            function, FunctionType::get(kind, {kind}, false));
        return builder_.CreateCall(callee, {x[0]});
      };
      Value* y = nullptr;
      if (x.size() == 1) {
        if (name == "neg") y = builder_.CreateFNeg(x[0]);
        if (name == "abs") y = builder_.CreateUnaryIntrinsic(Intrinsic::fabs, x[0]);
        if (name == "ex2") y = math("__nv_exp2f");
        if (name == "tanh") y = math("__nv_tanhf");
      } else if (x.size() == 2) {
        if (name == "add") y = builder_.CreateFAdd(x[0], x[1]);
        if (name == "sub") y = builder_.CreateFSub(x[0], x[1]);
        if (name == "mul") y = builder_.CreateFMul(x[0], x[1]);
        if (name == "max") y = builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, x[0], x[1]);
        if (name == "min") y = builder_.CreateBinaryIntrinsic(Intrinsic::minnum, x[0], x[1]);
      } else if (x.size() == 3 && name == "fma") {
        y = builder_.CreateIntrinsic(Intrinsic::fma, {kind}, x);
      }
      if (y == nullptr) return false;
      if (statement.has("sat")) y = saturated(y, kind);
      if (statement.has("relu"))
        y = builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, y, ConstantFP::get(kind, 0));
      out[half] = narrowed(y, type.str());
    }
    if (!two) return write(statement.operands[0], out[0]);
    Value* high = builder_.CreateShl(as(out[1], builder_.getInt32Ty()), 16);
    return write(statement.operands[0], builder_.CreateOr(high, as(out[0], builder_.getInt32Ty())));
  }

  // Integer instructions whose operands have not all the type of the result. nullptr: not one of
  // these.
  Value* integers(const Statement& statement, const std::vector<Value*>& in, unsigned bits) {
    const std::string& name = statement.name[0];
    const bool is_signed = statement.name.back()[0] == 's';
    Type *kind = builder_.getIntNTy(bits), *word = builder_.getInt32Ty();
    const auto extended = [&](Value* value, Type* from, Type* to) {
      value = as(value, from);
      return is_signed ? builder_.CreateSExt(value, to) : builder_.CreateZExt(value, to);
    };
    if ((name == "mul" || name == "mad") && (statement.has("wide") || statement.has("hi"))) {
      if (bits > 64 || in.size() != (name == "mul" ? 2u : 3u)) return nullptr;
      Type* twice = builder_.getIntNTy(2 * bits);
      Value* product =
          builder_.CreateMul(extended(in[0], kind, twice), extended(in[1], kind, twice));
      Type* result = twice;
      if (statement.has("hi")) {
        product = builder_.CreateTrunc(builder_.CreateLShr(product, bits), kind);
        result = kind;
      }
      return name == "mul" ? product : builder_.CreateAdd(product, as(in[2], result));
    }
    if (in.size() == 2 && (name == "div" || name == "rem")) {  // no trap, as on a GPU
      Value *a = as(in[0], kind), *b = as(in[1], kind);
      Value* zero = builder_.CreateICmpEQ(b, ConstantInt::get(kind, 0));
      Value* minus_one = ConstantInt::getSigned(kind, -1);
      Value* special =
          is_signed ? builder_.CreateOr(zero, builder_.CreateICmpEQ(b, minus_one)) : zero;
      Value* safe = builder_.CreateSelect(special, ConstantInt::get(kind, 1), b);
      Value* out = nullptr;
      if (name == "div") {
        out = is_signed ? builder_.CreateSDiv(a, safe) : builder_.CreateUDiv(a, safe);
        if (is_signed) out = builder_.CreateSelect(special, builder_.CreateNeg(a), out);
      } else {
        out = is_signed ? builder_.CreateSRem(a, safe) : builder_.CreateURem(a, safe);
      }
      return builder_.CreateSelect(zero, minus_one, out);
    }
    if (in.size() == 1) {
      Value* a = as(in[0], kind);
      if (name == "abs")
        return builder_.CreateIntrinsic(Intrinsic::abs, {kind}, {a, builder_.getFalse()});
      if (name == "popc") return as(builder_.CreateUnaryIntrinsic(Intrinsic::ctpop, a), word);
      if (name == "brev") return builder_.CreateUnaryIntrinsic(Intrinsic::bitreverse, a);
      const auto zeros = [&](Value* value) {
        return builder_.CreateIntrinsic(Intrinsic::ctlz, {kind}, {value, builder_.getFalse()});
      };
      if (name == "clz") return as(zeros(a), word);
      if (name == "bfind") {  // the highest bit that is not the sign's; -1 without one
        if (is_signed) a = builder_.CreateXor(a, builder_.CreateAShr(a, bits - 1));
        Value* at = zeros(a);
        if (!statement.has("shiftamt"))
          at = builder_.CreateSub(ConstantInt::get(kind, bits - 1), at);
        Value* none = builder_.CreateICmpEQ(a, ConstantInt::get(kind, 0));
        return builder_.CreateSelect(none, i32(0xffffffff), as(at, word));
      }
    }
    if (name == "bfe" && in.size() == 3 && bits == 32 && !is_signed) {
      Value *at = builder_.CreateAnd(as(in[1], word), 255),
            *n = builder_.CreateAnd(as(in[2], word), 255);
      return as(builder_.CreateAnd(shifted(as(in[0], word), at), low_bits(n)), word);
    }
    if (name == "bfi" && in.size() == 4 && bits == 32) {
      Value *at = builder_.CreateAnd(as(in[2], word), 255),
            *n = builder_.CreateAnd(as(in[3], word), 255);
      Type* wide = builder_.getInt64Ty();
      Value* far = builder_.CreateICmpUGT(at, i32(31));
      Value* safe = as(builder_.CreateSelect(far, i32(32), at), wide);
      Value* mask = as(builder_.CreateShl(low_bits(n), safe), word);
      Value* field = as(builder_.CreateShl(as(in[0], wide), safe), word);
      return builder_.CreateOr(builder_.CreateAnd(field, mask),
                               builder_.CreateAnd(as(in[1], word), builder_.CreateNot(mask)));
    }
    if (name == "prmt" && in.size() == 3 && statement.name.size() == 2) {
      Type* wide = builder_.getInt64Ty();
      Value* bytes = builder_.CreateOr(as(as(in[0], word), wide),
                                       builder_.CreateShl(as(as(in[1], word), wide), 32));
      Value* out = i32(0);
      for (unsigned i = 0; i < 4; ++i) {
        Value* select = builder_.CreateLShr(as(in[2], word), 4 * i);
        Value* which = as(builder_.CreateMul(builder_.CreateAnd(select, 7), i32(8)), wide);
        Value* byte = builder_.CreateAnd(as(builder_.CreateLShr(bytes, which), word), 255);
        Value* sign =
            builder_.CreateSelect(builder_.CreateICmpUGT(byte, i32(127)), i32(255), i32(0));
        Value* repeats = builder_.CreateICmpNE(builder_.CreateAnd(select, 8), i32(0));
        byte = builder_.CreateSelect(repeats, sign, byte);
        out = builder_.CreateOr(out, builder_.CreateShl(byte, 8 * i));
      }
      return out;
    }
    if (name == "lop3" && in.size() == 4) {
      const auto* table = dyn_cast<ConstantInt>(in[3]);
      if (table == nullptr) return nullptr;
      Value* out = i32(0);
      for (unsigned i = 0; i < 8; ++i) {  // bit i: the result where a, b, c are the bits of i
        if ((table->getZExtValue() >> i & 1) == 0) continue;
        Value* all = i32(0xffffffff);
        for (unsigned j = 0; j < 3; ++j) {
          Value* x = as(in[j], word);
          all = builder_.CreateAnd(all, (i >> (2 - j) & 1) != 0 ? x : builder_.CreateNot(x));
        }
        out = builder_.CreateOr(out, all);
      }
      return out;
    }
    if (name == "shf" && in.size() == 3 &&
        statement.name.size() == 4) {  // shf.l.wrap.b32 d, lo, hi, n
      Value* count = as(in[2], word);
      if (statement.has("wrap")) {
        count = builder_.CreateAnd(count, 31);
      } else {
        count = builder_.CreateBinaryIntrinsic(Intrinsic::umin, count, i32(32));
      }
      Type* wide = builder_.getInt64Ty();
      Value* both = builder_.CreateOr(as(as(in[0], word), wide),
                                      builder_.CreateShl(as(as(in[1], word), wide), 32));
      Value* n = as(count, wide);
      if (statement.name[1] == "r") return as(builder_.CreateLShr(both, n), word);
      return as(builder_.CreateLShr(builder_.CreateShl(both, n), 32), word);
    }
    return nullptr;
  }
  // The word, shifted right by a count that may be larger than 31, and the n low bits: 64 bits
  // wide.
  Value* shifted(Value* value, Value* count) {
    Value* far = builder_.CreateICmpUGT(count, i32(31));
    count = as(builder_.CreateSelect(far, i32(32), count), builder_.getInt64Ty());
    return builder_.CreateLShr(as(value, builder_.getInt64Ty()), count);
  }
  Value* low_bits(Value* n) {
    Value* many = builder_.CreateICmpUGT(n, i32(32));
    n = as(builder_.CreateSelect(many, i32(32), n), builder_.getInt64Ty());
    return builder_.CreateSub(builder_.CreateShl(builder_.getInt64(1), n), builder_.getInt64(1));
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
