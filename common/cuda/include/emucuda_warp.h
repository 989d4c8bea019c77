#pragma once
// Conversions of addresses; warp-wide functions whose versions in clang 19's headers pass their
// arguments in the wrong order.

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
