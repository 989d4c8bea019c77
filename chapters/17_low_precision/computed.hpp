#pragma once
// The problem that the kernel solves to 16 bits: the one that was asked, with Q and K in 8 bits.

#include <span>

#include "common/problem.hpp"

namespace ch17 {

// The same problem with Q and K rounded as the kernels round them, under `options`, and the mean of
// K taken off; what that takes off each row's log-sum-exp stands in lse_offset.
fa::Problem computed(const fa::Problem& problem, std::span<const int> options);

// The inputs that 8 bits find hard, options[1] and [2] as chapter.hpp has them. Models have both:
// means of channels in K, and single numbers far out.
void prepare(fa::Problem& problem, std::span<const int> options);

// Bytes of workspace for a forward pass.
int64_t workspace_bytes(const fa::Shape& shape, int64_t kv_heads);

}  // namespace ch17
