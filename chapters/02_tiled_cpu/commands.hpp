#pragma once
// The experiments of this chapter. Each is a subcommand that prints a table.

#include <string>

#include "common/cli.hpp"
#include "common/problem.hpp"
#include "common/text.hpp"

namespace ch02 {

using fa::text;

struct CommandOptions {
  int64_t longest = 4096;                                  // memory: the largest length
  int64_t length = 5, dim = 3, block_q = 3, block_kv = 4;  // traffic: shape and tiles
  bool causal = false;                                     // traffic
  int64_t keys = 0;                                        // overflow: 0: several
  std::string json;                                        // memory, overflow and traffic
};

void add_commands(fa::Cli& cli, CommandOptions& options);
int run_command(const std::string& name, const CommandOptions& options);

int ladder_command();  // one query with scores 1…6 and every algorithm, operations counted
// Prints the score from which each type overflows.
int overflow_command(const CommandOptions& options);
int walkthrough_command();  // FlashAttention-1 with N = 5, d = 3, M = 59, step by step
int loop_order_command();   // loads and stores of both loop orders
int traffic_command(const CommandOptions& options);  // elements of each matrix, step by step
int memory_command(const CommandOptions& options);   // naive and tiled, L = 512 and up
int fusion_command();                                // three passes and one pass: bytes and time
int roofline_command();                              // the algorithms on this machine's roofline

int story();
void bench(const fa::Problem& problem);

}  // namespace ch02
