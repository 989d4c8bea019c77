#pragma once
// Device functions that clang's own CUDA headers leave to the toolkit's.

extern "C" {
__device__ int vprintf(const char*, const char*);
__device__ void free(void*) __attribute__((nothrow));
__device__ void* malloc(size_t) __attribute__((nothrow)) __attribute__((malloc));
__device__ void __assertfail(const char* message, const char* file, unsigned line,
                             const char* function, size_t char_size);
__device__ static inline void __assert_fail(const char* message, const char* file, unsigned line,
                                            const char* function) {
  __assertfail(message, file, line, function, sizeof(char));
}
__device__ int printf(const char*, ...);
}
namespace std {
__device__ static inline void free(void* p) { ::free(p); }
__device__ static inline void* malloc(size_t size) { return ::malloc(size); }
}  // namespace std

#define EMUCUDA_PLACE(name)                                                              \
  __device__ inline __cuda_builtin_##name##_t::operator dim3() const { return {x, y, z}; } \
  __device__ inline __cuda_builtin_##name##_t::operator uint3() const { return {x, y, z}; }
EMUCUDA_PLACE(threadIdx)
EMUCUDA_PLACE(blockIdx)
#undef EMUCUDA_PLACE
__device__ inline __cuda_builtin_blockDim_t::operator dim3() const { return {x, y, z}; }
__device__ inline __cuda_builtin_blockDim_t::operator uint3() const { return {x, y, z}; }
__device__ inline __cuda_builtin_gridDim_t::operator dim3() const { return {x, y, z}; }
__device__ inline __cuda_builtin_gridDim_t::operator uint3() const { return {x, y, z}; }

// Without the overloads for floats clang takes its version for int, without a warning.
#define EMUCUDA_MIN_MAX(attribute, T)                                        \
  attribute static inline T min(T a, T b) { return b < a ? b : a; }          \
  attribute static inline T max(T a, T b) { return a < b ? b : a; }
