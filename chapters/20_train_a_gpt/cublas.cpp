// cuBLAS, loaded by its first call. It has 500 MB, and a program that is linked with it needs a
// second to start, also for a run on the CPU.

#include <cublasLt.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace {

void* library() {
  static void* const loaded = [] {
    const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* found = dlopen(name.c_str(), RTLD_NOW);
    if (found == nullptr) found = dlopen(FA_CUBLAS, RTLD_NOW);  // where CMake found it
    if (found == nullptr)
      throw std::runtime_error("cuBLAS cannot be loaded: " + std::string(dlerror()));
    return found;
  }();
  return loaded;
}

template <class Function>
Function* real(const char* name) {
  void* const found = dlsym(library(), name);
  if (found == nullptr) throw std::runtime_error("cuBLAS has no " + std::string(name));
  return reinterpret_cast<Function*>(found);
}

}  // namespace

// The functions that device_gpu.cu calls, as cublasLt.h declares them.
#define FORWARD(result, name, parameters, arguments)         \
  result CUBLASWINAPI name parameters {                      \
    static const auto forward = real<decltype(name)>(#name); \
    return forward arguments;                                \
  }

extern "C" {

FORWARD(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))
FORWARD(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))
FORWARD(const char*, cublasLtGetStatusString, (cublasStatus_t status), (status))
FORWARD(cublasStatus_t, cublasLtMatmul,
        (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* A,
         cublasLtMatrixLayout_t A_layout, const void* B, cublasLtMatrixLayout_t B_layout,
         const void* beta, const void* C, cublasLtMatrixLayout_t C_layout, void* D,
         cublasLtMatrixLayout_t D_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
         size_t bytes, cudaStream_t stream),
        (handle, operation, alpha, A, A_layout, B, B_layout, beta, C, C_layout, D, D_layout,
         algorithm, workspace, bytes, stream))
FORWARD(cublasStatus_t, cublasLtMatmulDescSetAttribute,
        (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
         const void* value, size_t bytes),
        (operation, attribute, value, bytes))
FORWARD(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
        (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const void* value, size_t bytes),
        (preference, attribute, value, bytes))
FORWARD(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
        (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t A,
         cublasLtMatrixLayout_t B, cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
         cublasLtMatmulPreference_t preference, int asked,
         cublasLtMatmulHeuristicResult_t results[], int* found),
        (handle, operation, A, B, C, D, preference, asked, results, found))
FORWARD(cublasStatus_t, cublasLtMatmulDescCreate,
        (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute, cudaDataType_t scale),
        (operation, compute, scale))
FORWARD(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation), (operation))
FORWARD(cublasStatus_t, cublasLtMatrixLayoutCreate,
        (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t cols,
         int64_t leading),
        (layout, type, rows, cols, leading))
FORWARD(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))
FORWARD(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference),
        (preference))
FORWARD(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference),
        (preference))

}  // extern "C"
