#pragma once
// Work: what kernels are asked to do, counted where a family of a backend is called.
#include <cstdint>

#include <hero/core/dtype.h>

namespace hero::core {

/// Kinds of kernels whose speeds differ: a machine has one efficiency for each.
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

/// One call of a family. A multiply-add is two flops; bytes are those of the operands that the
/// kernel must read and of the results that it must write, each once, as if caches held nothing
/// before and everything during the call.
struct Work {
  WorkKind kind = WorkKind::elementwise;
  DType dtype = kFloat32;  ///< that the arithmetic is done with; of products that of the operands
  int64_t flops = 0;
  int64_t bytes = 0;
  int64_t launches = 1;  ///< kernels that a GPU would start
};

/// Is told of all work that its thread asks backends for, on every device, while a WorkScope is
/// open.
class WorkMeter {
 public:
  virtual ~WorkMeter() = default;
  virtual void charge(const Work& work) = 0;
};

/// The meter of this thread, or null.
WorkMeter* current_work_meter();

/// Charges this thread's work to `meter`, and to it alone, while the scope lives; to nobody where
/// that is null.
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
