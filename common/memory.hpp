#pragma once
// Counts exactly what an algorithm allocates. The resident size of the process would also depend on
// the C library and the page size.

#include <atomic>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace fa {

// Returns the bytes that this process may use, which are the machine's memory, or the limit of its
// cgroup (v1 or v2; for example a container's), if that is smaller. Tests set `root`, a prefix of
// /proc and /sys.
double memory_bytes(const std::string& root = "");

// Thrown if an allocation would exceed the limit of the current MemoryProbe.
struct MemoryLimitExceeded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Counts allocations of counted_vectors between its construction and its destruction, on all
// threads. There can be one probe at a time.
class MemoryProbe {
 public:
  explicit MemoryProbe(int64_t limit_bytes = std::numeric_limits<int64_t>::max());
  ~MemoryProbe();
  MemoryProbe(const MemoryProbe&) = delete;

  int64_t peak_bytes() const { return peak_; }
  int64_t current_bytes() const { return current_; }

  // Called by the allocator. Throws MemoryLimitExceeded without counting.
  static void on_allocate(int64_t bytes);
  static void on_free(int64_t bytes);

 private:
  const int64_t limit_;
  std::atomic<int64_t> current_ = 0, peak_ = 0;
};

template <class T>
struct CountingAllocator {
  using value_type = T;
  // a cache line, so that rows are aligned for vector loads
  static constexpr std::align_val_t kAlignment{64};

  CountingAllocator() = default;
  template <class U>
  CountingAllocator(const CountingAllocator<U>&) {}

  T* allocate(size_t count) {
    if (count > std::numeric_limits<int64_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    MemoryProbe::on_allocate(static_cast<int64_t>(count * sizeof(T)));
    try {
      return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
    } catch (...) {
      MemoryProbe::on_free(static_cast<int64_t>(count * sizeof(T)));
      throw;
    }
  }
  void deallocate(T* pointer, size_t count) {
    MemoryProbe::on_free(static_cast<int64_t>(count * sizeof(T)));
    ::operator delete(pointer, kAlignment);
  }
  bool operator==(const CountingAllocator&) const { return true; }
};

// A vector whose memory a MemoryProbe counts; 64-byte aligned.
template <class T>
using counted_vector = std::vector<T, CountingAllocator<T>>;

// Returns for example "1.5 MiB", with three significant digits, binary units.
std::string format_bytes(double bytes);

}  // namespace fa
