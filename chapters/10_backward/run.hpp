#pragma once
// The options of this chapter's program, and a run on the CPU or of the kernels.

#include <string>

#include "common/program.hpp"
#include "cpu_backward.hpp"

namespace fa::ch10 {

struct Flags {
  std::string algorithm = "tiled", d_from = "o", design = "auto";
  int64_t block_q = 0, block_kv = 0, memory_limit = kNoLimit;
  bool trace = false, deterministic = false;

  void declare(Cli& cli);
};

// Returns the option for the CPU that was given, or null if the kernels run.
const char* cpu_option(const Arguments& args);

// Throws InputError for options that do not go together, or not with the problem.
void check_options(const Problem& problem, const Arguments& args, const Flags& flags);

Run run_on_cpu(fa::Tensors& tensors, const Arguments& args, const Flags& flags);
Run run_on_device(fa::Tensors& tensors, const Arguments& args, const Flags& flags);

}  // namespace fa::ch10
