#pragma once
// AutocastRule: how Autocast (mixed precision) casts the inputs of an operation.

namespace hero {

/// How Autocast treats the floating inputs of an operation. Each operation states its rule where it
/// is defined, as `static constexpr AutocastRule kAutocast`. The names are those of PyTorch's
/// policies: lower_precision_fp, fp32, promote, fallthrough.
enum class AutocastRule {
  lower_precision,  ///< cast to the scope's dtype, bfloat16 or float16: products
  float32,     ///< cast to float32: sums, and functions whose values half precision cannot hold
  promote,     ///< cast to the widest dtype among them: operations that need one dtype
  fallthrough  ///< left as they are: dtypes are promoted as without Autocast
};

}  // namespace hero
