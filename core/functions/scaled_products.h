#pragma once
// Products of factors that leave the range of their dtype on the way to a result that may not: the
// exponent is counted apart from the mantissa.
#include <hero/core/array.h>

namespace hero::core {

/// \name Lines of factors
/// All arrays are contiguous, on the CPU, and float32 or float64, those of a call alike. A line is
/// one of the last dimension. Results are computed anew for each line that may leave the range;
/// those of other lines stay as they are.
/// \{
/// Whether in some line of x a product of some factors may be no normal number of the dtype.
bool may_leave_range(const Array& x);
/// y[..] = the product of all x[.., i].
void correct_products(const Array& x, const Array& y);
/// y[.., j] = the product of x[.., 0] to x[.., j].
void correct_running_products(const Array& x, const Array& y);
/// slopes[.., i] = g[..] times the product of all x[.., j] but x[.., i].
void correct_slopes(const Array& x, const Array& g, const Array& slopes);
/// \}

}  // namespace hero::core
