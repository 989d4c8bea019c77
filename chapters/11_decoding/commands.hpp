#pragma once
// What this chapter's program does besides one call: subcommands, each with a report of its own.

#include <cstdint>
#include <string>

#include "common/cli.hpp"

namespace fa::ch11 {

struct CommandOptions {
  int64_t items = 8, multiprocessors = 132, tiles = 1024;  // of waves
  int64_t pages = 28, page_size = 64, batch = 4;           // of serve
  int64_t longest = 1024;                                  // of serve: tokens of a sequence
  std::string requests;                                    // of serve
  std::string device = "auto", json;
};

void add_commands(Cli& cli, CommandOptions& options);
int run_command(const std::string& name, const CommandOptions& options);

int waves_command(const CommandOptions& options);  // how busy a GPU is, by the number of splits
int serve_command(const CommandOptions& options);  // requests arrive, are answered, and leave

}  // namespace fa::ch11
