#include "common/simt/buffer.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>

#include "common/simt/fiber.hpp"
#include "common/simt/global_memory.hpp"

namespace fa::simt {

namespace {

constexpr size_t kGapBytes = 64 * 1024;  // larger than a tile

struct Registry {
  std::mutex mutex;
  std::map<uint64_t, GlobalRange> ranges;  // by id
  uint64_t next_id = 0;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

uint64_t to_integer(const void* address) { return reinterpret_cast<uint64_t>(address); }

}  // namespace

void* allocate_buffer(size_t bytes) {
  void* memory = ::operator new(bytes + kGapBytes, std::align_val_t(kBufferAlignment));
#ifdef FA_SIMT_ASAN
  __asan_poison_memory_region(static_cast<char*>(memory) + bytes, kGapBytes);
#endif
  return memory;
}

void free_buffer(void* memory, [[maybe_unused]] size_t bytes) {
#ifdef FA_SIMT_ASAN
  __asan_unpoison_memory_region(static_cast<char*>(memory) + bytes, kGapBytes);
#endif
  ::operator delete(memory, std::align_val_t(kBufferAlignment));
}

RegisteredBuffer::RegisteredBuffer(const void* data, size_t bytes, std::string name,
                                   size_t element_bytes, size_t near) {
  const std::lock_guard lock(registry().mutex);
  const uint64_t begin = to_integer(data);
  id_ = registry().next_id++;
  registry().ranges.insert({id_, {begin, begin + bytes, element_bytes, near, std::move(name)}});
}

RegisteredBuffer::~RegisteredBuffer() {
  const std::lock_guard lock(registry().mutex);
  registry().ranges.erase(id_);
}

std::string describe_address(const void* address) {
  const uint64_t at = to_integer(address);
  const std::lock_guard lock(registry().mutex);
  const GlobalRange* nearest = nullptr;
  uint64_t nearest_distance = std::numeric_limits<uint64_t>::max();
  for (const auto& [id, range] : registry().ranges) {
    uint64_t distance = 0;
    if (at < range.begin) distance = range.begin - at;
    if (at >= range.end) distance = at - range.end + 1;
    if (distance < nearest_distance && distance < range.near) {
      nearest_distance = distance;
      nearest = &range;
    }
  }
  if (nearest == nullptr) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(at));
    return text;
  }
  const auto element = static_cast<int64_t>(nearest->element_bytes);
  const int64_t bytes = static_cast<int64_t>(at - nearest->begin);
  const int64_t index = bytes >= 0 ? bytes / element : -((-bytes + element - 1) / element);
  return nearest->name + "[" + std::to_string(index) + "]";
}

GlobalMemory GlobalMemory::snapshot() {
  GlobalMemory memory;
  const std::lock_guard lock(registry().mutex);
  for (const auto& [id, range] : registry().ranges) memory.ranges_.push_back(range);
  return memory;
}

bool GlobalMemory::contains(uint64_t address, size_t bytes, size_t& hint) const {
  const auto fits = [&](const GlobalRange& range) {
    return address >= range.begin && address <= range.end && bytes <= range.end - address;
  };
  if (hint < ranges_.size() && fits(ranges_[hint])) return true;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (fits(ranges_[i])) {
      hint = i;
      return true;
    }
  }
  return false;
}

}  // namespace fa::simt
