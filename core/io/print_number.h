#pragma once
// Texts for the numbers of one array, which all have the same width; internal to print.cpp.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <hero/core/dtype.h>
#include <hero/core/print.h>

namespace hero::core {

/// The texts of floating-point values that print together, aligned. NumPy's rules: scientific
/// notation if the largest magnitude is 1e8 or more (1e6 in float32, 1e3 in half precision), the
/// smallest one below 1e-4, or their ratio above 1000.
std::vector<std::string> float_texts(std::span<const double> values, DType dtype,
                                     const PrintOptions& options);

/// The texts of integers, right-aligned.
std::vector<std::string> integer_texts(std::span<const int64_t> values);

}  // namespace hero::core
