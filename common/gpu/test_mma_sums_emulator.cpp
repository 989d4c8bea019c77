// The kernels of test_mma_sums.cu on the emulator, because nvcc compiles them for the card only.

#include "common/gpu/test_mma_sums.hpp"

void run_on_emulator(const fa::SumsTask& task) { emulator::mma_sums::run(task); }
