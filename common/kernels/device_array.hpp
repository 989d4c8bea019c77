#pragma once
// An array in the memory of the device that runs the kernels.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/gpu/runtime.hpp"
#include "common/simt/buffer.hpp"

namespace fa {

template <class T>
class DeviceArray {
 public:
  DeviceArray(bool gpu, int64_t size, const std::string& name) : size_(size) {
    if (gpu) {
      gpu_ = std::make_unique<GpuBuffer>(size * sizeof(T), name);
    } else {
      emulator_ = std::make_unique<simt::Buffer<T>>(size, name);
    }
  }
  DeviceArray(bool gpu, const std::vector<T>& values, const std::string& name)
      : DeviceArray(gpu, std::ssize(values), name) {
    if (gpu) {
      gpu_->upload(values.data());
    } else {
      std::copy(values.begin(), values.end(), emulator_->begin());
    }
  }
  T* data() { return gpu_ ? static_cast<T*>(gpu_->data()) : emulator_->data(); }
  std::vector<T> values() const {
    if (emulator_) return {emulator_->begin(), emulator_->end()};
    std::vector<T> values(size_);
    gpu_->download(values.data());
    return values;
  }

 private:
  int64_t size_;
  std::unique_ptr<GpuBuffer> gpu_;
  std::unique_ptr<simt::Buffer<T>> emulator_;
};

}  // namespace fa
