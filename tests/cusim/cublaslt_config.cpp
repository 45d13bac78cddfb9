// What an algorithm says of itself.
#include <cstring>

#include <cublasLt.h>

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  const auto id = static_cast<int32_t>(algo->data[0]);
  if (attribute != CUBLASLT_ALGO_CONFIG_ID || bytes != sizeof(id)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(value, &id, sizeof(id));
  *written = sizeof(id);
  return CUBLAS_STATUS_SUCCESS;
}
