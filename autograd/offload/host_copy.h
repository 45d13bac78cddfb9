#pragma once
// HostCopy: the bytes of a storage in host memory, or in a file, while the storage is released.
#include <memory>
#include <string>

#include <hero/autograd/offload/offload.h>
#include <hero/core/storage.h>

namespace hero::detail {

/// When it is made, the bytes are on their way and the storage is released. The storage is alive in
/// each call. No function waits unless it says so.
class HostCopy {
 public:
  HostCopy() = default;
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  virtual ~HostCopy() = default;

  /// Copies from a device into page-locked memory or, from anywhere, into a file. Throws an Error
  /// if there is not enough space, and then the storage keeps its bytes.
  static std::unique_ptr<HostCopy> make(const core::Ref<core::Storage>& storage,
                                        core::SwapFile* disk, OffloadTraffic& traffic);

  /// Waits until the bytes have arrived. Returns "", or why the disk did not take them; end_back()
  /// then restores them without begin_back().
  virtual std::string wait_out() = 0;
  /// Begins to bring the bytes back, into memory of their own. Call it after wait_out().
  virtual void begin_back() = 0;
  /// Gives the storage its bytes, which are there for all later work of the calling thread on the
  /// device. Throws an Error if the disk returns other bytes, and then the storage has none.
  virtual void end_back(const core::Ref<core::Storage>& storage) = 0;
  /// Drops what begin_back() brought; the copy can bring it back again.
  virtual void drop() = 0;
};

}  // namespace hero::detail
