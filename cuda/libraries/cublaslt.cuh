#pragma once
// cuBLASLt, which is opened at its first use: it takes half a gigabyte, and a program that never
// multiplies on a GPU does not load it.
#include <cublasLt.h>

#include <hero/cuda/runtime/runtime.cuh>

// clang-format off
#define HERO_CUBLASLT_FUNCTIONS(X) \
  X(Create) X(GetStatusName) X(Matmul) X(MatmulAlgoGetHeuristic) \
  X(MatmulAlgoConfigGetAttribute) \
  X(MatmulDescCreate) X(MatmulDescDestroy) X(MatmulDescSetAttribute) \
  X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatrixLayoutSetAttribute) \
  X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute)
// clang-format on

namespace hero::cuda {

/// The functions of the library that cuda/ calls, without their prefix.
struct Cublaslt {
#define HERO_CUBLASLT_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
  HERO_CUBLASLT_FUNCTIONS(HERO_CUBLASLT_MEMBER)
#undef HERO_CUBLASLT_MEMBER
};

/// The library. The first call opens it: the file that HERO_CUBLASLT names, else the one of the
/// toolkit's version in the system's library folders or in /usr/local/cuda. Throws an Error if
/// there is none; the next call tries again.
const Cublaslt& cublaslt();

/// Throws an Error if `status` is an error: "op: cuBLASLt reports its name".
void check_cublaslt(cublasStatus_t status, const char* op);

}  // namespace hero::cuda
