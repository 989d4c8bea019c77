// The addresses of cudaMalloc's buffers: one range of 64 TB, reserved at the first cudaMalloc, with
// 16 GB after each buffer that belong to no other one. So a program gets the same addresses in each
// run, and an index that is wrong by less than 2^32 floats hits no other buffer. A freed buffer
// keeps its addresses until the range is used up, so that a late access does not hit another buffer
// either. Reserving takes no memory: the system gives pages when they are written.

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <new>

#include "common/cuda/runtime.hpp"
#include "common/simt/buffer.hpp"

namespace emucuda {

namespace {

constexpr size_t kPage = 1 << 16;  // a multiple of every system's
constexpr size_t kArenaBytes = size_t{1} << 46, kLeastArenaBytes = size_t{1} << 36;
constexpr size_t kBuffers = 4096;  // number of gaps
// Far from where Linux places programs and libraries.
constexpr uintptr_t kHint = uintptr_t{1} << 44;
// Buffers do not begin at a multiple of the gap, because the same sets of every cache and of
// GlobalShadow would be theirs.
constexpr size_t kStagger = 9 * kPage;

class Arena {
 public:
  Arena() {
    for (bytes_ = kArenaBytes; bytes_ >= kLeastArenaBytes; bytes_ /= 4) {
      if (reserve(MAP_FIXED_NOREPLACE) || reserve(0)) return;
    }
    bytes_ = 0;
  }

  size_t gap() const { return bytes_ / kBuffers; }

  // Returns nullptr if all addresses are in use, and says so the first time.
  void* take(size_t bytes) {
    char* begin = nullptr;
    size_t size = (bytes + kPage - 1) / kPage * kPage;
    if (size + gap() + kStagger <= bytes_ - used_) {
      begin = begin_ + used_;
      used_ += size + gap() + kStagger;
      sizes_[begin] = size;
    } else {  // the addresses that were freed first
      for (auto at = freed_.begin(); at != freed_.end(); ++at) {
        if (sizes_[*at] < size) continue;
        begin = *at;
        freed_.erase(at);
        break;
      }
    }
    if (begin == nullptr && !full_) {
      full_ = true;
      std::fprintf(stderr, bytes_ == 0
                               ? "emucuda: this system reserves no addresses, so a wild index may "
                                 "hit another buffer, and not the same one in each run\n"
                               : "emucuda: there are more than 4096 buffers, so a wild index "
                                 "may hit another one\n");
    }
    if (begin != nullptr && mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) {
      freed_.push_back(begin);
      throw std::bad_alloc();
    }
    return begin;
  }

  // Returns false if the memory is not from take().
  bool give_back(void* memory) {
    const auto found = sizes_.find(static_cast<char*>(memory));
    if (found == sizes_.end()) return false;
    const auto& [begin, size] = *found;
    madvise(begin, size, MADV_DONTNEED);  // the system has its memory again
    mprotect(begin, size, PROT_NONE);
    freed_.push_back(begin);
    return true;
  }

 private:
  bool reserve(int flags) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is there yet
    auto* const hint = reinterpret_cast<void*>(kHint);
    void* const memory =
        mmap(hint, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    if (memory != MAP_FAILED) begin_ = static_cast<char*>(memory);
    return memory != MAP_FAILED;
  }

  char* begin_ = nullptr;
  size_t bytes_ = 0, used_ = 0;
  bool full_ = false;
  std::map<char*, size_t> sizes_;  // of all buffers so far
  std::list<char*> freed_;         // the oldest first
};

Arena& arena() {
  static Arena& instance = *new Arena;  // destructors of the program may still call cudaFree
  return instance;
}

}  // namespace

void* allocate_in_arena(size_t bytes) {
  if (void* const memory = arena().take(bytes)) return memory;
  return fa::simt::allocate_buffer(bytes);
}

void free_in_arena(void* memory, size_t bytes) {
  if (!arena().give_back(memory)) fa::simt::free_buffer(memory, bytes);
}

size_t arena_gap() { return arena().gap(); }

}  // namespace emucuda
