#pragma once
// Accumulator: adds up the gradients of micro-batches in the order in which ranks add up theirs.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::optim {

/// The factors of the losses of n parts of a batch that turn the mean of their means into the mean
/// over all targets: factor i is n targets[i] / sum(targets), exactly 1 if all are equal. If the
/// parts have different numbers of targets (padding, ignore_index), the plain mean of their losses
/// weighs a target of a short part more than one of a long part, and is not the loss of the whole
/// batch. Without any target all factors are 0. Throws an Error if a number is negative or not
/// finite.
///
///     const std::vector<double> weights = optim::target_weights(counts);
///     for (size_t i = 0; i < parts.size(); ++i) {
///       (model.loss(parts[i]) * weights[i]).backward();
///       gradients.add();
///     }
///     gradients.mean();  // the gradient of the mean over all targets
///
/// dist::target_weights() does the same where other ranks have further parts.
std::vector<double> target_weights(const std::vector<double>& targets);

/// The factors for some of the `parts` parts of a batch that has `sum` targets in all: factor i is
/// parts targets[i] / sum, or 0 if the sum is 0. Nothing is checked.
std::vector<double> target_weights(const std::vector<double>& targets, double parts, double sum);

/// Adds up the gradients of micro-batches in the order in which dist adds up the gradients of ranks
/// (dist::Order::tree): the sum of n gradients is the sum of the first p plus the sum of the rest,
/// where p is the largest power of two below n. backward() alone adds each gradient to the sum of
/// all earlier ones, which rounds differently from four gradients on. With an accumulator, one
/// process that computes the micro-batches of N ranks ends with the same bits as these ranks; the
/// tests and tutorials of the strategies compare the two.
///
///     optim::Accumulator gradients(model.parameters());
///     for (const Batch& part : parts) {
///       model.loss(part).backward();
///       gradients.add();
///     }
///     gradients.mean();
///     optimizer.step();
///
/// Gradients of half precision are added up in float32 and rounded once, at the end. For m
/// micro-batches at most 1 + log2(m) sums are in memory, each as large as the gradients.
/// \snippet test_examples_optim.cpp Accumulator
class Accumulator {
 public:
  /// Makes an accumulator for these parameters, which are leaves of floating dtype. It is empty at
  /// first.
  explicit Accumulator(std::vector<Tensor> parameters);
  Accumulator(const Accumulator&) = delete;  // two would take the same gradients
  Accumulator& operator=(const Accumulator&) = delete;

  /// Adds the parameters' present gradients and takes them away: afterwards the parameters have
  /// none. A parameter without a gradient adds nothing.
  void add();
  /// How many micro-batches have been added since the beginning, or since the last result.
  int64_t count() const { return count_; }
  /// Makes the sum of everything added the parameters' gradient, and empties the accumulator.
  /// Throws an Error if nothing was added, or if a parameter has received a gradient since the last
  /// add().
  void sum() { finish("sum", 1.0); }
  /// Does the same with the mean: the sum is divided by count(), once.
  void mean() { finish("mean", static_cast<double>(count_)); }

 private:
  // Level l holds the sum of 2^l micro-batches where bit l of the count is set.
  struct Levels {
    DType dtype = kFloat32;  // dtype of the gradient
    std::vector<Array> sums = {};
  };
  void finish(const char* what, double divisor);

  std::vector<Tensor> parameters_;
  std::vector<Levels> levels_;  // one for each parameter
  int64_t count_ = 0;
};

}  // namespace hero::optim
