#pragma once
// In what devices differ for those who make operations of kernels, by name. Operations ask for this
// and never for the kind of a device, so that a device of another kind needs no change in them.
#include <hero/core/device.h>

namespace hero::core {

/// \name Where the values of arrays on a device are.
/// \{
bool has_values(Device device);      ///< anywhere: not on meta, whose arrays are shapes alone
bool is_host_memory(Device device);  ///< where the host reads them at once, which waits for nobody
bool is_accelerator(Device device);  ///< in a device's own memory: the host waits for them
/// \}

/// What the kernels can that compute with arrays on a device.
struct KernelTraits {
  /// Fused kernels, windows and products read and write halves as they are, with float32 inside.
  /// The others are given float32 copies of them.
  bool takes_halves;
  /// There are kernels of the calls with kOnHost.
  bool has_host_calls;
  /// call::NormalizeChannels takes bfloat16 beside float32 parameters.
  bool normalizes_bfloat16;
  /// call::NormalizeRows takes RowNorm::groups.
  bool normalizes_groups;
  /// A call is best as large as memory lets it be. Else it is best where what it writes is still in
  /// a cache when the next one reads it.
  bool wants_large_calls;
};

/// Those of a device's own kernels, or for meta of those that are planned, see kernels_of().
const KernelTraits& kernel_traits(Device device);

}  // namespace hero::core
