#pragma once
// HostCopy: the bytes of a storage in host memory, or in a file, while the storage is released.
#include <memory>
#include <string>

#include <hero/autograd/offload/offload.h>
#include <hero/core/storage.h>

namespace hero::detail {

/// When it has been made, the copy of the bytes has begun and the storage is released. The storage
/// must be alive in each call. No function waits unless its comment says so.
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

  /// Waits until the bytes have been copied. Returns "", or why they could not be written to the
  /// disk; end_back() then restores them without begin_back().
  virtual std::string wait_out() = 0;
  /// Begins to copy the bytes back, into memory that is not yet the storage's. Call it after
  /// wait_out().
  virtual void begin_back() = 0;
  /// Gives the storage its bytes. All later work of the calling thread on the device finds them
  /// there. Throws an Error if the disk returns other bytes than were written, and then the storage
  /// has none.
  virtual void end_back(const core::Ref<core::Storage>& storage) = 0;
  /// Frees the memory that begin_back() has filled; the bytes can be copied back again.
  virtual void drop() = 0;
};

}  // namespace hero::detail
