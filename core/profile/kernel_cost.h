#pragma once
// KernelCost: the flops and bytes of kernels, counted where a backend is called.
#include <cstdint>

#include <hero/core/dtype.h>

namespace hero::core {

/// Kinds of kernels whose speeds differ, so that a machine has an efficiency for each.
enum class KernelKind : uint8_t {
  matmul,       ///< products of matrices, with and without bias and activation
  attention,    ///< fused attention
  window,       ///< convolution's columns, pooling
  elementwise,  ///< maps, fills, random numbers, optimizer steps
  reduce,       ///< sums, softmax, norms, scans, sorts
  copy,         ///< copies, conversions, gathers and scatters
};
inline constexpr int kKernelKindCount = 6;

const char* name(KernelKind kind);

/// Where a kernel runs, in a simulation; without one, all run on the device.
enum class KernelPlace : uint8_t {
  device,  ///< on the device
  host,    ///< on the host, with arrays on kPlannedHost
  between  ///< a copy between the two, for which both wait
};

/// The cost of one call. A multiply-add counts as two flops; bytes are those of the operands that
/// the kernel must read and of the results that it must write, each once, as if the caches were
/// empty before the call and unlimited during it.
struct KernelCost {
  KernelKind kind = KernelKind::elementwise;
  DType dtype = kFloat32;  ///< dtype of the arithmetic; for products, that of the operands
  int64_t flops = 0;
  int64_t bytes = 0;
  int64_t launches = 1;  ///< kernels that a GPU would launch
  KernelPlace place = KernelPlace::device;
};

/// Adds up the costs of all calls that its thread makes of backends, on every device, while a
/// CostScope is open.
class CostMeter {
 public:
  virtual ~CostMeter() = default;
  virtual void charge(const KernelCost& cost) = 0;
};

/// The meter of this thread, or null.
CostMeter* current_cost_meter();

/// While it lives, the costs of this thread's calls are charged to `meter` only, or to none if it
/// is null.
class CostScope {
 public:
  explicit CostScope(CostMeter* meter);
  ~CostScope();
  CostScope(const CostScope&) = delete;
  CostScope& operator=(const CostScope&) = delete;

 private:
  CostMeter* previous_;
};

}  // namespace hero::core
