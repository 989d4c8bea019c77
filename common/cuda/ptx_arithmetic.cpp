#include "common/cuda/ptx_arithmetic.hpp"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <array>

using namespace llvm;

namespace emucuda {

namespace {

// In another direction than to the nearest.
bool rounds_otherwise(const Statement& statement) {
  return statement.has("rz") || statement.has("rm") || statement.has("rp");
}

}  // namespace

bool Statement::has(StringRef part) const { return is_contained(name, part); }

Value* Arithmetic::as(Value* value, Type* type) {
  if (value->getType() == type) return value;
  Type* from = value->getType();
  if (from->isPointerTy()) value = builder_.CreatePtrToInt(value, builder_.getInt64Ty());
  if (from->isFloatingPointTy())
    value = builder_.CreateBitCast(value, builder_.getIntNTy(from->getPrimitiveSizeInBits()));
  if (type->isPointerTy()) {
    return builder_.CreateIntToPtr(builder_.CreateZExtOrTrunc(value, builder_.getInt64Ty()), type);
  }
  if (type->isFloatingPointTy()) {
    return builder_.CreateBitCast(
        builder_.CreateZExtOrTrunc(value, builder_.getIntNTy(type->getPrimitiveSizeInBits())),
        type);
  }
  return builder_.CreateZExtOrTrunc(value, type);
}

Value* Arithmetic::convert(const Statement& statement, const std::vector<Value*>& in) {
  const size_t n = statement.name.size();
  if (n < 3) return nullptr;
  const std::string &to = statement.name[n - 2], &from = statement.name[n - 1];
  Value* value = in[0];
  const auto integer = [](StringRef type) {
    return type[0] == 'u' || type[0] == 's' || type[0] == 'b';
  };
  if (to == "f16x2" && from == "e4m3x2" && in.size() == 1 && !statement.has("relu")) {
    return calls_.call(builder_, "emucuda_unpack_e4m3x2", builder_.getInt32Ty(),
                       {as(value, builder_.getInt32Ty())}, call_);
  }
  if ((to == "f16x2" || to == "bf16x2" || to == "e4m3x2") && from == "f32" && in.size() == 2) {
    if (rounds_otherwise(statement)) return nullptr;
    Type* f32 = builder_.getFloatTy();
    const auto part = [&](Value* x) {
      x = as(x, f32);
      const bool positive = statement.has("relu");
      return positive
                 ? builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, x, ConstantFP::get(f32, 0))
                 : x;
    };
    return calls_.call(builder_, "emucuda_pack_" + to, builder_.getInt32Ty(),
                       {part(value), part(in[1])}, call_);
  }
  if (to != "tf32" && statement.has("relu")) return nullptr;
  if ((to == "bf16" || to == "f16") && rounds_otherwise(statement)) return nullptr;
  if (to == "bf16" && from == "f32") return narrowed(value, to);
  if (to == "f32" && from == "bf16") return widened(value, from);
  if (to == "tf32" && from == "f32") {  // rounds the 13 low bits away
    Value* bits = as(value, builder_.getInt32Ty());
    Value* half = i32(0x1000);
    if (!statement.has("rna")) {  // to even
      half = builder_.CreateAdd(i32(0xfff), builder_.CreateAnd(builder_.CreateLShr(bits, 13), 1));
    }
    Value* number =
        builder_.CreateFCmpORD(as(value, builder_.getFloatTy()), as(value, builder_.getFloatTy()));
    Value* rounded = builder_.CreateAnd(builder_.CreateAdd(bits, half), i32(0xffffe000));
    return builder_.CreateSelect(number, rounded, bits);
  }
  if (from == "f32" || from == "f64" || to == "f32" || to == "f64") {
    Value* result = convert_float(statement, value, to, from);
    if (result != nullptr) return result;
  }
  if (to == "f16" && from == "f32") {
    return as(builder_.CreateFPTrunc(as(value, builder_.getFloatTy()), builder_.getHalfTy()),
              builder_.getInt16Ty());
  }
  if (to == "f32" && from == "f16") {
    return builder_.CreateFPExt(as(as(value, builder_.getInt16Ty()), builder_.getHalfTy()),
                                builder_.getFloatTy());
  }
  unsigned to_bits = 0, from_bits = 0;
  if (!integer(to) || !integer(from) || StringRef(to).drop_front().getAsInteger(10, to_bits) ||
      StringRef(from).drop_front().getAsInteger(10, from_bits)) {
    return nullptr;
  }
  value = as(value, builder_.getIntNTy(from_bits));
  Type* type = builder_.getIntNTy(to_bits);
  if (statement.has("sat")) {  // to the nearest number that `to` has
    if (from_bits > 32 || to_bits > 32) return nullptr;
    Type* wide = builder_.getInt64Ty();
    value = from[0] == 's' ? builder_.CreateSExt(value, wide) : builder_.CreateZExt(value, wide);
    const bool to_signed = to[0] == 's';
    const int64_t most = (int64_t{1} << (to_signed ? to_bits - 1 : to_bits)) - 1;
    value =
        builder_.CreateBinaryIntrinsic(Intrinsic::smin, value, ConstantInt::getSigned(wide, most));
    value = builder_.CreateBinaryIntrinsic(Intrinsic::smax, value,
                                           ConstantInt::getSigned(wide, to_signed ? -most - 1 : 0));
    return builder_.CreateTrunc(value, type);
  }
  return from[0] == 's' ? builder_.CreateSExtOrTrunc(value, type)
                        : builder_.CreateZExtOrTrunc(value, type);
}

