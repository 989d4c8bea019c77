#pragma once
// The options of this chapter's program, and a run of the algorithm that they choose.

#include <string>

#include "attention.hpp"
#include "common/program.hpp"

namespace ch02 {

struct Flags {
  std::string algorithm = "tiled", modifier = "none";
  int64_t block_q = 64, block_kv = 64, window = 128, memory_limit = kNoLimit, trace_row = 0;
  bool trace = false;

  void declare(fa::Cli& cli);
  Options options() const;
};

// Throws InputError for an option that this run would ignore.
void refuse_unused_options(const fa::Arguments& args, const Flags& flags);

fa::Run run(fa::Tensors& tensors, const fa::Arguments& args, const Flags& flags);

}  // namespace ch02
