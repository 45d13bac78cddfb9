#pragma once
#include <hero/core/array.h>

namespace hero::core {

/// a [.., M, K] @ b [.., K, N], at least two dimensions each; leading dimensions broadcast without
/// copies. float32 and float64 directly; float16 and bfloat16 are multiplied as float32 and rounded
/// once; integers exactly, in int64 arithmetic modulo 2^64.
Array matmul(const Array& a, const Array& b);

}  // namespace hero::core
