#pragma once
// Gradients compared with finite differences.
#include <functional>
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero {

struct GradcheckOptions {
  double eps = 1e-6;   ///< step of the central differences
  double atol = 1e-5;  ///< a difference of atol + rtol * |numeric| passes
  double rtol = 1e-3;
  uint64_t seed = 0;            ///< of the random projections and directions
  int64_t max_elements = 1024;  ///< inputs of up to this many elements are checked one by one
  bool raise_exception = true;  ///< false: a mismatch returns false instead of throwing
};

/// A function under test; it must give the same result each time.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>& inputs)>;
using TensorsFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;

/// Compares the gradients of `fn` with central differences in float64: a random projection of the
/// outputs is differentiated along random directions of all inputs and, for small inputs, along
/// every element. Inputs that require grad must be float64, and there must be at least one; others
/// are passed on unchanged. Differences are taken on contiguous copies, so that a layout under test
/// is compared with the plain one. Throws an Error that names the input, the element and both
/// values on a mismatch; true otherwise.
/// \snippet test_examples_gradients.cpp gradcheck
bool gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});
bool gradcheck(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

/// The same for the gradients themselves: they are differentiated once more with respect to the
/// inputs and to the gradients of the outputs, which are random.
bool gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options = {});
bool gradgradcheck(const TensorsFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options = {});

}  // namespace hero
