#pragma once
// SwapFile: a file that keeps the bytes of storages while they are not needed, and from which
// threads of its own read them back. The bytes are stored as they are, so no bit changes.
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
// Rajbhandari et al., "ZeRO-Infinity", arXiv 2104.07857, keeps optimizer states in this way.
#include <memory>
#include <string>

#include <hero/core/storage.h>

namespace hero::core {

class SwapWorker;

/// Options of SwapFile.
struct SwapOptions {
  int64_t bytes = 0;   ///< size of the file, which is allocated on the disk at once
  int threads = 2;     ///< threads that read and write, 1 to 64
  bool direct = true;  ///< bypass the system's page cache (O_DIRECT) if the file system can
  /// True: there is no file, and the folder need not exist; slots and bytes are only counted. Such
  /// a file takes only storages on meta, for the simulation of a machine with a disk.
  bool planned = false;
};

/// A file without a name in a folder: it uses its space while the object lives and frees it
/// afterwards, also if the process is killed. Several threads may use it. While there is a Swapped
/// in it, the space stays in use, even if the object has ended.
class SwapFile {
 public:
  /// Slots begin at multiples of this many bytes and are rounded up to them.
  static constexpr int64_t kBlock = 4096;

  /// Makes the file. Throws an Error if the folder cannot be written to, or its disk does not have
  /// enough space.
  SwapFile(const std::string& folder, const SwapOptions& options);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  /// The folder.
  const std::string& folder() const;
  /// The size of the file in bytes.
  int64_t bytes() const;
  /// The bytes of slots that are in use.
  int64_t used() const;
  /// The bytes that were read from the file, or written to it, since it was made.
  int64_t read_bytes() const;
  int64_t written_bytes() const;
  /// True if it bypasses the page cache.
  bool direct() const;
  /// The descriptor of the open file, to inspect it or, in a test, to damage it; -1 if it is
  /// planned.
  int descriptor() const;

 private:
  friend class Swapped;
  std::shared_ptr<SwapWorker> worker_;
};

/// A storage on the cpu with a slot in a SwapFile. Only one thread at a time may use it, and
/// nothing may use the storage's bytes from begin_write() or begin_read() until wait(). A storage
/// on meta can have a slot, too: its bytes are counted as if there were any.
class Swapped {
 public:
  /// Takes a slot. Throws an Error with the sizes if the file has not enough space left, and one if
  /// the file is planned and the storage is not on meta.
  Swapped(SwapFile& file, Ref<Storage> storage);
  /// Waits, and frees the slot; a storage that is released then stays released, and its bytes are
  /// lost.
  ~Swapped();
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;

  const Ref<Storage>& storage() const;
  /// Begins to write the bytes, which wait() then releases. Does nothing if they are not in memory.
  void begin_write();
  /// Releases bytes that have not changed since they were read or written, without writing them.
  /// Throws an Error if the slot does not have them.
  void drop();
  /// Refills the storage and begins to read. Does nothing if its bytes are in memory.
  void begin_read();
  /// Waits until the write or read that was begun has ended. Throws an Error if the disk failed, or
  /// returned other bytes than were written (every 4 MiB have a checksum): after a failed write the
  /// bytes are in memory as they were, and after a failed read the storage is released.
  void wait();

 private:
  struct Slot;
  std::unique_ptr<Slot> slot_;
};

}  // namespace hero::core
