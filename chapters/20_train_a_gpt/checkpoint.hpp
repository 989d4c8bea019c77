#pragma once
// Checkpoints: one file, complete or absent, that says itself whether it is whole.

#include <string>

#include "training.hpp"

namespace fa::ch20 {

// A line that names the format, the length of a header in JSON, the header, losses (float64),
// weights, moment and square (float32), and the fingerprint of all that. Numbers are little-endian.
void save_checkpoint(const std::string& path, const TrainingState& state);

// Throws InputError for a file that is no checkpoint, is damaged, or cannot be read.
TrainingState load_checkpoint(const std::string& path);

}  // namespace fa::ch20
