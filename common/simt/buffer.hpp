#pragma once
// "Global memory" of the emulator: host memory that kernels may touch, each piece with a name.
// An access outside every registered buffer is an out_of_bounds hazard, never a crash.

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

namespace fa::simt {

/// cudaMalloc aligns to 256 bytes; so do we, or sector counts and alignment checks would differ.
inline constexpr size_t kBufferAlignment = 256;

/// Memory for a buffer, aligned so, with bytes behind it that no other buffer has: an address
/// beyond its end, as in a copy filled with zeros, is named after it and not after a neighbour.
void* allocate_buffer(size_t bytes);
void free_buffer(void* memory, size_t bytes);

/// Registers memory that somebody else owns, for as long as the object lives.
class RegisteredBuffer {
 public:
  /// `element_bytes` only makes messages say "K[17]" instead of "K byte 34".
  RegisteredBuffer(const void* data, size_t bytes, std::string name, size_t element_bytes = 1);
  ~RegisteredBuffer();
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;

 private:
  uint64_t id_;  // not the address: a view of a buffer's beginning has the same
};

/// "K[17]" for an address in, or shortly behind or before, a registered buffer; else "0x7f…".
std::string describe_address(const void* address);

/// An owning, aligned, registered array of plain values, value-initialised (zeros).
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
