#pragma once
// What the normalisations share.
#include <hero/autograd/nn_ops.h>

namespace hero::detail {

/// x over `dims` with mean 0 and variance 1: (x - mean) / sqrt(variance + eps), as one operation.
Tensor standardize(const Tensor& x, const Dims& dims, double eps);

/// x weight + bias, either of which may be undefined.
Tensor scale_and_shift(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// A parameter [C], which may be undefined, as [1, C, 1, ..] of `ndim` dimensions.
Tensor per_channel(const Tensor& parameter, int ndim);

/// running = (1 - momentum) running + momentum factor batch, in place, unless it is undefined or a
/// forward pass is being repeated.
void update_running(const Tensor& running, const Array& batch, double momentum, double factor);

/// \name Throw unless x is floating and a parameter, where there is one, has the shape.
/// \{
void check_floating(const char* op, const Tensor& x);
void check_parameter(const char* op, const char* what, const Tensor& parameter,
                     const Shape& expected);
/// \}

}  // namespace hero::detail
