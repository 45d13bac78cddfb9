#pragma once
// What hero_bench_gpu times; tests/peers/gpu_torch.py has the same cases in PyTorch.
#include <functional>
#include <string>
#include <vector>

#include "bench_verdict.h"

#include <hero/autograd/tensor.h>

namespace hero_bench {

/// One call of a case; what it returns is looked at outside of the times.
using Call = std::function<std::vector<hero::Tensor>()>;

/// One thing to time. Its data are made by `make`, on the device of cases(), and live as long as
/// the call that it returns.
struct Case {
  std::string name;
  /// "eager"; "graphed": replayed as a CUDA graph; "two": two operations where "eager" is one;
  /// "cudnn": attention by cuDNN, which a machine may lack.
  std::string variant;
  std::string what;  ///< sizes and dtypes, the same text as PyTorch's side
  double amount;     ///< of `unit` in one call
  std::string unit;  ///< "bytes" at least read and written, "flop", "tokens" or "ops"
  std::function<Call()> make;
  Course course = Course::same;
};

/// All cases, or all with sizes for a simulated GPU. On the CPU a training step is its loss alone,
/// in float32.
std::vector<Case> cases(bool tiny, hero::Device device);

/// \name For the files of cases
/// \{
using List = std::vector<Case>;
void memory_bound(List& list, bool tiny, hero::Device device);
void products(List& list, bool tiny, hero::Device device);

struct Random {
  hero::Device device;
  hero::Tensor operator()(const hero::Shape& shape, hero::DType dtype, bool grad = false) const;
  hero::Tensor classes(int64_t count, const hero::Shape& shape) const;
};
/// \}

/// One number of what a call returned: the sum of the tensors' mean absolute values, which is the
/// loss where that is all there is. Not finite where one element is not.
double value_of(const std::vector<hero::Tensor>& results);

/// value_of() the first call of a case of full size, as computed on a CPU with the same random
/// numbers (hero_bench_gpu --cpu); NaN where none is written down.
double cpu_value(const std::string& name);

}  // namespace hero_bench
