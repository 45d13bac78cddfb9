#pragma once
// SwapFile: a file in which storages leave their bytes while nobody needs them, and from which its
// own threads bring them back. What lies there are the bytes themselves: no bit changes.
//
//   core::SwapFile disk("/nvme", {.bytes = int64_t{200} << 30});
//   core::Swapped states(disk, array.storage_ref());
//   states.begin_write();   // returns at once
//   ...
//   states.wait();          // written; the storage is released
//   states.begin_read();
//   ...
//   states.wait();          // the storage holds its bytes again
//
// Rajbhandari et al., "ZeRO-Infinity", arXiv 2104.07857, keeps optimizer states so.
#include <memory>
#include <string>

#include <hero/core/storage.h>

namespace hero::core {

class SwapWorker;

struct SwapOptions {
  int64_t bytes = 0;   ///< size of the file, which is taken from the disk at once
  int threads = 2;     ///< that read and write; 1 to 64
  bool direct = true;  ///< past the system's page cache (O_DIRECT), where the file system can
};

/// A file without a name in a folder: it takes its space while the object lives and gives it back
/// at its end, also when the process is killed. May be used by several threads. Must outlive the
/// Swapped in it.
class SwapFile {
 public:
  /// Bytes that a slot begins at and is rounded up to, and that are written at least.
  static constexpr int64_t kBlock = 4096;

  /// An Error where the folder cannot be written to or its disk has not so many bytes free.
  SwapFile(const std::string& folder, const SwapOptions& options);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  /// The folder.
  const std::string& folder() const;
  /// Bytes of the file.
  int64_t bytes() const;
  /// Bytes of slots that are in use.
  int64_t used() const;
  /// Bytes that were read from the file, or written to it, since it was made.
  int64_t read_bytes() const;
  int64_t written_bytes() const;
  /// True where it goes past the page cache.
  bool direct() const;
  /// The open file's descriptor, to look at it or, in a test, to damage it.
  int descriptor() const;

 private:
  friend class Swapped;
  std::unique_ptr<SwapWorker> worker_;
};

/// A storage on the cpu with a slot in a SwapFile. One thread at a time uses it, and the storage's
/// bytes belong to the file from begin_write() or begin_read() until wait().
class Swapped {
 public:
  /// Takes a slot; an Error where the file has no room left, with the sizes.
  Swapped(SwapFile& file, Ref<Storage> storage);
  /// Waits. The slot is free again; a storage that was released stays so, without its bytes.
  ~Swapped();
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;

  const Ref<Storage>& storage() const;
  /// Begins to write the bytes; wait() then releases them. Harmless when they are not in memory.
  void begin_write();
  /// Releases bytes that were not changed since they were read or written: nothing is written. An
  /// Error where the slot does not hold them.
  void drop();
  /// Refills the storage and begins to read. Harmless when its bytes are in memory.
  void begin_read();
  /// Waits for what was begun. An Error when the disk failed or gave other bytes than were written
  /// (a checksum of every 4 MiB tells): after a write the bytes are in memory as they were, after a
  /// read the storage is released.
  void wait();

 private:
  struct Slot;
  std::unique_ptr<Slot> slot_;
};

}  // namespace hero::core
