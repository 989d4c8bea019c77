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

#include "common/cuda/ptx_arithmetic.hpp"

using namespace llvm;

namespace emucuda {

namespace {

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

class Translator : private Arithmetic {
 public:
  using Arithmetic::Arithmetic;

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
    const StringRef unique = "${:uid}";  // clang's %=, but labels are unique here anyway
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
  // Operands are numbered, results before inputs. An input with a digit is that result before.
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

  // Takes the name off "LOOP: ".
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
    if (text == "_") return true;  // the result is not used
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
    const bool shared =
        statement.has("shared") || statement.has("shared::cta") || statement.has("shared::cluster");
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
    if (name == "cp") return statement.has("bulk") ? bulk_copy(statement) : copy(statement);
    if (name == "mbarrier") return mbarrier(statement);
    if (name == "setp") return compare(statement);
    if (name == "selp") return select(statement);
    if (name == "elect") return elect(statement);
    if (name == "mapa" || name == "getctarank") return cluster_address(statement);
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
    std::vector<Value*> in;
    for (size_t i = 1; i < statement.operands.size(); ++i) {
      in.push_back(read(statement.operands[i]));
      if (in.back() == nullptr) return false;
    }
    Value* out = in.empty()      ? nullptr
                 : name == "cvt" ? convert(statement, in)
                                 : arithmetic(statement, in);
    return out != nullptr && write(statement.operands[0], out);
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
    const bool is_pair = type == "f16x2" || type == "bf16x2",
               is_16bit = is_pair || type == "f16" || type == "bf16";
    const unsigned bits = is_pair ? 32 : is_16bit ? 16 : bits_of(statement);
    const bool is_float = type == "f32" || type == "f64";
    if (n < first + 2 || (bits != 16 && bits != 32 && bits != 64) ||
        (is_16bit && !statement.has("add")))
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
    if (is_16bit) operation = type[0] == 'f' ? "add_f16" : "add_bf16";
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
    if (statement.has("prefetch")) return false;
    const bool multicast = statement.has("multicast::cluster");
    const auto blocks_at = [&](size_t i) -> Value* {
      return !multicast ? i32(0) : i < operands.size() ? integer(operands[i]) : nullptr;
    };
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
      Value* blocks = blocks_at(3);
      if (barrier == nullptr || blocks == nullptr) return false;
      return call("emucuda_tma_load", {at, map, coordinates, i32(names.size()), barrier, blocks}),
             true;
    }
    if (operands.size() < 3) return false;
    const bool reduces = statement.name[1] == "reduce";
    if (reduces && !(statement.has("add") && statement.has("f32") && statement.has("global")))
      return false;
    Value* bytes = integer(operands[2]);
    if (bytes == nullptr) return false;
    if (statement.has("shared::cluster") && statement.has("shared::cta")) {
      if (reduces || operands.size() != 4) return false;
      Value *to = shared_address(operands[0]), *from = shared_address(operands[1]),
            *barrier = shared_address(operands[3]);
      if (to == nullptr || from == nullptr || barrier == nullptr) return false;
      return call("emucuda_bulk_copy", {to, from, bytes, barrier}), true;
    }
    if (operands.size() > 3 && operands[3][0] == '[') {
      Value *to = shared_address(operands[0]), *from = address(operands[1]),
            *barrier = shared_address(operands[3]), *blocks = blocks_at(4);
      if (to == nullptr || from == nullptr || barrier == nullptr || blocks == nullptr ||
          (statement.name.size() > 3 && statement.name[3] == "global"))
        return false;
      return call("emucuda_bulk_load", {to, as(from, builder_.getPtrTy()), bytes, barrier, blocks}),
             true;
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

  // mapa.shared::cluster.u32 d, a, rank; getctarank.shared::cluster.u32 d, a; without a space:
  // generic
  bool cluster_address(const Statement& statement) {
    const bool maps = statement.name[0] == "mapa", shared = statement.has("shared::cluster");
    if (statement.operands.size() != (maps ? 3 : 2)) return false;
    Value *from = read(statement.operands[1]),
          *rank = maps ? integer(statement.operands[2]) : nullptr;
    if (from == nullptr || (maps && rank == nullptr)) return false;
    from = shared ? calls_.shared(builder_, from) : as(from, builder_.getPtrTy());
    std::vector<Value*> arguments{from};
    if (maps) arguments.push_back(rank);
    Value* out = calls_.call(builder_, "emucuda_" + statement.name[0],
                             maps ? cast<Type>(builder_.getPtrTy()) : builder_.getInt32Ty(),
                             arguments, call_);
    if (maps && shared) out = as(as(out, builder_.getInt32Ty()), builder_.getInt64Ty());
    return write(statement.operands[0], out);
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
    const auto is_8bit = [](const std::string& type) { return type == "s8" || type == "u8"; };
    const std::string &type_a = statement.name[n - 3], &type_b = statement.name[n - 2];
    if (statement.name[n - 4] == "s32" && is_8bit(type_a) && is_8bit(type_b)) {
      call("emucuda_mma_" + statement.name[3] + "_s32",
           {a, b, c, i32(type_a == "s8"), i32(type_b == "s8"), i32(statement.has("satfinite"))});
    } else {
      call("emucuda_mma_" + what, {a, b, c});
    }
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
