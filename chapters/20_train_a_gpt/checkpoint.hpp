#pragma once
// A checkpoint is one file that is complete or absent, and that can be verified by itself.

#include <string>

#include "training.hpp"

namespace fa::ch20 {

// Writes a line that names the format, the length of a JSON header, the header, losses (float64),
// weights, moment and square (float32), and the fingerprint of all of it. Numbers are
// little-endian.
void save_checkpoint(const std::string& path, const TrainingState& state);

// Throws InputError for a file that is not a checkpoint, is damaged, or cannot be read.
TrainingState load_checkpoint(const std::string& path);

}  // namespace fa::ch20
