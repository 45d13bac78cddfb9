#pragma once
// Exercise 18: what an answer is given, and the class that it defines.
#include <memory>

#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>

namespace exercise {

/// A linear layer y = x w^T + b, of which a rank has a part. Whole, w has the shape [out, in], b
/// [out], x [rows, in] and y [rows, out].
class Layer {
 public:
  virtual ~Layer() = default;
  virtual hero::Tensor forward(const hero::Tensor& x) = 0;
  /// Sets weight_gradient and bias_gradient. `gradient` is that of what forward has returned; what
  /// is returned is that of forward's x.
  virtual hero::Tensor backward(const hero::Tensor& gradient) = 0;

  hero::Tensor weight, bias;                    ///< what this rank keeps
  hero::Tensor weight_gradient, bias_gradient;  ///< of the same shapes
};

/// \name The answer. Both are given the whole weight and bias, which are the same on all ranks.
/// \{
/// Each rank makes some columns of y: x is whole and the same on all ranks, and y is this rank's
/// columns.
std::unique_ptr<Layer> by_columns(const hero::Tensor& weight, const hero::Tensor& bias,
                                  const hero::dist::Communicator& world);
/// Each rank makes a summand of y: x is this rank's columns, and y is whole and the same on all
/// ranks.
std::unique_ptr<Layer> by_rows(const hero::Tensor& weight, const hero::Tensor& bias,
                               const hero::dist::Communicator& world);
/// \}

/// This rank's part of x, which is cut along this dimension in one equal part a rank: a copy.
hero::Tensor part(const hero::Tensor& x, int dim, const hero::dist::Communicator& world);

}  // namespace exercise
