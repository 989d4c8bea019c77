#pragma once
// The options of this chapter's program, and a decoding step over the cache that they describe.

#include <string>

#include "common/kernels/program.hpp"

namespace fa::ch11 {

struct Flags {
  int64_t page_size = 0, splits = 0, appended = 0, prefix = 0;
  std::string block_table, lengths, tree;

  void declare(Cli& cli);
};

// Sets the lengths in use and the tree of the new tokens, and copies the first keys and values of
// the first sequence to all sequences.
void prepare(Problem& problem, const Arguments& args, const Flags& flags);

// Throws InputError for options that do not go together, or not with the problem.
void check_options(const Problem& problem, const Arguments& args, const Flags& flags);

Run run_decode(Tensors& tensors, const Arguments& args, const Flags& flags);

}  // namespace fa::ch11
