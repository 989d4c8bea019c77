// Implements common/memory.hpp's size of the machine as the limit to which host.mjs lets the
// module's memory grow, less what programs need besides a problem. (The probe is missing, because
// no kernel chapter has --memory-limit.)
#include "common/memory.hpp"

namespace fa {

double memory_bytes(const std::string&) { return 256.0 * 1024 * 1024; }

}  // namespace fa
