#pragma once
// Limits of a run's parameters, for the command line and for checkpoints.

#include <cstdint>

namespace fa::ch20 {

struct Limits {
  int64_t min, max;
};
inline constexpr Limits kContext{1, 1 << 17}, kLayers{1, 64}, kHeads{1, 256}, kChannels{1, 4096},
    kBatch{1, 4096}, kWarmUp{1, 1'000'000}, kSteps{0, 100'000'000}, kBlock{1, 256},
    kSeed{0, 1'000'000'000};

}  // namespace fa::ch20
