#pragma once
// Chapter 6a: reverse-mode differentiation of arrays, as small as it can be.
#include <functional>
#include <memory>
#include <vector>

#include <hero/core/array.h>

namespace tutorial {

// [snippet: value]
struct Value {
  hero::Array data, grad = {};
  std::vector<std::shared_ptr<Value>> inputs = {};
  // From the gradient of this value to one gradient for each input.
  std::function<std::vector<hero::Array>(const hero::Array& g)> backward = {};
};
using Var = std::shared_ptr<Value>;
// [end]

/// A value that nothing was computed for.
Var leaf(const hero::Array& data);

/// Sets the gradient of everything that `loss` was computed from.
void backward(const Var& loss);

/// \name Operations, elementwise; both sides have one shape.
/// \{
Var operator+(const Var& a, const Var& b);
Var operator+(const Var& a, double c);
Var operator-(const Var& a, double c);
Var operator*(const Var& a, const Var& b);
Var operator/(const Var& a, const Var& b);
Var square(const Var& a);
Var sqrt(const Var& a);
/// \}

/// x weight^T + bias: x [B, in], weight [out, in], bias [out]; gives [B, out].
Var linear(const Var& x, const Var& weight, const Var& bias);
/// The mean over the rows of logits z [B, C] of -log softmax(z) at the right class; y [B, C] holds
/// a 1 there and 0 elsewhere.
Var softmax_cross_entropy(const Var& z, const hero::Array& y);

}  // namespace tutorial
