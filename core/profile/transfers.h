#pragma once
// Bytes on their way between memories of one process, beside what computes: what a simulation hears
// of copies and of files that are only planned.
#include <cstdint>

namespace hero::core {

/// Between which memories: the host's, a device's, a file.
enum class Transfer : uint8_t { to_device, to_host, from_disk, to_disk };
inline constexpr int kTransferCount = 4;
/// "to device", "to host", "from disk", "to disk".
const char* name(Transfer transfer);

/// Is told of the planned transfers of its thread.
class TransferMeter {
 public:
  virtual ~TransferMeter() = default;
  /// Bytes begin to move behind all that the thread has done; a number for the others.
  virtual int64_t begin_transfer(Transfer transfer, int64_t bytes) = 0;
  /// The thread goes on when they have arrived. Harmless for the second time, and for a number of
  /// another meter's.
  virtual void wait_transfer(int64_t transfer) = 0;
  /// Calls to other ranks that the thread makes from now on begin when these bytes have arrived;
  /// -1: at once again.
  virtual void call_behind(int64_t transfer) = 0;
  /// So many bytes more, or less, have a place in a file.
  virtual void hold_in_file(int64_t bytes) = 0;
};

/// The meter of this thread, or null.
extern constinit thread_local TransferMeter* transfer_meter;

}  // namespace hero::core
