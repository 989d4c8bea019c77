// waves: prints how busy a GPU is for each number of splits.

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "common/error.hpp"
#include "common/json_report.hpp"
#include "splits.hpp"

namespace fa::ch11 {

void add_commands(Cli& cli, CommandOptions& options) {
  Cli& waves = cli.command("waves", "how busy a GPU is, by the number of splits");
  waves.integer("--items", options.items, 1, 1 << 20, "blocks without splitting [8]");
  waves.integer("--multiprocessors", options.multiprocessors, 1, 1024, "SMs of the GPU [132]");
  waves.integer("--tiles", options.tiles, 1, 1 << 24,
                "tiles of keys of the longest sequence [1024]");
  waves.output_file("--json", options.json, "write the table to this file");
  Cli& serve = cli.command("serve", "requests arrive, are answered token by token, and leave");
  serve.text("--requests", options.requests,
             "STEP:PROMPT+NEW,...: when each arrives, its tokens, and how many it wants");
  serve.integer("--pages", options.pages, 1, 1 << 20, "pages of the cache [28]");
  serve.integer("--page-size", options.page_size, 1, 256, "tokens in a page [64]");
  serve.integer("--batch", options.batch, 1, 256, "requests at a time [4]");
  serve.integer("--longest", options.longest, 1, 1 << 16, "tokens of a sequence [1024]");
  serve.choice("--device", options.device, {"auto", "gpu", "emulator"},
               "where to run [auto: the GPU if there is one]");
  serve.output_file("--json", options.json, "write every step to this file");
  cli.optional_command();
}

int run_command(const std::string& name, const CommandOptions& options) {
  return name == "waves" ? waves_command(options) : serve_command(options);
}

int waves_command(const CommandOptions& options) {
  using namespace ::ch11;
  const int64_t items = options.items, machine = options.multiprocessors, tiles = options.tiles;
  const int ours = splits_for(items, machine, tiles, 0.95);
  const int flash_attention = splits_for(items, machine, tiles);
  nlohmann::json rows = nlohmann::json::array();
  std::cout << items << " blocks without splitting, " << machine << " multiprocessors, " << tiles
            << " tiles of keys\n\n"
            << "  splits  blocks  waves    busy  tiles each\n";
  const int most = static_cast<int>(std::min<int64_t>({kMostSplits, machine, tiles}));
  for (int splits = 1; splits <= most; ++splits) {
    const double efficiency = wave_efficiency(items, splits, machine);
    rows.push_back(
        {{"splits", splits}, {"efficiency", efficiency}, {"tiles_each", ceil_div(tiles, splits)}});
    const bool printed = splits <= 4 || splits == ours || splits == flash_attention ||
                         splits == ours + 1 || splits % 8 == 0;
    if (!printed || splits > 40) continue;
    char line[128];
    std::snprintf(line, sizeof line, "  %6d %7lld %6.2f %5.1f %% %11lld%s%s\n", splits,
                  static_cast<long long>(items * splits),
                  static_cast<double>(items * splits) / static_cast<double>(machine),
                  100 * efficiency, static_cast<long long>(ceil_div(tiles, splits)),
                  splits == flash_attention ? "  85 % of best: FlashAttention's rule" : "",
                  splits == ours ? "  95 % of best: here" : "");
    std::cout << line;
  }
  if (!options.json.empty()) {
    write_json(options.json, {{"items", items},
                              {"multiprocessors", machine},
                              {"tiles", tiles},
                              {"rows", rows},
                              {"chosen", ours},
                              {"flash_attention", flash_attention}});
  }
  return kAgreed;
}

}  // namespace fa::ch11
