// test_hopper.cu's kernels on the emulator: nvcc compiles them for the card only.

#include "common/gpu/test_hopper.hpp"

void run_on_emulator(const fa::HopperTask& task) { emulator::test_hopper::run(task); }
