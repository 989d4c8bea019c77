#pragma once
// "Global memory" of the emulator consists of named pieces of host memory that kernels may access.
// An access outside all registered buffers is an out_of_bounds hazard and never a crash.

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

namespace fa::simt {

/// The alignment of cudaMalloc. With another one, sector counts and alignment checks would differ.
inline constexpr size_t kBufferAlignment = 256;

/// Allocates memory with that alignment. Some bytes after it belong to no other buffer, so that an
/// address beyond its end, as in a zero-filled copy, is reported under its name and not a
/// neighbour's.
void* allocate_buffer(size_t bytes);
void free_buffer(void* memory, size_t bytes);

/// Registers memory that the caller owns, for the lifetime of this object.
class RegisteredBuffer {
 public:
  /// `element_bytes` and `near` only serve messages, which print "K[17]" instead of "K byte 34",
  /// also for an address that is closer than `near` to the buffer.
  RegisteredBuffer(const void* data, size_t bytes, std::string name, size_t element_bytes = 1,
                   size_t near = 1 << 20);
  ~RegisteredBuffer();
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;

 private:
  uint64_t id_;  // not the address, because a view of the first bytes of a buffer has the same
                 // address
};

/// Returns "K[17]" for an address in or near a registered buffer, and "0x7f…" for any other.
std::string describe_address(const void* address);

/// A registered, aligned array of plain values, initialized to zero.
template <class T>
class Buffer {
 public:
  Buffer(size_t size, const std::string& name)
      : size_(size),
        data_(static_cast<T*>(allocate_buffer(bytes()))),
        registered_(std::in_place, data_, bytes(), name, sizeof(T)) {
    for (size_t i = 0; i < size_; ++i) ::new (static_cast<void*>(data_ + i)) T{};
  }
  ~Buffer() {
    registered_.reset();
    free_buffer(data_, bytes());
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  size_t size_;
  T* data_;
  std::optional<RegisteredBuffer> registered_;
};

}  // namespace fa::simt
