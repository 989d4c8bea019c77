#include "common/breaks.hpp"

#include "common/error.hpp"
#include "common/parse.hpp"

namespace fa {

uint32_t parse_breaks(const std::vector<std::string>& names, std::span<const Break> known) {
  uint32_t mask = 0;
  for (const std::string& name : names) {
    uint32_t bit = 0;
    std::string listed;
    for (const Break& one : known) {
      if (name == one.name) bit = one.bit;
      listed += (listed.empty() ? "" : ", ") + std::string(one.name);
    }
    if (bit == 0) {
      throw InputError("--break " + shown(name) +
                       (known.empty() ? ": there are none here" : ": accepted: " + listed));
    }
    mask |= bit;
  }
  return mask;
}

}  // namespace fa
