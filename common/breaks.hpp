#pragma once
// Each named break switches one necessary line of an algorithm off.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fa {

// A break as the algorithm tests it.
struct Break {
  const char* name;  // as given to --break
  uint32_t bit;      // its bit in the mask that the algorithm tests
};

// Returns the mask of the named breaks. Throws InputError for an unknown name and lists the known
// ones.
uint32_t parse_breaks(const std::vector<std::string>& names, std::span<const Break> known);

}  // namespace fa
