// test_mma_sums.cu's kernels on the emulator: nvcc compiles them for the card only.

#include "common/gpu/test_mma_sums.hpp"

void run_on_emulator(const fa::SumsTask& task) { emulator::mma_sums::run(task); }
