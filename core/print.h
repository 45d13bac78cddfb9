#pragma once
// Text for arrays in NumPy's layout: aligned columns and nested brackets, summarised if they are
// long.
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include <hero/core/array.h>

namespace hero::core {

/// How arrays are printed. The defaults are NumPy's, except for the four digits.
struct PrintOptions {
  int precision = 4;            ///< digits after the decimal point, at most; fewer if they suffice
  int64_t threshold = 1000;     ///< arrays with more elements are summarised
  int64_t edge_items = 3;       ///< elements at both ends of a summarised dimension
  int64_t line_width = 75;      ///< columns of a line
  bool suppress_small = false;  ///< true: no scientific notation because of small numbers
  std::string_view separator = " ";  ///< the text between two elements
};

/// Only the nested block of values, which is empty for an array on meta.
std::string format_values(const Array& array, const PrintOptions& options = {});

/// "[2, 3] float32 cpu".
std::string describe(const Array& array);

/// The block of values, and `trailer` below it.
std::string to_string(const Array& array, std::string_view trailer,
                      const PrintOptions& options = {});

/// The block of values, and "Array[2, 3] float32 cpu" below it; "Array undefined" for an undefined
/// array.
std::string to_string(const Array& array, const PrintOptions& options = {});

std::ostream& operator<<(std::ostream& out, const Array& array);

}  // namespace hero::core
