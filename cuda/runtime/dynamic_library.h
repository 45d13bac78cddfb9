#pragma once
// Libraries of NVIDIA's that are opened when they are first needed: programs that never use one do
// without it.
#include <string>

namespace hero::cuda {

/// Which library, and the words of errors about it.
struct LibrarySource {
  const char* op;         ///< with which errors begin
  const char* title;      ///< what it is called
  const char* user;       ///< what cannot do without it, with its verb
  const char* package;    ///< what to install
  const char* variable;   ///< of the environment, which may name the file
  const char* file;       ///< its name, without the version
  int version;            ///< of the headers
  const char* otherwise;  ///< what else can be done, as the end of an error; may be ""
};

class DynamicLibrary {
 public:
  /// Opens the file that the variable names, else the one of the headers' version, where the system
  /// looks for libraries or in /usr/local/cuda; throws where there is none. It stays open.
  explicit DynamicLibrary(const LibrarySource& source);

  /// Sets `function` to the library's of this name; throws where it has none.
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  std::string package() const;

  LibrarySource source_;
  void* handle_ = nullptr;
};

}  // namespace hero::cuda
