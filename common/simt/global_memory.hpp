#pragma once
// The global addresses that a kernel may access, which are the buffers registered at its launch.

#include <cstdint>
#include <string>
#include <vector>

namespace fa::simt {

struct GlobalRange {
  uint64_t begin = 0, end = 0;
  size_t element_bytes = 1, near = 0;
  std::string name;
};

class GlobalMemory {
 public:
  static GlobalMemory snapshot();

  /// True if bytes [address, address + bytes) are in one buffer. `hint` caches the last buffer
  /// found.
  bool contains(uint64_t address, size_t bytes, size_t& hint) const;

 private:
  std::vector<GlobalRange> ranges_;  // in the order of registration, where ranges may overlap
};

}  // namespace fa::simt
