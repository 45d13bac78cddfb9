#pragma once
// Comparing gradients with finite differences.
#include <functional>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

/// Options of gradcheck() and gradgradcheck().
struct GradcheckOptions {
  double eps = 1e-6;            ///< step of the central differences
  double atol = 1e-5;           ///< a difference of up to atol + rtol * |numeric| is accepted
  double rtol = 1e-3;           ///< see atol
  uint64_t seed = 0;            ///< seed of the random projections and directions
  int64_t max_elements = 1024;  ///< inputs of up to this many elements are checked one by one
  bool raise_exception = true;  ///< true: throw an Error on a mismatch; false: return false
};

/// A function to be tested, which must return the same result every time.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>& inputs)>;
using TensorsFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// Compares the gradients of `fn` with central differences in float64: a random projection of the
/// outputs is differentiated along random directions of all inputs and, for small inputs, along
/// every element. Inputs that require gradients must be float64, and there must be at least one;
/// others are passed on unchanged. Differences are computed on contiguous copies, so that a layout
/// that is tested is compared with the contiguous one. Returns true, or on a mismatch throws an
/// Error that names the input, the element and both values.
/// \snippet test_examples_gradients.cpp gradcheck
bool gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});
bool gradcheck(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

/// Does the same for the gradients themselves: they are differentiated again, with respect to the
/// inputs and to the gradients of the outputs, which are random.
bool gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options = {});
bool gradgradcheck(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options = {});

}  // namespace hero
