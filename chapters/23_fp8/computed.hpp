#pragma once
// The problem that the FP8 kernel solves: the one that was asked, in e4m3.

#include <span>

#include "common/problem.hpp"

namespace ch23 {

// The same problem with Q, K and V rounded as the kernels round them, K and V without their means.
fa::Problem computed(const fa::Problem& problem, std::span<const int> options);

// The inputs that 8 bits find hard: options[1] to [4], as chapter.hpp has them.
void prepare(fa::Problem& problem, std::span<const int> options);

// Bytes of workspace for a forward pass.
int64_t workspace_bytes(const fa::Shape& shape, int64_t kv_heads);

}  // namespace ch23
