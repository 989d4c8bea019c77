// common/memory.hpp's size of the machine: what host.mjs lets the module's memory grow to, less
// what programs keep beside a problem. (The probe is not here: no kernel chapter has
// --memory-limit.)
#include "common/memory.hpp"

namespace fa {

double memory_bytes(const std::string&) { return 256.0 * 1024 * 1024; }

}  // namespace fa
