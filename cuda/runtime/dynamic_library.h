#pragma once
// DynamicLibrary: a library of NVIDIA's that is opened when it is first needed, so that programs
// that never use it run without it.
#include <string>

namespace hero::cuda {

/// A library and the texts of errors about it.
struct LibrarySource {
  const char* op;         ///< the operation with which errors begin
  const char* title;      ///< the library's name in errors
  const char* user;       ///< the feature that needs it, with its verb
  const char* package;    ///< the package to install
  const char* variable;   ///< the environment variable that may name the file
  const char* file;       ///< the name of its file, without the version
  int version;            ///< the version of its headers
  const char* otherwise;  ///< an alternative for the user, as the end of an error; may be ""
};

class DynamicLibrary {
 public:
  /// Opens the file that the environment variable names, else the one of the headers' version in
  /// the system's library folders or in /usr/local/cuda; throws an Error if there is none. The
  /// library stays open.
  explicit DynamicLibrary(const LibrarySource& source);

  /// Sets `function` to the library's function of this name; throws an Error if it has none.
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
