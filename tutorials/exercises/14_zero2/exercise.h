#pragma once
// Exercise 14: what an answer is given, and what it defines.
#include <memory>
#include <vector>

#include "exercises/support/answer.h"
#include "support/lessons/data_parallel.h"

namespace exercise {

/// An optimizer of a network that every rank has whole, and whose gradients no rank keeps whole.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// This rank's part of the mean gradient, which backward() has filled.
  virtual hero::Array gradient() const = 0;
  /// Called after backward(). Returns when every parameter has its new value, the same on every
  /// rank.
  virtual void step() = 0;
};

/// \name The answer
/// \{
/// The flat parameter is cut in parts, of which rank r owns one with counts[r] numbers, one part
/// behind the other. Returns, of the numbers first ... first + count - 1, how many each rank owns.
std::vector<int64_t> owned(const std::vector<int64_t>& counts, int64_t first, int64_t count);
/// SGD with these options, whose states and gradients are divided over the ranks.
std::unique_ptr<Optimizer> zero2(hero::nn::Module& net, const hero::dist::Communicator& world,
                                 const hero::optim::SGDOptions& options);
/// \}

/// A new array of `numel` zeros for a part of a gradient.
hero::Array new_gradient(int64_t numel);

}  // namespace exercise
