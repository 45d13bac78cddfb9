#pragma once
// Exercise 17: what an answer is given, and the class that it defines.
#include <map>
#include <memory>

#include "exercises/support/answer.h"

#include <hero/dist/dist.h>

namespace exercise {

/// What a rank of a pipeline has: its layers, the stage, and links to its two neighbours. What is
/// sent leaves at once, and nobody waits for it. Micro-batches are counted from 0.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  bool is_first() const { return rank() == 0; }
  bool is_last() const { return rank() == ranks() - 1; }

  /// On the first rank: the rows of micro-batch i.
  virtual hero::Tensor rows(int i) = 0;
  /// What this rank's layers make of x.
  virtual hero::Tensor compute(const hero::Tensor& x) = 0;
  /// On the last rank: the mean loss of micro-batch i, one number; y is what compute() returned.
  virtual hero::Tensor loss(const hero::Tensor& y, int i) = 0;

  /// \name Messages. The ranks before and after this one make the opposite call.
  /// \{
  virtual hero::Tensor receive_input(int i) = 0;
  virtual void send_output(int i, const hero::Tensor& y) = 0;
  virtual hero::Tensor receive_gradient(int i) = 0;  ///< of what was sent as output
  virtual void send_gradient(int i, const hero::Tensor& gradient) = 0;  ///< of what came as input
  /// \}
};

/// A step of a rank: afterwards its parameters have the gradient of the mean loss of the whole
/// batch, which is cut in so many micro-batches.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  /// All forwards, then all backwards.
  virtual void gpipe(int micro_batches) = 0;
  /// One forward, one backward, in turn.
  virtual void one_f_one_b(int micro_batches) = 0;
};

/// The answer.
std::unique_ptr<Pipeline> pipeline(Stage& stage);

}  // namespace exercise
