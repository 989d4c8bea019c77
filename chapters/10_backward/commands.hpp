#pragma once
// The experiments of this chapter on the CPU. Each is a subcommand that prints a table.

#include <cstdint>
#include <string>

#include "common/cli.hpp"

namespace fa::ch10 {

struct CommandOptions {
  int64_t length = 512, dim = 64, block_q = 64, block_kv = 64;   // schedules
  bool causal = false;                                           // schedules
  int64_t longest = 2048;                                        // memory: the largest length
  int64_t rows = 256, head_dim = 32, width = 64;                 // projections
  int64_t queries = 68, keys = 64, elements_dim = 8, block = 8;  // elements
  std::string dtype = "bf16", broken = "none";                   // elements
  std::string json;                                              // schedules and elements
};

void add_commands(Cli& cli, CommandOptions& options);
int run_command(const std::string& name, const CommandOptions& options);

int chain_command();  // every formula on 3 x 3 matrices, each gradient next to its difference
int schedules_command(const CommandOptions& options);    // bytes of each tensor, step by step
int memory_command(const CommandOptions& options);       // naive against tiled, L = 256 and up
int elements_command(const CommandOptions& options);     // error of each element
int projections_command(const CommandOptions& options);  // the layers that follow dQ, dK and dV

}  // namespace fa::ch10
