#include <cmath>
#include <limits>

#include <hero/core/array/promotion.h>

namespace hero {

namespace {

// Within [low, high) once the fraction is cut off; NaN is within nothing.
bool within(double number, double low, double high) {
  const double whole = std::trunc(number);
  return whole >= low && whole < high;
}

bool fits_floats(double number, double largest) {
  return !std::isfinite(number) || std::abs(number) <= largest;
}

}  // namespace

bool fits(const Scalar& number, DType dtype) {
  const double real = number.real();
  switch (dtype) {
    case DType::uint8:
      return within(real, -255.0, 256.0);
    case DType::int32:
      return within(real, -0x1p31, 0x1p31);
    case DType::int64:
      return !number.is_floating() || within(real, -0x1p63, 0x1p63);
    case DType::float16:
      return fits_floats(real, 65504.0);
    case DType::bfloat16:
      return fits_floats(real, 0x1.fep127);
    case DType::float32:
      return fits_floats(real, std::numeric_limits<float>::max());
    case DType::boolean:
    case DType::float64:
      break;
  }
  return true;
}

Scalar cut_to(const Scalar& number, DType dtype) {
  if (is_floating(dtype)) return number;
  return dtype == kBool ? Scalar(number.real() != 0.0) : Scalar(number.to<int64_t>());
}

}  // namespace hero
