#include <cstdlib>

#include <hero/cuda/libraries/cublaslt.cuh>
#include <hero/cuda/runtime/dynamic_library.h>

namespace hero::cuda {

namespace {

constexpr LibrarySource kCublasLtSource{.op = "matmul",
                                        .title = "cuBLASLt",
                                        .user = "products on a GPU need",
                                        .package = "the CUDA toolkit's cuBLAS",
                                        .variable = "HERO_CUBLASLT",
                                        .file = "libcublasLt.so",
                                        .version = CUBLAS_VER_MAJOR,
                                        .otherwise = ""};

Cublaslt open_cublaslt() {
  Cublaslt functions;
#if defined(HERO_CUSIM)
  if (!std::getenv(kCublasLtSource.variable)) {  // the one of tests/cusim is part of the program
#define HERO_CUBLASLT_LINKED(name) functions.name = &cublasLt##name;
    HERO_CUBLASLT_FUNCTIONS(HERO_CUBLASLT_LINKED)
#undef HERO_CUBLASLT_LINKED
    return functions;
  }
#endif
  const DynamicLibrary library(kCublasLtSource);
#define HERO_CUBLASLT_FIND(name) library.find("cublasLt" #name, functions.name);
  HERO_CUBLASLT_FUNCTIONS(HERO_CUBLASLT_FIND)
#undef HERO_CUBLASLT_FIND
  return functions;
}

}  // namespace

const Cublaslt& cublaslt() {
  static const Cublaslt functions = open_cublaslt();
  return functions;
}

void check_cublaslt(cublasStatus_t status, const char* op) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail(op, ": cuBLASLt reports ", cublaslt().GetStatusName(status));
}

}  // namespace hero::cuda
