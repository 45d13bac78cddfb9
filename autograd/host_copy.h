#pragma once
// HostCopy: the bytes of one storage in the host's memory, or in a file, while the storage is
// released.
#include <memory>
#include <string>

#include <hero/autograd/offload.h>
#include <hero/core/storage.h>

namespace hero::detail {

/// Made with the bytes on their way out and the storage released. The storage is alive in each
/// call. Nobody waits but where it is said.
class HostCopy {
 public:
  HostCopy() = default;
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  virtual ~HostCopy() = default;

  /// Into page-locked memory from a device or, from anywhere, into a file. An Error where there is
  /// no room: the storage then has its bytes.
  static std::unique_ptr<HostCopy> make(const Ref<core::Storage>& storage, core::SwapFile* disk,
                                        OffloadTraffic& traffic);

  /// Returns when the bytes have arrived: "", or why the disk did not take them. end_back() gives
  /// them then, without begin_back().
  virtual std::string wait_out() = 0;
  /// Begins to bring the bytes; what comes lies in memory of its own. They have arrived before.
  virtual void begin_back() = 0;
  /// Gives the storage its bytes; what the calling thread asks of the device from now on finds
  /// them. An Error where the disk gives other bytes, and then the storage has none.
  virtual void end_back(const Ref<core::Storage>& storage) = 0;
  /// Forgets what begin_back() brought; the copy can bring it again.
  virtual void drop() = 0;
};

}  // namespace hero::detail
