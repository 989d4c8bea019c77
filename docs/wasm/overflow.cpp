// common/simt/overflow.hpp where there are no signals: fiber.cpp looks at the stacks itself.
#include "common/simt/overflow.hpp"

namespace fa::simt {

void catch_stack_overflows() {}
LoopWatch::LoopWatch() = default;
LoopWatch::~LoopWatch() = default;

}  // namespace fa::simt