// Between integers and floats, and between floats of 32 and 64 bits.
Value* Arithmetic::convert_float(const Statement& statement, Value* value, const std::string& to,
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
Value* Arithmetic::widened(Value* bits, const std::string& type) {
  Value* half = as(bits, builder_.getInt16Ty());
  if (type == "f16")
    return builder_.CreateFPExt(as(half, builder_.getHalfTy()), builder_.getFloatTy());
  return as(builder_.CreateShl(as(half, builder_.getInt32Ty()), 16), builder_.getFloatTy());
}
Value* Arithmetic::narrowed(Value* value, const std::string& type) {
  value = as(value, builder_.getFloatTy());
  Value* pair = calls_.call(builder_, "emucuda_pack_" + type + "x2", builder_.getInt32Ty(),
                            {ConstantFP::get(builder_.getFloatTy(), 0), value}, call_);
  return as(pair, builder_.getInt16Ty());
}

Value* Arithmetic::arithmetic(const Statement& statement, std::vector<Value*> in) {
  const std::string& name = statement.name[0];
  const std::string& type = statement.name.back();
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
    return out;
  }
  if (in.empty() || StringRef(type).drop_front().getAsInteger(10, bits) || bits > 64)
    return nullptr;
  Type* kind = type == "f32"   ? builder_.getFloatTy()
               : type == "f64" ? builder_.getDoubleTy()
                               : cast<Type>(builder_.getIntNTy(bits));
  if (!is_float && type[0] == 'f') return nullptr;
  const bool arithmetic_of_floats = name != "ex2" && name != "lg2" && name != "tanh";
  if (is_float && arithmetic_of_floats && rounds_otherwise(statement)) return nullptr;
  if (!is_float && statement.has("sat")) {
    if (type != "s32" || in.size() != 2 || (name != "add" && name != "sub")) return nullptr;
    return builder_.CreateBinaryIntrinsic(name == "add" ? Intrinsic::sadd_sat : Intrinsic::ssub_sat,
                                          as(in[0], kind), as(in[1], kind));
  }
  if (!is_float && name != "shl" && name != "shr") {
    if (Value* out = integers(statement, in, bits)) return out;
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
    if (name == "shl" || name == "shr") {  // a count of the width or more shifts all out
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
  return out;
}

Value* Arithmetic::saturated(Value* value, Type* kind) {  // to [0, 1], and NaN becomes 0
  value = builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, value, ConstantFP::get(kind, 0));
  return builder_.CreateBinaryIntrinsic(Intrinsic::minnum, value, ConstantFP::get(kind, 1));
}

// Arithmetic of one or two floats of 16 bits, in fp32 and rounded once.
Value* Arithmetic::halves(const Statement& statement, const std::vector<Value*>& in) {
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
      FunctionCallee callee =
          call_.getModule()->getOrInsertFunction(function, FunctionType::get(kind, {kind}, false));
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
    if (y == nullptr) return nullptr;
    if (statement.has("sat")) y = saturated(y, kind);
    if (statement.has("relu"))
      y = builder_.CreateBinaryIntrinsic(Intrinsic::maxnum, y, ConstantFP::get(kind, 0));
    out[half] = narrowed(y, type.str());
  }
  if (!two) return out[0];
  Value* high = builder_.CreateShl(as(out[1], builder_.getInt32Ty()), 16);
  return builder_.CreateOr(high, as(out[0], builder_.getInt32Ty()));
}

// Integer instructions whose operands have not all the type of the result. nullptr: not one of
// these.
Value* Arithmetic::integers(const Statement& statement, const std::vector<Value*>& in,
                            unsigned bits) {
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
    Value* product = builder_.CreateMul(extended(in[0], kind, twice), extended(in[1], kind, twice));
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
      if (!statement.has("shiftamt")) at = builder_.CreateSub(ConstantInt::get(kind, bits - 1), at);
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
      Value* sign = builder_.CreateSelect(builder_.CreateICmpUGT(byte, i32(127)), i32(255), i32(0));
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
Value* Arithmetic::shifted(Value* value, Value* count) {
  Value* far = builder_.CreateICmpUGT(count, i32(31));
  count = as(builder_.CreateSelect(far, i32(32), count), builder_.getInt64Ty());
  return builder_.CreateLShr(as(value, builder_.getInt64Ty()), count);
}
Value* Arithmetic::low_bits(Value* n) {
  Value* many = builder_.CreateICmpUGT(n, i32(32));
  n = as(builder_.CreateSelect(many, i32(32), n), builder_.getInt64Ty());
  return builder_.CreateSub(builder_.CreateShl(builder_.getInt64(1), n), builder_.getInt64(1));
}

}  // namespace emucuda
