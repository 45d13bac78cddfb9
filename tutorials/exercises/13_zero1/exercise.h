#pragma once
// Exercise 13: what an answer is given, and the class that it defines.
#include <memory>

#include "exercises/support/answer.h"
#include "support/lessons/data_parallel.h"

namespace exercise {

/// An optimizer of a network that every rank has whole.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Sets all gradients to zero.
  virtual void zero_grad() = 0;
  /// Called after backward(), in which every rank has computed gradients of its own rows. Returns
  /// when every parameter has its new value, the same on every rank.
  virtual void step() = 0;
};

/// The answer: SGD with these options, whose states are divided over the ranks.
std::unique_ptr<Optimizer> zero1(hero::nn::Module& net, const hero::dist::Communicator& world,
                                 const hero::optim::SGDOptions& options);

}  // namespace exercise
