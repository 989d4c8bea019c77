#pragma once
// Included by clang's __clang_cuda_intrinsics.h.

extern "C" __device__ void emucuda_nanosleep(unsigned ns);
__device__ static inline void __nanosleep(unsigned ns) { emucuda_nanosleep(ns); }

#define EMUCUDA_MATCH(T, width, U)                                                        \
  __device__ static inline unsigned __match_any_sync(unsigned mask, T value) {            \
    U bits = 0;                                                                           \
    memcpy(&bits, &value, sizeof value);                                                  \
    return __match##width##_any_sync(mask, bits);                                         \
  }                                                                                       \
  __device__ static inline unsigned __match_all_sync(unsigned mask, T value, int* same) { \
    U bits = 0;                                                                           \
    memcpy(&bits, &value, sizeof value);                                                  \
    return __match##width##_all_sync(mask, bits, same);                                   \
  }
EMUCUDA_MATCH(int, 32, unsigned)
EMUCUDA_MATCH(unsigned, 32, unsigned)
EMUCUDA_MATCH(float, 32, unsigned)
EMUCUDA_MATCH(long, 64, unsigned long long)
EMUCUDA_MATCH(unsigned long, 64, unsigned long long)
EMUCUDA_MATCH(long long, 64, unsigned long long)
EMUCUDA_MATCH(unsigned long long, 64, unsigned long long)
EMUCUDA_MATCH(double, 64, unsigned long long)
#undef EMUCUDA_MATCH
