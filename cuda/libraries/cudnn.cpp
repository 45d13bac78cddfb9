#if __has_include(<cudnn_graph.h>)

#include <cstdlib>
#include <string>

#include <hero/cuda/libraries/cudnn.cuh>
#include <hero/cuda/runtime/dynamic_library.h>

namespace hero::cuda {

namespace {

constexpr LibrarySource kCudnnSource{.op = "attention",
                                     .title = "cuDNN",
                                     .user = "attention by cuDNN needs",
                                     .package = "cuDNN",
                                     .variable = "HERO_CUDNN",
                                     .file = "libcudnn.so",
                                     .version = CUDNN_GRAPH_MAJOR,
                                     .otherwise = ", or ask for AttentionLibrary::own"};

Cudnn open_cudnn() {
  const char* named = std::getenv(kCudnnSource.variable);
  check(named == nullptr || std::string(named) != "0",
        "attention: HERO_CUDNN=0 turns cuDNN off, and it was asked for");
  Cudnn functions;
#if defined(HERO_CUSIM)
  if (!named) {  // the one of tests/cusim is part of the program
#define HERO_CUDNN_LINKED(name) functions.name = &cudnn##name;
    HERO_CUDNN_FUNCTIONS(HERO_CUDNN_LINKED)
#undef HERO_CUDNN_LINKED
    return functions;
  }
#endif
  const DynamicLibrary library(kCudnnSource);
#define HERO_CUDNN_FIND(name) library.find("cudnn" #name, functions.name);
  HERO_CUDNN_FUNCTIONS(HERO_CUDNN_FIND)
#undef HERO_CUDNN_FIND
  return functions;
}

}  // namespace

const Cudnn& cudnn() {
  static const Cudnn functions = open_cudnn();
  return functions;
}

void check_cudnn(cudnnStatus_t status, const char* op) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  char reason[512] = {};
  cudnn().GetLastErrorString(reason, sizeof(reason));
  fail(op, ": cuDNN reports ", cudnn().GetErrorString(status), reason[0] != '\0' ? ": " : "",
       reason);
}

}  // namespace hero::cuda

#endif
