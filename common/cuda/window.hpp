#pragma once
// The addresses of shared memory in a CUDA file, at which the host has no memory.

#include <cstdint>

namespace emucuda {

/// A generic pointer to shared memory is this number plus the emulator's 32-bit shared address.
inline constexpr uint64_t kSharedWindow =
    sizeof(void*) == 4 ? uint64_t{7} << 29 : uint64_t{1} << 48;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << (sizeof(void*) == 4 ? 29 : 32);
/// The shared address of a block's first byte, fa::simt::kSharedBase.
inline constexpr uint32_t kFirstSharedAddress = 1024;

}  // namespace emucuda
