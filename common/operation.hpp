#pragma once
// Describes what a program computes: its input and output tensors and the reference that checks the
// outputs. The forward pass is defined here. Other operations define their own Operation.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/json_report.hpp"
#include "common/problem.hpp"

namespace fa {

struct OperandName {
  const char* name;    // "O", for messages
  const char* option;  // "--out": the option for the .npy file to read or write
  const char* about;   // the option's text for --help
  std::vector<int64_t> (*shape)(const Problem&);  // [B,H,L,D], or [B,H,L]
  uint32_t feature = 0;  // Feature bit that a program needs to have the tensor; 0: all programs
                         // have it
};

// The result of comparing the outputs with the reference.
struct Verdict {
  bool passed = false;
  std::string text;    // text: one line, then the errors, if there are any
  JsonPointer report;  // "check" of --json
};

struct Operation {
  std::vector<OperandName> inputs;  // besides Q, K and V, which every operation reads
  std::vector<OperandName> outputs;
  // `outputs` are in the order of their names. An output that the program does not have is empty.
  std::function<Verdict(const Problem&, std::span<const std::vector<float>> outputs, uint64_t seed)>
      check;
  double (*flops)(const Problem&);
};

// Returns the forward operation with outputs O and LSE, checked by common/check.hpp.
const Operation& forward_operation();

// Return the shapes of operands.
std::vector<int64_t> like_q(const Problem& problem);
std::vector<int64_t> like_k(const Problem& problem);
std::vector<int64_t> rows_of_q(const Problem& problem);  // [B,H,Lq]

}  // namespace fa
