#pragma once
// What the families of products do with bfloat16 where native_bf16() is true. Operands are as in
// core/backend.h.
#include <hero/core/backend.h>

namespace hero::core::cpu {

/// Backend::matmul, out not empty.
void bf16_products(const Array& a, const Array& b, const Array& out);
/// Backend::linear, out not empty.
void bf16_linear(Activation activation, const Array& x, const Array& w, const Array* bias,
                 const Array& out, const Array* z);
/// Sets g_x where it is defined. The gradient of an activation's output is rounded before it goes
/// on to u, as it is where the two are operations of their own.
void bf16_input_backward(const LinearBack& back);

}  // namespace hero::core::cpu
