#pragma once
// Creating a handle, for programs that make one and multiply without it.

#include "cublas_v2.h"

typedef struct EmucudaBlasLt* cublasLtHandle_t;
static inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return *handle = nullptr, CUBLAS_STATUS_SUCCESS; }
static inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
