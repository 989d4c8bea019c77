#pragma once
// The problem that the kernel solves with 16-bit accuracy, which is the given one, with Q and K in
// 8 bits.

#include <span>

#include "common/problem.hpp"

namespace ch17 {

// Returns the problem with Q and K rounded as the kernels round them under `options`, and with K
// around its mean. lse_offset holds the resulting change of each row's log-sum-exp.
fa::Problem computed(const fa::Problem& problem, std::span<const int> options);

// Makes inputs that are hard for 8 bits, with options[1] and [2] as chapter.hpp describes them.
// Models have both, means of channels in K, and single outliers.
void prepare(fa::Problem& problem, std::span<const int> options);

// Returns the bytes of workspace for a forward pass.
int64_t workspace_bytes(const fa::Shape& shape, int64_t kv_heads);

}  // namespace ch17
