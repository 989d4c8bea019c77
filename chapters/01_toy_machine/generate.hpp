// The programs of the lesson for any n, as trace files.
#pragma once

#include <string>

#include "program.hpp"

namespace ch01 {

enum class Order { kInner, kOuter };
enum class Softmax { kSafe, kOnline };

// C = A·B, n × n (1 to 8).
//   kInner: one element of C after the other. With fixed operands 3 registers, and each element
//           starts with an operand of the one before; with any operands, each input is loaded
//           once and B and a row of A stay: n·n + n + 1 registers.
//   kOuter: one k after the other, all n·n sums in registers. Fixed: n·n + 2 registers, one LOAD
//           from product to product; any: each input is loaded once, n·n + n + 1 registers.
std::string matmul_program(Order order, OperandRule operands, int n);

// out = softmax(x), n numbers (1 to 1024): safe (3 registers, 3 passes) or online (4, 2).
std::string softmax_program(Softmax algorithm, int n);

// o = softmax(k·q)·v for one query q of `dim` numbers (1 to 16) and n keys (1 to 1024), online and
// fused with V: one pass, 5 + 2·dim registers.
std::string attention_program(int n, int dim);

}  // namespace ch01