#define EMUCUDA_MIN_MAX_FLOAT(a, b, T, f)                                               \
  __device__ static inline T min(a x, b y) { return __builtin_fmin##f((T)x, (T)y); }    \
  __device__ static inline T max(a x, b y) { return __builtin_fmax##f((T)x, (T)y); }    \
  __host__ static inline T min(a x, b y) { return __builtin_fmin##f((T)x, (T)y); }      \
  __host__ static inline T max(a x, b y) { return __builtin_fmax##f((T)x, (T)y); }
#define EMUCUDA_MIN_MAX_MIXED(a, b, T)                                                          \
  __host__ __device__ static inline T min(a x, b y) { return (T)y < (T)x ? (T)y : (T)x; }       \
  __host__ __device__ static inline T max(a x, b y) { return (T)x < (T)y ? (T)y : (T)x; }
EMUCUDA_MIN_MAX(__host__, int)
EMUCUDA_MIN_MAX(__host__ __device__, unsigned)
EMUCUDA_MIN_MAX(__host__ __device__, long)
EMUCUDA_MIN_MAX(__host__ __device__, unsigned long)
EMUCUDA_MIN_MAX(__host__ __device__, long long)
EMUCUDA_MIN_MAX(__host__ __device__, unsigned long long)
EMUCUDA_MIN_MAX_MIXED(int, unsigned, unsigned)
EMUCUDA_MIN_MAX_MIXED(unsigned, int, unsigned)
EMUCUDA_MIN_MAX_MIXED(long, unsigned long, unsigned long)
EMUCUDA_MIN_MAX_MIXED(unsigned long, long, unsigned long)
EMUCUDA_MIN_MAX_FLOAT(float, float, float, f)
EMUCUDA_MIN_MAX_FLOAT(double, double, double, )
EMUCUDA_MIN_MAX_FLOAT(float, double, double, )
EMUCUDA_MIN_MAX_FLOAT(double, float, double, )
#undef EMUCUDA_MIN_MAX
#undef EMUCUDA_MIN_MAX_FLOAT
#undef EMUCUDA_MIN_MAX_MIXED

__device__ static inline float rsqrt(float a) { return rsqrtf(a); }

// Atomic operations are relaxed, and their scope makes no difference here.
#define EMUCUDA_ATOMIC(name, builtin, T)                                 \
  __device__ static inline T atomic##name(T* p, T value) {               \
    return __atomic_##builtin(p, value, __ATOMIC_RELAXED);               \
  }                                                                      \
  __device__ static inline T atomic##name##_block(T* p, T value) {       \
    return __atomic_##builtin(p, value, __ATOMIC_RELAXED);               \
  }                                                                      \
  __device__ static inline T atomic##name##_system(T* p, T value) {      \
    return __atomic_##builtin(p, value, __ATOMIC_RELAXED);               \
  }
#define EMUCUDA_ATOMIC_INTEGERS(name, builtin)  \
  EMUCUDA_ATOMIC(name, builtin, int)            \
  EMUCUDA_ATOMIC(name, builtin, unsigned)       \
  EMUCUDA_ATOMIC(name, builtin, unsigned long)  \
  EMUCUDA_ATOMIC(name, builtin, unsigned long long)
EMUCUDA_ATOMIC_INTEGERS(Add, fetch_add)
EMUCUDA_ATOMIC(Add, fetch_add, float)
EMUCUDA_ATOMIC(Add, fetch_add, double)
EMUCUDA_ATOMIC_INTEGERS(And, fetch_and)
EMUCUDA_ATOMIC_INTEGERS(Or, fetch_or)
EMUCUDA_ATOMIC_INTEGERS(Xor, fetch_xor)
EMUCUDA_ATOMIC_INTEGERS(Min, fetch_min)
EMUCUDA_ATOMIC_INTEGERS(Max, fetch_max)
EMUCUDA_ATOMIC(Min, fetch_min, long long)
EMUCUDA_ATOMIC(Max, fetch_max, long long)
EMUCUDA_ATOMIC_INTEGERS(Exch, exchange_n)
EMUCUDA_ATOMIC(Sub, fetch_sub, int)
EMUCUDA_ATOMIC(Sub, fetch_sub, unsigned)
#undef EMUCUDA_ATOMIC
#undef EMUCUDA_ATOMIC_INTEGERS
#define EMUCUDA_CAS(T)                                                                         \
  __device__ static inline T atomicCAS(T* p, T expected, T desired) {                          \
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return expected;                                                                           \
  }                                                                                            \
  __device__ static inline T atomicCAS_block(T* p, T a, T b) { return atomicCAS(p, a, b); }    \
  __device__ static inline T atomicCAS_system(T* p, T a, T b) { return atomicCAS(p, a, b); }
EMUCUDA_CAS(int)
EMUCUDA_CAS(unsigned)
EMUCUDA_CAS(unsigned long)
EMUCUDA_CAS(unsigned long long)
EMUCUDA_CAS(unsigned short)
#undef EMUCUDA_CAS
__device__ static inline float atomicExch(float* p, float value) {
  return __uint_as_float(atomicExch((unsigned*)p, __float_as_uint(value)));
}
__device__ static inline unsigned atomicInc(unsigned* p, unsigned limit) {
  return __nvvm_atom_inc_gen_ui(p, limit);
}
__device__ static inline unsigned atomicDec(unsigned* p, unsigned limit) {
  return __nvvm_atom_dec_gen_ui(p, limit);
}

// Loads and stores with a hint for the caches. The counters count them like all others.
#define EMUCUDA_CACHED(T)                                           \
  __device__ static inline T __ldcg(const T* p) { return *p; }      \
  __device__ static inline T __ldca(const T* p) { return *p; }      \
  __device__ static inline T __ldcs(const T* p) { return *p; }      \
  __device__ static inline T __ldlu(const T* p) { return *p; }      \
  __device__ static inline T __ldcv(const T* p) { return *(const volatile T*)p; } \
  __device__ static inline void __stcg(T* p, T value) { *p = value; } \
  __device__ static inline void __stcs(T* p, T value) { *p = value; } \
  __device__ static inline void __stwb(T* p, T value) { *p = value; } \
  __device__ static inline void __stwt(T* p, T value) { *p = value; }
EMUCUDA_CACHED(char)
EMUCUDA_CACHED(signed char)
EMUCUDA_CACHED(unsigned char)
EMUCUDA_CACHED(short)
EMUCUDA_CACHED(unsigned short)
EMUCUDA_CACHED(int)
EMUCUDA_CACHED(unsigned)
EMUCUDA_CACHED(long)
EMUCUDA_CACHED(unsigned long)
EMUCUDA_CACHED(long long)
EMUCUDA_CACHED(unsigned long long)
EMUCUDA_CACHED(float)
EMUCUDA_CACHED(double)
#undef EMUCUDA_CACHED
#define EMUCUDA_CACHED_STRUCT(T)                                        \
  __device__ static inline T __ldcg(const T* p) { return *p; }   \
  __device__ static inline T __ldca(const T* p) { return *p; }   \
  __device__ static inline T __ldcs(const T* p) { return *p; }   \
  __device__ static inline void __stcg(T* p, T value) { *p = value; } \
  __device__ static inline void __stcs(T* p, T value) { *p = value; } \
  __device__ static inline void __stwt(T* p, T value) { *p = value; }
EMUCUDA_CACHED_STRUCT(float2)
EMUCUDA_CACHED_STRUCT(float4)
EMUCUDA_CACHED_STRUCT(int2)
EMUCUDA_CACHED_STRUCT(int4)
EMUCUDA_CACHED_STRUCT(uint2)
EMUCUDA_CACHED_STRUCT(uint4)
EMUCUDA_CACHED_STRUCT(double2)
