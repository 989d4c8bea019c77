#pragma once
// Where shared memory is in the addresses of a CUDA file: no memory of the host is there.

#include <cstdint>

namespace emucuda {

/// A generic pointer to shared memory is this number plus the emulator's 32-bit shared address.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 48;
/// The shared address of a block's first byte: fa::simt::kSharedBase.
inline constexpr uint32_t kFirstSharedAddress = 1024;

}  // namespace emucuda
