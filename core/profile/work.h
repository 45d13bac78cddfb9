#pragma once
// Work: what kernels do, counted where a backend is called.
#include <cstdint>

#include <hero/core/dtype.h>

namespace hero::core {

/// Kinds of kernels whose speeds differ, so that a machine has an efficiency for each.
enum class WorkKind : uint8_t {
  matmul,       ///< products of matrices, with and without bias and activation
  attention,    ///< fused attention
  window,       ///< convolution's columns, pooling
  elementwise,  ///< maps, fills, random numbers, optimizer steps
  reduce,       ///< sums, softmax, norms, scans, sorts
  copy,         ///< copies, conversions, gathers and scatters
};
inline constexpr int kWorkKindCount = 6;

const char* name(WorkKind kind);

/// Where work is done, in a simulation; without one, all work is the device's.
enum class WorkPlace : uint8_t {
  device,  ///< on the device
  host,    ///< on the host, with arrays on kPlannedHost
  between  ///< a copy between the two, for which both wait
};

/// The work of one call. A multiply-add counts as two flops; bytes are those of the operands that
/// the kernel must read and of the results that it must write, each once, as if the caches were
/// empty before the call and unlimited during it.
struct Work {
  WorkKind kind = WorkKind::elementwise;
  DType dtype = kFloat32;  ///< dtype of the arithmetic; for products, that of the operands
  int64_t flops = 0;
  int64_t bytes = 0;
  int64_t launches = 1;  ///< kernels that a GPU would launch
  WorkPlace place = WorkPlace::device;
};

/// Counts all work that its thread gives to backends, on every device, while a WorkScope is open.
class WorkMeter {
 public:
  virtual ~WorkMeter() = default;
  virtual void charge(const Work& work) = 0;
};

/// The meter of this thread, or null.
WorkMeter* current_work_meter();

/// While it lives, this thread's work is charged to `meter` only, or to none if it is null.
class WorkScope {
 public:
  explicit WorkScope(WorkMeter* meter);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  WorkMeter* previous_;
};

}  // namespace hero::core
