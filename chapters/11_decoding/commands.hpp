#pragma once
// The subcommands of this chapter's program, each with a separate report.

#include <cstdint>
#include <string>

#include "common/cli.hpp"

namespace fa::ch11 {

struct CommandOptions {
  int64_t items = 8, multiprocessors = 132, tiles = 1024;  // waves
  int64_t pages = 28, page_size = 64, batch = 4;           // serve
  int64_t longest = 1024;                                  // serve: tokens per sequence
  std::string requests;                                    // serve
  std::string device = "auto", json;
};

void add_commands(Cli& cli, CommandOptions& options);
int run_command(const std::string& name, const CommandOptions& options);

int waves_command(const CommandOptions& options);  // prints how busy a GPU is for each number of
                                                   // splits
int serve_command(const CommandOptions& options);  // serves requests that arrive, are answered and
                                                   // leave

}  // namespace fa::ch11
