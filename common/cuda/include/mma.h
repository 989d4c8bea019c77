#pragma once
// nvcuda::wmma for 16 x 16 x 16 products of half and bfloat16, by ldmatrix and two mma.m16n8k16. A
// fragment of an operand has 8 elements per thread here, while a GPU's has 16, each of them twice.

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static_assert(m == 16 && n == 16 && k == 16, "emucuda has fragments of 16 x 16 x 16");
  static constexpr int num_elements = 8;
  static constexpr int num_storage_elements = num_elements;
  typedef T element_type;
  T x[num_elements];
};

namespace detail {
__device__ inline int lane() { return __nvvm_read_ptx_sreg_laneid(); }

// The four 8 x 8 matrices of 16 x 16 elements: (0, 0), (8, 0), (0, 8), (8, 8) as (row, column) of
// the operand. `swap`: memory has the columns as its rows.
template <class T>
__device__ inline void load(T* x, const T* p, unsigned stride, bool swap) {
  unsigned* const words = (unsigned*)x;
  const int t = lane();
  if (__isShared(p) && stride % 8 == 0 && (size_t)p % 16 == 0) {
    const int row = t % 8 + t / 8 % 2 * 8, column = t / 16 * 8;
    const T* from = swap ? p + (column + t % 8) * stride + t / 8 % 2 * 8 : p + row * stride + column;
    const unsigned address = (unsigned)__cvta_generic_to_shared(from);
    if (swap) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
    }
    return;
  }
  for (int i = 0; i < 4; ++i) {
    const int row = t / 4 + i % 2 * 8, column = t % 4 * 2 + i / 2 * 8;
    if (swap) {
      x[2 * i] = p[column * stride + row];
      x[2 * i + 1] = p[(column + 1) * stride + row];
    } else {
      words[i] = *(const unsigned*)(p + row * stride + column);
    }
  }
}

#define EMUCUDA_MMA(T, text)                                                                          \
  __device__ inline void multiply(float* d, const T*, const unsigned* a, unsigned b0, unsigned b1) {  \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." text "." text ".f32 "                       \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                    \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                     \
  }
EMUCUDA_MMA(__half, "f16")
EMUCUDA_MMA(__nv_bfloat16, "bf16")
#undef EMUCUDA_MMA
__device__ inline void multiply(__half* d, const __half*, const unsigned* a, unsigned b0, unsigned b1) {
  unsigned* const words = (unsigned*)d;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
               "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
               : "+r"(words[0]), "+r"(words[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
}  // namespace detail

template <class Use, class T, class Layout, class V>
__device__ inline void fill_fragment(fragment<Use, 16, 16, 16, T, Layout>& f, V value) {
  for (T& x : f.x) x = T(value);
}

template <class T, class Layout>
__device__ inline void load_matrix_sync(fragment<matrix_a, 16, 16, 16, T, Layout>& f, const T* p, unsigned stride) {
  detail::load(f.x, p, stride, __is_same(Layout, col_major));
}
// B's columns are the rows of what mma takes.
template <class T, class Layout>
__device__ inline void load_matrix_sync(fragment<matrix_b, 16, 16, 16, T, Layout>& f, const T* p, unsigned stride) {
  detail::load(f.x, p, stride, __is_same(Layout, row_major));
}
template <class T>
__device__ inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, T>& f, const T* p, unsigned stride,
                                        layout_t layout) {
  const int t = detail::lane();
  for (int i = 0; i < 8; ++i) {
    const int row = t / 4 + i / 2 % 2 * 8, column = t % 4 * 2 + i % 2 + i / 4 * 8;
    f.x[i] = layout == mem_row_major ? p[row * stride + column] : p[column * stride + row];
  }
}
template <class T>
__device__ inline void store_matrix_sync(T* p, const fragment<accumulator, 16, 16, 16, T>& f, unsigned stride,
                                         layout_t layout) {
  const int t = detail::lane();
  struct __attribute__((aligned(2 * sizeof(T)))) Pair {
    T x, y;
  };
  const bool pairs = layout == mem_row_major && stride % 2 == 0 && (size_t)p % sizeof(Pair) == 0;
  for (int i = 0; i < 8; i += 2) {
    const int row = t / 4 + i / 2 % 2 * 8, column = t % 4 * 2 + i / 4 * 8;
    if (pairs) {
      *(Pair*)(p + row * stride + column) = Pair{f.x[i], f.x[i + 1]};
      continue;
    }
    for (int j = 0; j < 2; ++j)
      p[layout == mem_row_major ? row * stride + column + j : (column + j) * stride + row] = f.x[i + j];
  }
}

template <class C, class D, class T, class La, class Lb>
__device__ inline void mma_sync(fragment<accumulator, 16, 16, 16, D>& d, const fragment<matrix_a, 16, 16, 16, T, La>& a,
                                const fragment<matrix_b, 16, 16, 16, T, Lb>& b,
                                const fragment<accumulator, 16, 16, 16, C>& c) {
  for (int i = 0; i < 8; ++i) d.x[i] = c.x[i];
  const unsigned* const words = (const unsigned*)b.x;
  // b's matrices: (n 0, k 0), (n 8, k 0), (n 0, k 8), (n 8, k 8)
  for (int half = 0; half < 2; ++half)
    detail::multiply(d.x + 4 * half, a.x, (const unsigned*)a.x, words[half], words[2 + half]);
}

}  // namespace wmma
}  // namespace nvcuda
