#pragma once
// The options of this chapter's program, and a run by the ranks that they describe.

#include <string>

#include "common/program.hpp"
#include "work.hpp"

namespace ch19 {

struct Flags {
  std::string schedule = "zigzag", device = "auto", link = "auto", attention = "auto";
  int64_t ranks = 4;
  bool backward, kernels;
  Ranks* mpi = nullptr;  // null if the ranks are threads

  // The tensors and types of a program depend on some options, which are read before the others.
  Flags(int argc, char** argv, Ranks* mpi);
  void declare(fa::Cli& cli);
};

fa::Run run(fa::Tensors& tensors, const fa::Arguments& args, const Flags& flags);

}  // namespace ch19
