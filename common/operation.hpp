#pragma once
// What a program computes, apart from how: the tensors that go in and come out, and the answer that
// they are held against. The forward pass stands here; others fill in an Operation of their own.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/json_report.hpp"
#include "common/problem.hpp"

namespace fa {

struct OperandName {
  const char* name;    // "O", in sentences
  const char* option;  // "--out": the .npy file that it is read from or written to
  const char* about;   // of the option, for --help
  std::vector<int64_t> (*shape)(const Problem&);  // [B,H,L,D], or [B,H,L]
  uint32_t feature = 0;  // Feature bit that a program needs to have it; 0: all have it
};

// How the outputs compare to the reference, each within its bound.
struct Verdict {
  bool passed = false;
  std::string text;    // for people: a line, then what is wrong, if anything is
  JsonPointer report;  // "check" of --json
};

struct Operation {
  std::vector<OperandName> inputs;  // beside Q, K and V, which every operation reads
  std::vector<OperandName> outputs;
  // `outputs` are in the order of their names; empty: the program does not have it.
  std::function<Verdict(const Problem&, std::span<const std::vector<float>> outputs, uint64_t seed)>
      check;
  double (*flops)(const Problem&);
};

// O and LSE, by common/check.hpp.
const Operation& forward_operation();

// Shapes that operands have.
std::vector<int64_t> like_q(const Problem& problem);
std::vector<int64_t> like_k(const Problem& problem);
std::vector<int64_t> rows_of_q(const Problem& problem);  // [B,H,Lq]

}  // namespace fa
