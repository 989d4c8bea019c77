#pragma once
// Conversions of addresses, and warp-wide functions whose versions in clang 19's headers pass their
// arguments in the wrong order.

// Overloads for float that clang's headers declare and leave to the toolkit's.
#define EMUCUDA_FLOAT1(name) \
  __device__ static inline float name(float x) { return name##f(x); }
#define EMUCUDA_FLOAT2(name) \
  __device__ static inline float name(float x, float y) { return name##f(x, y); }
EMUCUDA_FLOAT1(acosh)
EMUCUDA_FLOAT1(asinh)
EMUCUDA_FLOAT1(atanh)
EMUCUDA_FLOAT1(cbrt)
EMUCUDA_FLOAT1(erf)
EMUCUDA_FLOAT1(erfc)
EMUCUDA_FLOAT1(exp2)
EMUCUDA_FLOAT1(expm1)
EMUCUDA_FLOAT1(lgamma)
EMUCUDA_FLOAT1(log1p)
EMUCUDA_FLOAT1(log2)
EMUCUDA_FLOAT1(logb)
EMUCUDA_FLOAT1(nearbyint)
EMUCUDA_FLOAT1(rint)
EMUCUDA_FLOAT1(round)
EMUCUDA_FLOAT1(tgamma)
EMUCUDA_FLOAT1(trunc)
EMUCUDA_FLOAT2(copysign)
EMUCUDA_FLOAT2(fdim)
EMUCUDA_FLOAT2(fmax)
EMUCUDA_FLOAT2(fmin)
EMUCUDA_FLOAT2(hypot)
EMUCUDA_FLOAT2(nextafter)
EMUCUDA_FLOAT2(remainder)
#undef EMUCUDA_FLOAT1
#undef EMUCUDA_FLOAT2
__device__ static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
__device__ static inline float scalbn(float x, int n) { return scalbnf(x, n); }

__device__ static inline size_t __cvta_generic_to_shared(const void* p) {
  return (unsigned)__nv_cvta_generic_to_shared_impl(p);
}
__device__ static inline size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
__device__ static inline void* __cvta_shared_to_generic(size_t p) {
  return __nv_cvta_shared_to_generic_impl(p);
}
__device__ static inline void* __cvta_global_to_generic(size_t p) { return (void*)p; }

#define EMUCUDA_REDUCE(name, T, op)                                             \
  __device__ static inline T emucuda_reduce_##name(unsigned mask, T value) {    \
    return __nvvm_redux_sync_##op(value, mask);                                 \
  }
EMUCUDA_REDUCE(add, int, add)
EMUCUDA_REDUCE(add, unsigned, add)
EMUCUDA_REDUCE(min, int, min)
EMUCUDA_REDUCE(min, unsigned, umin)
EMUCUDA_REDUCE(max, int, max)
EMUCUDA_REDUCE(max, unsigned, umax)
EMUCUDA_REDUCE(and, unsigned, and)
EMUCUDA_REDUCE(or, unsigned, or)
EMUCUDA_REDUCE(xor, unsigned, xor)
#undef EMUCUDA_REDUCE
#define __reduce_add_sync emucuda_reduce_add
#define __reduce_min_sync emucuda_reduce_min
#define __reduce_max_sync emucuda_reduce_max
#define __reduce_and_sync emucuda_reduce_and
#define __reduce_or_sync emucuda_reduce_or
#define __reduce_xor_sync emucuda_reduce_xor
