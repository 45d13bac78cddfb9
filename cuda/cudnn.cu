#if __has_include(<cudnn_graph.h>)

#include <cstdlib>
#include <string>

#include <dlfcn.h>

#include <hero/cuda/cudnn.cuh>

namespace hero::cuda {

namespace {

void* open_library(const char* named) {
  if (named) {
    void* library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, "attention: HERO_CUDNN names ", named,
          ", which cannot be opened: ", library ? "" : dlerror(), "; name the file libcudnn.so");
    return library;
  }
  const std::string file = "libcudnn.so." + std::to_string(CUDNN_GRAPH_MAJOR);
  for (const std::string& path : {file, "/usr/local/cuda/lib64/" + file}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  fail("attention: cuDNN was asked for, but ", file, " was not found; install cuDNN ",
       CUDNN_GRAPH_MAJOR, ", name the file in HERO_CUDNN, or ask for AttentionLibrary::own");
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return;
  fail("attention: the library opened for cuDNN has no function ", name, "; install cuDNN ",
       CUDNN_GRAPH_MAJOR, ", or name it in HERO_CUDNN");
}

Cudnn open_cudnn() {
  const char* named = std::getenv("HERO_CUDNN");
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
  void* library = open_library(named);
#define HERO_CUDNN_FIND(name) find(library, "cudnn" #name, functions.name);
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
