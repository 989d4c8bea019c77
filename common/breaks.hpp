#pragma once
// The break-it switchboard: named flags that switch one load-bearing line off.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fa {

// A break as the algorithm knows it.
struct Break {
  const char* name;  // as given to --break
  uint32_t bit;      // its bit in the mask that the algorithm tests
};

// The mask of the named breaks. Throws InputError naming an unknown one and the known ones.
uint32_t parse_breaks(const std::vector<std::string>& names, std::span<const Break> known);

}  // namespace fa
