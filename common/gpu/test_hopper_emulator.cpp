// The kernels of test_hopper.cu on the emulator, because nvcc compiles them for the card only.

#include "common/gpu/test_hopper.hpp"

void run_on_emulator(const fa::HopperTask& task) { emulator::test_hopper::run(task); }
