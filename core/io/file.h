#pragma once
// Files: reading at an offset, and writing after which there is either the old file or the whole
// new one.
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
  /// Fills `out` with the bytes from `offset` on; throws an Error if the file ends before.
  void read(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// Options of OutputFile.
struct OutputOptions {
  /// True: the file's folder is new, and is renamed when all its files are written. No killed
  /// writer can have left temporaries there, so the folder is not searched for them, and commit()
  /// does not flush it: the caller flushes it once for all files, by flush_folder(), before the
  /// rename.
  bool in_new_folder = false;
  /// Called with all bytes, in order, after they are written: for checksums, which then need not
  /// read the file.
  std::function<void(std::span<const std::byte>)> observe = {};
};

/// A new file that takes its name only when it is complete: bytes go to a temporary file beside the
/// target, and commit() flushes that file to the disk and renames it. Without commit() the
/// temporary file is removed, and an old file stays as it was. A process that is killed leaves its
/// temporary file, NAME.tmp.PID.N, which the next OutputFile of that target removes, unless a
/// writer still has a lock on it.
class OutputFile {
 public:
  /// Begins the file at `path`; throws an Error if no file can be made there.
  explicit OutputFile(const std::string& path, OutputOptions options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends.
  void write(std::span<const std::byte> bytes);
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  /// Makes the file appear under its name. When this returns, the file survives a power failure; in
  /// a new folder (OutputOptions) its bytes do, and its name does once the folder is flushed.
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
/// These functions throw no other exceptions than hero::Error.
/// \{
/// False if nothing exists at the path. A path that cannot be examined, for lack of rights or
/// because the disk fails, counts as existing: it must not be taken for missing.
bool path_exists(const std::string& path);
/// True for a folder that can be examined.
bool is_folder(const std::string& path);
/// The names in a folder, sorted; none if there is no folder. Throws an Error if it cannot be read.
std::vector<std::string> names_in(const std::string& folder);
/// Makes a folder and its parent folders; throws an Error of `op` if that fails.
void make_folders(const char* op, const std::string& folder);
/// Flushes the entries of a folder to the disk. On file systems that cannot flush a folder it does
/// nothing.
void flush_folder(const char* op, const std::string& folder);
/// All bytes of a file; throws an Error if there are more than `limit`.
std::string read_file_text(const std::string& path, uint64_t limit = UINT64_MAX);
/// \}

/// The result of a system call, which is repeated for as long as signals interrupt it.
template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// Returns what `body` returns. For functions on files that throw no other exceptions than
/// hero::Error: exceptions of the standard library, for memory and for file systems, become an
/// Error that names the file.
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
