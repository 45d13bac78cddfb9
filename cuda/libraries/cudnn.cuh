#pragma once
// cuDNN, which is opened at its first use, as cuBLASLt is; only its graphs are used.
#include <cudnn_graph.h>

#include <hero/cuda/runtime/runtime.cuh>

// clang-format off
#define HERO_CUDNN_FUNCTIONS(X) \
  X(Create) X(SetStream) X(GetErrorString) X(GetLastErrorString) \
  X(BackendCreateDescriptor) X(BackendDestroyDescriptor) X(BackendFinalize) \
  X(BackendSetAttribute) X(BackendGetAttribute) X(BackendExecute)
// clang-format on

namespace hero::cuda {

/// The functions of the library that cuda/ calls, without their prefix.
struct Cudnn {
#define HERO_CUDNN_MEMBER(name) decltype(&cudnn##name) name = nullptr;
  HERO_CUDNN_FUNCTIONS(HERO_CUDNN_MEMBER)
#undef HERO_CUDNN_MEMBER
};

/// The library. The first call opens it: the file that HERO_CUDNN names, else the one of the
/// headers' version in the system's library folders or in /usr/local/cuda. Throws an Error if there
/// is none; the next call tries again.
const Cudnn& cudnn();

/// Throws an Error if `status` is an error: "op: cuDNN reports" its name and the library's reason.
void check_cudnn(cudnnStatus_t status, const char* op);

/// Whether `status` says that the library does not support the request.
inline bool is_refusal(cudnnStatus_t status) { return status / 1000 == 3; }

}  // namespace hero::cuda
