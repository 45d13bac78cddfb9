#include <iterator>

#include <hero/core/profile/transfers.h>

namespace hero::core {

constinit thread_local TransferMeter* transfer_meter = nullptr;

const char* name(Transfer transfer) {
  static constexpr const char* names[] = {"to device", "to host", "from disk", "to disk"};
  static_assert(std::size(names) == kTransferCount);
  return names[static_cast<int>(transfer)];
}

}  // namespace hero::core
