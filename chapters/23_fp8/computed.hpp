#pragma once
// The problem that the FP8 kernel actually solves, which is the given one in e4m3.

#include <span>

#include "common/problem.hpp"

namespace ch23 {

// Returns the problem with Q, K and V rounded as the kernels round them, with K and V around their
// means.
fa::Problem computed(const fa::Problem& problem, std::span<const int> options);

// Makes inputs that are hard for 8 bits, by options[1] to [4], as chapter.hpp describes them.
void prepare(fa::Problem& problem, std::span<const int> options);

// Returns the bytes of workspace for a forward pass.
int64_t workspace_bytes(const fa::Shape& shape, int64_t kv_heads);

}  // namespace ch23
