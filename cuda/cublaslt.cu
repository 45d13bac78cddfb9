#include <cstdlib>
#include <string>

#include <dlfcn.h>

#include <hero/cuda/cublaslt.cuh>

namespace hero::cuda {

namespace {

void* open_library(const char* named) {
  if (named) {
    void* library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, "matmul: HERO_CUBLASLT names ", named,
          ", which cannot be opened: ", library ? "" : dlerror(), "; name the file libcublasLt.so");
    return library;
  }
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  for (const std::string& path : {file, "/usr/local/cuda/lib64/" + file}) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  fail("matmul: products on a GPU need ", file,
       ", which was not found; install the CUDA toolkit's cuBLAS ", CUBLAS_VER_MAJOR,
       ", or name the file in HERO_CUBLASLT");
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return;
  fail("matmul: the library opened for cuBLASLt has no function ", name,
       "; install the CUDA toolkit's cuBLAS ", CUBLAS_VER_MAJOR, ", or name it in HERO_CUBLASLT");
}

Cublaslt open_cublaslt() {
  const char* named = std::getenv("HERO_CUBLASLT");
  Cublaslt functions;
#if defined(HERO_CUSIM)
  if (!named) {  // the one of tests/cusim is part of the program
#define HERO_CUBLASLT_LINKED(name) functions.name = &cublasLt##name;
    HERO_CUBLASLT_FUNCTIONS(HERO_CUBLASLT_LINKED)
#undef HERO_CUBLASLT_LINKED
    return functions;
  }
#endif
  void* library = open_library(named);
#define HERO_CUBLASLT_FIND(name) find(library, "cublasLt" #name, functions.name);
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
