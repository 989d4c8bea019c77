#pragma once
// Which global addresses a kernel may touch: the buffers registered when it was launched.

#include <cstdint>
#include <string>
#include <vector>

namespace fa::simt {

struct GlobalRange {
  uint64_t begin = 0, end = 0;
  size_t element_bytes = 1;
  std::string name;
};

class GlobalMemory {
 public:
  static GlobalMemory snapshot();

  /// Do bytes [address, address + bytes) lie in one buffer? `hint` remembers the last one found.
  bool contains(uint64_t address, size_t bytes, size_t& hint) const;

 private:
  std::vector<GlobalRange> ranges_;  // as they were registered; one may be a view of another
};

}  // namespace fa::simt
