#pragma once
// CUDA's vector types, with its sizes and alignments, and the make_ functions.

#define EMUCUDA_VECTOR(name, type, a2, a4)                                                   \
  struct name##1 {                                                                           \
    type x;                                                                                  \
  };                                                                                         \
  struct alignas(a2) name##2 {                                                               \
    type x, y;                                                                               \
  };                                                                                         \
  struct name##3 {                                                                           \
    type x, y, z;                                                                            \
  };                                                                                         \
  struct alignas(a4) name##4 {                                                               \
    type x, y, z, w;                                                                         \
  };                                                                                         \
  static inline __host__ __device__ name##1 make_##name##1(type x) { return {x}; }           \
  static inline __host__ __device__ name##2 make_##name##2(type x, type y) { return {x, y}; } \
  static inline __host__ __device__ name##3 make_##name##3(type x, type y, type z) {         \
    return {x, y, z};                                                                        \
  }                                                                                          \
  static inline __host__ __device__ name##4 make_##name##4(type x, type y, type z, type w) { \
    return {x, y, z, w};                                                                     \
  }
EMUCUDA_VECTOR(char, signed char, 2, 4)
EMUCUDA_VECTOR(uchar, unsigned char, 2, 4)
EMUCUDA_VECTOR(short, short, 4, 8)
EMUCUDA_VECTOR(ushort, unsigned short, 4, 8)
EMUCUDA_VECTOR(int, int, 8, 16)
EMUCUDA_VECTOR(uint, unsigned, 8, 16)
EMUCUDA_VECTOR(long, long, 16, 16)
EMUCUDA_VECTOR(ulong, unsigned long, 16, 16)
EMUCUDA_VECTOR(longlong, long long, 16, 16)
EMUCUDA_VECTOR(ulonglong, unsigned long long, 16, 16)
EMUCUDA_VECTOR(float, float, 8, 16)
EMUCUDA_VECTOR(double, double, 16, 16)
#undef EMUCUDA_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr __host__ __device__ dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x(x_), y(y_), z(z_) {}
  constexpr __host__ __device__ dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr __host__ __device__ operator uint3() const { return {x, y, z}; }
};
