// The GPT's kernels on a GPU, with cuBLAS's products.

#include <cublasLt.h>

#include <map>
#include <string>
#include <utility>

#include "common/gpu/runtime.hpp"
#include "common/kernels/geometry.hpp"

namespace gpu::ch20 {

inline void check(cublasStatus_t status, const char* expression) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(expression) + " failed: " + cublasLtGetStatusString(status));
}
#define FA_CUBLAS_CHECK(expression) ::gpu::ch20::check((expression), #expression)

// cuBLAS uses column-major matrices, so a row-major matrix is the transpose of one of theirs.
// Therefore Y = X W is computed as Y.T = W.T X.T, which is the same in memory. The operations after
// a product (bias, GELU, their gradients) are done in its epilogue, while the tile is in registers
// (cuBLASLt, epilogues).
class Products {
 public:
  Products() : workspace_(kWorkspace, "workspace of the products") {
    FA_CUBLAS_CHECK(cublasLtCreate(&handle_));
  }
  ~Products() {
    for (auto& [key, plan] : plans_) {
      cublasLtMatmulDescDestroy(plan.operation);
      for (const cublasLtMatrixLayout_t layout : plan.layouts) cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtDestroy(handle_);
  }
  Products(const Products&) = delete;

  // Same as in device_emulator.cpp.
  void linear(const bf16* X, const bf16* W, const bf16* b, bf16* Y, int64_t rows, int64_t in,
              int64_t out) {
    run({out, rows, in, false, false, CUDA_R_16BF, CUBLASLT_EPILOGUE_BIAS}, W, X, Y, b);
  }
  void linear(const bf16* X, const bf16* W, const float* b, float* Y, int64_t rows, int64_t in,
              int64_t out) {
    run({out, rows, in, false, false, CUDA_R_32F, CUBLASLT_EPILOGUE_BIAS}, W, X, Y, b);
  }
  void linear_gelu(const bf16* X, const bf16* W, const bf16* b, bf16* hidden, bf16* Y, int64_t rows,
                   int64_t in, int64_t out) {
    run({out, rows, in, false, false, CUDA_R_16BF, CUBLASLT_EPILOGUE_GELU_AUX_BIAS}, W, X, Y, b,
        hidden);
  }
  void input_gradient(const bf16* dY, const bf16* W, bf16* dX, const bf16* hidden, int64_t rows,
                      int64_t in, int64_t out) {
    run({in, rows, out, true, false, CUDA_R_16BF,
         hidden != nullptr ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT},
        W, dY, dX, nullptr, const_cast<bf16*>(hidden));
  }
  void weight_gradient(const bf16* X, const bf16* dY, float* dW, float* db, int64_t rows,
                       int64_t in, int64_t out) {
    run({out, in, rows, false, true, CUDA_R_32F,
         db != nullptr ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_DEFAULT},
        dY, X, dW, db);
  }

 private:
  static constexpr size_t kWorkspace = size_t{32} << 20;

  // D [m, n] = op(A) op(B) with k terms each.
  struct Product {
    int64_t m, n, k;
    bool transposed_a, transposed_b;
    cudaDataType_t type;
    cublasLtEpilogue_t epilogue;
    auto operator<=>(const Product&) const = default;
  };
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t layouts[3] = {};  // A, B, D
    cublasLtMatmulAlgo_t algorithm = {};
    bool found = false;
  };

  void run(const Product& product, const void* A, const void* B, void* D, const void* bias,
           void* aux = nullptr) {
    Plan& plan = plans_[product];
    if (plan.operation == nullptr) describe(product, plan);
    if (bias != nullptr) set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (aux != nullptr) set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    if (!plan.found) find(product, plan);
    const float one = 1, zero = 0;
    FA_CUBLAS_CHECK(cublasLtMatmul(handle_, plan.operation, &one, A, plan.layouts[0], B,
                                   plan.layouts[1], &zero, D, plan.layouts[2], D, plan.layouts[2],
                                   &plan.algorithm, workspace_.data(), kWorkspace,
                                   current_stream()));
  }

  template <class T>
  static void set(Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    FA_CUBLAS_CHECK(
        cublasLtMatmulDescSetAttribute(plan.operation, attribute, &value, sizeof value));
  }

  void describe(const Product& p, Plan& plan) const {
    FA_CUBLAS_CHECK(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(plan, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transposed_a));
    set(plan, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transposed_b));
    set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    if (p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || p.epilogue == CUBLASLT_EPILOGUE_DGELU) {
      set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.m);
    }
    const auto layout = [](cublasLtMatrixLayout_t& to, cudaDataType_t type, int64_t rows,
                           int64_t cols, bool transposed) {
      if (transposed) std::swap(rows, cols);
      FA_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&to, type, rows, cols, rows));
    };
    layout(plan.layouts[0], CUDA_R_16BF, p.m, p.k, p.transposed_a);
    layout(plan.layouts[1], CUDA_R_16BF, p.k, p.n, p.transposed_b);
    layout(plan.layouts[2], p.type, p.m, p.n, false);
  }

  // Takes cuBLAS's first choice for pointers that are multiples of 16 bytes.
  void find(const Product& p, Plan& plan) {
    cublasLtMatmulPreference_t preference = nullptr;
    FA_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      FA_CUBLAS_CHECK(
          cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, uint32_t{16});
    }
    cublasLtMatmulHeuristicResult_t result = {};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, plan.operation, plan.layouts[0], plan.layouts[1], plan.layouts[2], plan.layouts[2],
        preference, 1, &result, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    FA_CUBLAS_CHECK(status);
    if (count == 0) {
      throw std::runtime_error("cuBLAS has no product of " + std::to_string(p.m) + " x " +
                               std::to_string(p.k) + " x " + std::to_string(p.n));
    }
    plan.algorithm = result.algo;
    plan.found = true;
  }

  fa::GpuBuffer workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Product, Plan> plans_;
};

}  // namespace gpu::ch20

#include "device_model.hpp"

namespace fa::ch20 {

std::unique_ptr<DeviceGpt> make_gpu_gpt(const Recipe& recipe, const AttentionKernels& kernels) {
  if (const std::string why = gpu_problem(kernels); !why.empty()) throw InputError(why);
  gpu::ch20::check_recipe(recipe, kernels);
  return std::make_unique<gpu::ch20::Model>(recipe, kernels, *kernels.forward.gpu,
                                            *kernels.backward.gpu);
}

}  // namespace fa::ch20
