#pragma once
// Adding up the gradients of micro-batches as ranks would.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::optim {

/// Adds up the gradients of micro-batches in the order in which dist adds up those of ranks
/// (dist::Order::tree): the sum of n is that of the first p and that of the rest, p the largest
/// power of two below n. backward() alone adds each one to the sum of all before it, and from four
/// on that rounds otherwise. So one process that takes the micro-batches of N ranks ends with their
/// bits, which is what the ladder's tests and tutorials compare.
///
///     optim::Accumulator gradients(model.parameters());
///     for (const Batch& part : parts) {
///       model.loss(part).backward();
///       gradients.add();
///     }
///     gradients.mean();
///     optimizer.step();
///
/// Halves are added up in float32 and rounded once, at the end. Of m micro-batches at most
/// 1 + log2(m) sums are held, each as large as the gradients.
/// \snippet test_examples_optim.cpp Accumulator
class Accumulator {
 public:
  explicit Accumulator(std::vector<Tensor> parameters);

  /// Takes the gradients over: the parameters have none afterwards. A parameter without a gradient
  /// adds nothing.
  void add();
  /// How many micro-batches have been added since the beginning, or since the last result.
  int64_t count() const { return count_; }
  /// The parameters' gradients become the sum of what was added, and the accumulator is empty
  /// again. An Error when nothing was, or when a parameter has got a gradient since.
  void sum() { finish("sum", 1.0); }
  /// The same for the mean: the sum divided by count(), once.
  void mean() { finish("mean", static_cast<double>(count_)); }

 private:
  // Level l holds the sum of 2^l micro-batches where bit l of the count is set.
  struct Levels {
    DType dtype = kFloat32;  // of the gradient
    std::vector<Array> sums = {};
  };
  void finish(const char* what, double divisor);

  std::vector<Tensor> parameters_;
  std::vector<Levels> levels_;  // of each parameter
  int64_t count_ = 0;
};

}  // namespace hero::optim
