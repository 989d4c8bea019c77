// Generates the chapter's programs for any size, as the text of a trace file.
#pragma once

#include <string>

#include "program.hpp"

namespace ch01 {

enum class Order { kInner, kOuter };
enum class Softmax { kSafe, kOnline };

// Returns a program for C = A·B, n × n, with n from 1 to 8.
//   kInner computes one element of C after the other. With fixed operands it uses 3 registers, and
//           each element starts with an operand of the element before it. With any operands it
//           keeps B and one row of A, so that each input is loaded once (n·n + n + 1 registers).
//   kOuter processes one k after the other and keeps all n·n sums in registers. With fixed operands
//           it uses n·n + 2 registers and one LOAD per product. With any operands each input is
//           loaded once (n·n + n + 1 registers).
std::string matmul_program(Order order, OperandRule operands, int n);

// Returns a program for out = softmax(x), x of n numbers, with n from 1 to 1024. The safe version
// uses 3 registers and 3 passes over x, and the online version 4 registers and 2 passes.
std::string softmax_program(Softmax algorithm, int n);

// Returns a program for o = softmax(k·q)·v, with one query q of `dim` numbers (1 to 16) and n keys
// (1 to 1024). It reads K and V once, because online softmax is fused with the product with V. It
// uses 5 + 2·dim registers.
std::string attention_program(int n, int dim);

}  // namespace ch01
