#pragma once
// Products whose partial products leave the range of the dtype although the result may not: the
// exponent is summed apart from the mantissa.
#include <hero/core/array.h>

namespace hero::core {

/// \name Lines of factors
/// All arrays are contiguous, on the CPU, and float32 or float64, with one dtype in a call. A line
/// has the elements along the last dimension. Results are computed again for each line that may
/// leave the range; those of other lines stay as they are.
/// \{
/// Whether a product of some factors of a line of x may leave the range of normal numbers of the
/// dtype.
bool may_leave_range(const Array& x);
/// y[..] = the product of all x[.., i].
void correct_products(const Array& x, const Array& y);
/// y[.., j] = the product of x[.., 0] to x[.., j].
void correct_running_products(const Array& x, const Array& y);
/// slopes[.., i] = g[..] times the product of all x[.., j] but x[.., i].
void correct_slopes(const Array& x, const Array& g, const Array& slopes);
/// \}

}  // namespace hero::core
