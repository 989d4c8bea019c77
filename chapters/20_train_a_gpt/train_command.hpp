#pragma once
// `train`: a run from the command line, with its check, progress, checkpoints and JSON.

#include <string>
#include <vector>

#include "common/break_demos.hpp"
#include "common/cli.hpp"
#include "training.hpp"

namespace fa::ch20 {

struct TrainRequest {
  Recipe recipe;
  AttentionChoice attention;
  std::string device = "cpu";  // where the model is
  std::vector<std::string> breaks;
  int64_t steps = 400, seed = 0, memory_limit = 0;  // 0 for no limit
  std::string text, checkpoint, json;               // files; if empty, the lessons, none, none
  bool resume = false;
};

void declare(Cli& cli, TrainRequest& request);

// Trains. `--resume` takes settings from the checkpoint unless the command line gives them, which
// `given` tells. Returns the exit code, which is 1 if the first gradients disagree with plain
// attention. A silent run ends after that check.
int train(const TrainRequest& request, const Cli& given, Invocation& call);

}  // namespace fa::ch20
