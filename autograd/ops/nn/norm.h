#pragma once
// Helpers of the normalisations.
#include <hero/autograd/tensor.h>

namespace hero::detail {

/// x normalised over `dims` to mean 0 and variance 1: (x - mean) / sqrt(variance + eps), as one
/// operation.
Tensor standardize(const Tensor& x, const Dims& dims, double eps);

/// x weight + bias, either of which may be undefined.
Tensor scale_and_shift(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// group_norm() of x [N, C, ..], by the CPU's kernels for groups of channels: in float32.
Tensor group_norm_rows(const Tensor& x, int64_t num_groups, const Tensor& weight,
                       const Tensor& bias, double eps);

/// A parameter [C], which may be undefined, as [1, C, 1, ..] of `ndim` dimensions.
Tensor per_channel(const Tensor& parameter, int ndim);

/// running = (1 - momentum) running + momentum factor batch, in place, unless it is undefined or a
/// forward pass is being repeated.
void update_running(const Tensor& running, const Array& batch, double momentum, double factor);

/// While it lives, layer_norm() and add_layer_norm() of float32 under Autocast on this thread
/// return the norm in Autocast's dtype, as if a cast followed, and take its gradient in that dtype.
/// Use it for norms of which all readers are operations that would cast them. `on` false changes
/// nothing.
class HalfNorms {
 public:
  explicit HalfNorms(bool on);
  ~HalfNorms();
  HalfNorms(const HalfNorms&) = delete;
  HalfNorms& operator=(const HalfNorms&) = delete;

 private:
  bool before_;
};

/// \name Throw unless x is floating, eps no negative number, and a parameter, where there is one,
/// has the shape.
/// \{
void check_floating(const char* op, const Tensor& x);
void check_eps(const char* op, double eps);
void check_parameter(const char* op, const char* what, const Tensor& parameter,
                     const Shape& expected);
/// \}

}  // namespace hero::detail
