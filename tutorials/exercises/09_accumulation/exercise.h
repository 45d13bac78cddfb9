#pragma once
// Exercise 9: what an answer is given, and what it defines.
#include <functional>
#include <memory>
#include <vector>

#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// The mean loss of these rows, one number.
using Loss = std::function<hero::Tensor(const hero::Tensor& x, const hero::Tensor& target)>;

/// A sum of many tensors of one shape, which adds them up as a tree of halves.
class TreeSum {
 public:
  virtual ~TreeSum() = default;
  /// Takes the next tensor.
  virtual void add(const hero::Tensor& x) = 0;
  /// The sum of all that were added, of which there is one or more.
  virtual hero::Tensor sum() const = 0;
};

/// \name The answer
/// \{
/// Makes the gradient of the mean loss of all rows that of the parameters, whatever gradient they
/// had, with no more than `rows` rows at a time. Returns the mean loss of all rows.
double accumulate(const std::vector<hero::Tensor>& parameters, const Loss& loss,
                  const hero::Tensor& x, const hero::Tensor& target, int64_t rows);
/// An empty sum.
std::unique_ptr<TreeSum> tree_sum();
/// \}

}  // namespace exercise
