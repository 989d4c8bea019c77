#pragma once
// cuBLAS's matrix products, for programs that compare their kernels with them. The host computes
// them with sums in double, in the library's column-major order, and counts nothing.

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

typedef struct EmucudaBlas* cublasHandle_t;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75, CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
typedef cudaDataType cudaDataType_t;

static inline cublasStatus_t cublasCreate(cublasHandle_t* handle) { return *handle = nullptr, CUBLAS_STATUS_SUCCESS; }
static inline cublasStatus_t cublasDestroy(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
static inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
static inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }

// The host reads or writes this buffer of the device: --once must know.
extern "C" void emucudaHostUses(const void* buffer);

static inline double emucuda_blas_read(const void* p, long long i, cudaDataType type) {
  if (type == CUDA_R_32F) return ((const float*)p)[i];
  return type == CUDA_R_16F ? __half2float(((const __half*)p)[i]) : __bfloat162float(((const __nv_bfloat16*)p)[i]);
}
static inline void emucuda_blas_write(void* p, long long i, cudaDataType type, double value) {
  if (type == CUDA_R_32F) ((float*)p)[i] = (float)value;
  if (type == CUDA_R_16F) ((__half*)p)[i] = __float2half((float)value);
  if (type == CUDA_R_16BF) ((__nv_bfloat16*)p)[i] = __float2bfloat16((float)value);
}

static inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType a_type, int lda, long long a_stride, const void* b,
    cudaDataType b_type, int ldb, long long b_stride, const void* beta, void* c, cudaDataType c_type, int ldc,
    long long c_stride, int batches, cublasComputeType_t compute, cublasGemmAlgo_t) {
  const cudaDataType scalar = compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F : CUDA_R_32F;
  emucudaHostUses(a), emucudaHostUses(b), emucudaHostUses(c);
  const double scale = emucuda_blas_read(alpha, 0, scalar), keep = emucuda_blas_read(beta, 0, scalar);
  for (long long batch = 0; batch < batches; ++batch) {
    for (long long column = 0; column < n; ++column) {
      for (long long row = 0; row < m; ++row) {
        double sum = 0;
        for (long long i = 0; i < k; ++i) {
          const long long at_a = transpose_a == CUBLAS_OP_N ? row + i * lda : i + row * lda;
          const long long at_b = transpose_b == CUBLAS_OP_N ? i + column * ldb : column + i * ldb;
          sum += emucuda_blas_read(a, batch * a_stride + at_a, a_type) *
                 emucuda_blas_read(b, batch * b_stride + at_b, b_type);
        }
        const long long at = batch * c_stride + row + column * ldc;
        const double old = keep == 0 ? 0 : keep * emucuda_blas_read(c, at, c_type);
        emucuda_blas_write(c, at, c_type, scale * sum + old);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
static inline cublasStatus_t cublasGemmEx(
    cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type, int ldb,
    const void* beta, void* c, cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                    ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
static inline cublasStatus_t cublasSgemmStridedBatched(
    cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m, int n, int k,
    const float* alpha, const float* a, int lda, long long a_stride, const float* b, int ldb, long long b_stride,
    const float* beta, float* c, int ldc, long long c_stride, int batches) {
  return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a, CUDA_R_32F, lda, a_stride, b,
                                    CUDA_R_32F, ldb, b_stride, beta, c, CUDA_R_32F, ldc, c_stride, batches,
                                    CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
static inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a,
                                         cublasOperation_t transpose_b, int m, int n, int k, const float* alpha,
                                         const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                                         int ldc) {
  return cublasSgemmStridedBatched(handle, transpose_a, transpose_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c,
                                   ldc, 0, 1);
}
static inline cublasStatus_t cublasSgemv(cublasHandle_t handle, cublasOperation_t transpose, int m, int n,
                                         const float* alpha, const float* a, int lda, const float* x, int x_stride,
                                         const float* beta, float* y, int y_stride) {
  if (x_stride != 1 || y_stride != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  const int rows = transpose == CUBLAS_OP_N ? m : n, columns = transpose == CUBLAS_OP_N ? n : m;
  return cublasSgemm(handle, transpose, CUBLAS_OP_N, rows, 1, columns, alpha, a, lda, x, columns, beta, y, rows);
}
