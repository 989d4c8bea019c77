// Implements common/simt/overflow.hpp without signals, because fiber.cpp checks the stacks itself.
#include "common/simt/overflow.hpp"

namespace fa::simt {

void catch_stack_overflows() {}
LoopWatch::LoopWatch() = default;
LoopWatch::~LoopWatch() = default;

}  // namespace fa::simt
