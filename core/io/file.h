#pragma once
// Files: reading at an offset, and writing that leaves either the old file or the whole new one.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <hero/core/error.h>

namespace hero {

/// An open file, read at offsets. Every failure is an hero::Error that names the path.
class InputFile {
 public:
  /// Opens a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes in the file when it was opened.
  uint64_t size() const { return size_; }
  /// Fills `out` from `offset`; an error when the file ends before.
  void read(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// Options of OutputFile.
struct OutputOptions {
  /// The folder was made for files that are being written now, and nobody looks for any in it
  /// before it is renamed. No killed writer can have left anything there, so it is not searched;
  /// and commit() does not flush the folder, which the caller does once for all its files, by
  /// flush_folder(), before the rename.
  bool in_new_folder = false;
  /// Is called with all bytes, in order, once they are written: for checksums, which then need not
  /// read the file.
  std::function<void(std::span<const std::byte>)> observe = {};
};

/// A new file that takes its name only when it is complete: bytes go to a temporary beside the
/// target, commit() flushes it to the disk and renames it. Without commit() the temporary is
/// removed and the old file, if any, is as it was. A process that is killed leaves its temporary,
/// NAME.tmp.PID.N; the next OutputFile of that target removes it. It knows by the lock that a
/// writer has on its temporary that nobody writes to it any more.
class OutputFile {
 public:
  /// Begins the file at `path`, an Error where there can be none.
  explicit OutputFile(const std::string& path, OutputOptions options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  /// Makes the file appear under its name, surviving a power cut once this returns; in a new folder
  /// (OutputOptions) its bytes are on the disk then, and its name is once the folder is flushed.
  void commit();

 private:
  [[noreturn]] void fail_with(const char* what, int error);
  void open_temporary();
  void discard();

  std::string path_;
  OutputOptions options_;
  std::string temporary_;
  int fd_ = -1;
};

/// \name Paths
/// None of these throws anything but hero::Error.
/// \{
/// False where nothing lies at the path. What cannot be looked at, for lack of rights or because
/// the disk fails, counts as there: it must not be taken for missing.
bool path_exists(const std::string& path);
/// True for a folder that can be looked at.
bool is_folder(const std::string& path);
/// What lies in a folder, sorted; nothing where there is no folder. An Error where it cannot be
/// read.
std::vector<std::string> names_in(const std::string& folder);
/// Makes a folder and those above it; an Error of `op` where that fails.
void make_folders(const char* op, const std::string& folder);
/// Has the entries of a folder on the disk when it returns. File systems that cannot flush a folder
/// are taken as they are.
void flush_folder(const char* op, const std::string& folder);
/// All bytes of a file; an Error where there are more than `limit`.
std::string read_file_text(const std::string& path, uint64_t limit = UINT64_MAX);
/// \}

/// What a system call returns, called again for as long as signals interrupt it.
template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// What `body` returns. For functions that read and write files and promise hero::Error alone: the
/// standard library's own exceptions, for memory and for file systems, become one that names the
/// file.
template <class Body>
auto with_file_errors(const char* op, const std::string& path, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    fail(op, ": ", path, ": out of memory");
  } catch (const std::length_error&) {
    fail(op, ": ", path, ": out of memory: it is too long for any");
  } catch (const std::system_error& error) {
    fail(op, ": ", path, ": ", error.what());
  }
}

}  // namespace hero
