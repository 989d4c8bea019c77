#pragma once
// Typed memory of the device that runs kernels, which is the GPU or the emulator, for host code
// that is compiled once per backend.

#include <cstring>
#include <span>
#include <string>

#include "common/backend.hpp"
#if defined(__CUDACC__)
#include "common/gpu/runtime.hpp"
#else
#include "common/simt/buffer.hpp"
#endif

namespace FA_BACKEND {

// An array of `size` uninitialized elements. Throws fa::OutOfMemory if there is too little memory.
#if defined(__CUDACC__)
template <class T>
class Array : public fa::GpuBuffer {
 public:
  Array(int64_t size, const std::string& name)
      : fa::GpuBuffer(static_cast<size_t>(size) * sizeof(T), name), size_(size) {}
  T* data() const { return static_cast<T*>(GpuBuffer::data()); }
  int64_t size() const { return size_; }
  void upload(std::span<const T> from) { GpuBuffer::upload(from.data()); }
  void download(std::span<T> to) const { GpuBuffer::download(to.data()); }

 private:
  int64_t size_;
};
#else
template <class T>
class Array : public fa::simt::Buffer<T> {
 public:
  Array(int64_t size, const std::string& name)
      : fa::simt::Buffer<T>(static_cast<size_t>(size), name) {
    std::memset(static_cast<void*>(data()), 0xff, this->bytes());  // NaN
  }
  // Const, as a pointer to GPU memory would be, because the array does not track who writes through
  // it.
  T* data() const { return const_cast<Array*>(this)->fa::simt::Buffer<T>::data(); }
  int64_t size() const { return static_cast<int64_t>(fa::simt::Buffer<T>::size()); }
  void upload(std::span<const T> from) { std::copy(from.begin(), from.end(), data()); }
  void download(std::span<T> to) const { std::copy_n(data(), to.size(), to.begin()); }
};
#endif

}  // namespace FA_BACKEND
