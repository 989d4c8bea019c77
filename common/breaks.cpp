#include "common/breaks.hpp"

#include <algorithm>
#include <string_view>

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

std::string list_breaks(std::span<const Break> known) {
  size_t width = 0;
  for (const Break& one : known) width = std::max(width, std::string_view(one.name).size());
  std::string text;
  for (const Break& one : known) {
    std::string name = one.name;
    name.resize(width + 2, ' ');
    text += name + one.removes + "\n";
  }
  return text;
}

}  // namespace fa
