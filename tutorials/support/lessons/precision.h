#pragma once
// Chapter 9, second half: the same run with fewer bits.
#include <string>

namespace tutorial {

/// Trains one small network in several precisions, prints a table and draws the losses.
void compare_precisions(int steps, const std::string& folder);

/// Bytes a parameter of 16-bit training with Adam, measured, and what they come to for a large
/// model.
void measure_sixteen_bits();

}  // namespace tutorial
