#pragma once
// cuBLASLt, opened when it is first needed: it takes half a gigabyte, and a program that never
// multiplies on a GPU does without it.
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

/// The library; the first call opens it: the file that HERO_CUBLASLT names, else the one of the
/// toolkit's version, where the system looks for libraries or in /usr/local/cuda. Throws where
/// there is none, and tries anew in the next call.
const Cublaslt& cublaslt();

/// Throws when `status` is an error: "op: cuBLASLt reports its name".
void check_cublaslt(cublasStatus_t status, const char* op);

}  // namespace hero::cuda
