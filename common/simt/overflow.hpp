#pragma once

namespace fa::simt {

/// From now on a kernel that leaves its stack on this CPU thread ends its block with an exception
/// instead of the process. Other faults are what they were.
void catch_stack_overflows();

}  // namespace fa::simt
