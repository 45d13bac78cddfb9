#pragma once
// TransferMeter: the interface by which a simulation is told of planned copies between the memories
// of a process, and between memory and files, which run beside the computation.
#include <cstdint>

namespace hero::core {

/// The direction of a copy between the host's memory and a device's, or a file.
enum class Transfer : uint8_t { to_device, to_host, from_disk, to_disk };
inline constexpr int kTransferCount = 4;
/// "to device", "to host", "from disk", "to disk".
const char* name(Transfer transfer);

/// Is told of the planned transfers of its thread.
class TransferMeter {
 public:
  virtual ~TransferMeter() = default;
  /// A copy begins after all that the thread has done. Returns a number for the other functions.
  virtual int64_t begin_transfer(Transfer transfer, int64_t bytes) = 0;
  /// The thread waits until the copy has ended. Does nothing for a copy that was waited for before,
  /// or for a number of another meter.
  virtual void wait_transfer(int64_t transfer) = 0;
  /// Calls to other ranks that the thread makes from now on begin when this copy has ended; -1: at
  /// once again.
  virtual void call_behind(int64_t transfer) = 0;
  /// Adds `bytes`, which may be negative, to the bytes of slots in files.
  virtual void hold_in_file(int64_t bytes) = 0;
};

/// The meter of this thread, or null.
extern constinit thread_local TransferMeter* transfer_meter;

}  // namespace hero::core
