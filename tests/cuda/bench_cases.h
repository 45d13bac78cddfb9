#pragma once
// What hero_bench_gpu times; tests/peers/gpu_torch.py has the same cases in PyTorch.
#include <functional>
#include <string>
#include <vector>

namespace hero_bench {

/// One thing to time. Its data are made by `make`, on GPU 0, and live as long as the call that it
/// returns.
struct Case {
  std::string name;
  /// "eager"; "graphed": replayed as a CUDA graph; "two": two operations where "eager" is one;
  /// "cudnn": attention by cuDNN, which a machine may lack.
  std::string variant;
  std::string what;  ///< sizes and dtypes, the same text as PyTorch's side
  double amount;     ///< of `unit` in one call
  std::string unit;  ///< "bytes" at least read and written, "flop", "tokens" or "ops"
  std::function<std::function<void()>()> make;
};

/// All cases, or all with sizes for a simulated GPU.
std::vector<Case> cases(bool tiny);

}  // namespace hero_bench
