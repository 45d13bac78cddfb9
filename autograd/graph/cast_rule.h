#pragma once
// What an operation says of mixed precision.

namespace hero {

/// How Autocast treats the floating inputs of an operation, which each operation says where it is
/// defined, as `static constexpr CastRule kCast`.
enum class CastRule {
  low,      ///< cast to the scope's dtype, bfloat16 or float16: products
  float32,  ///< cast to float32: sums, and functions whose values leave the range of halves
  widest,   ///< cast to the widest dtype among them, where they have to be of one
  promote   ///< left as they are: dtypes are promoted as without Autocast
};

}  // namespace hero
