#include <cstdlib>

#include <dlfcn.h>

#include <hero/core/error.h>
#include <hero/cuda/runtime/dynamic_library.h>

namespace hero::cuda {

DynamicLibrary::DynamicLibrary(const LibrarySource& source) : source_(source) {
  if (const char* named = std::getenv(source.variable)) {
    handle_ = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    check(handle_ != nullptr, source.op, ": ", source.variable, " names ", named,
          ", which cannot be opened: ", handle_ ? "" : dlerror(), "; name the file ", source.file);
    return;
  }
  const std::string file = std::string(source.file) + "." + std::to_string(source.version);
  for (const std::string& path : {file, "/usr/local/cuda/lib64/" + file}) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
  }
  fail(source.op, ": ", source.user, " ", file, ", which was not found; install ", package(),
       ", or name the file in ", source.variable, source.otherwise);
}

void* DynamicLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  check(found != nullptr, source_.op, ": the library opened for ", source_.title,
        " has no function ", name, "; install ", package(), ", or name it in ", source_.variable);
  return found;
}

std::string DynamicLibrary::package() const {
  return source_.package + (" " + std::to_string(source_.version));
}

}  // namespace hero::cuda
