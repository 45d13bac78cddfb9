#include <array>
#include <charconv>
#include <cmath>

#include <hero/nn/module/repr.h>

namespace hero::nn::repr {

std::string text(bool value) { return value ? "True" : "False"; }

std::string text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  // Python writes an exponent below 1e-4 and from 1e16 on.
  const double size = std::abs(value);
  const bool plain = value == 0.0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string result(digits.data(), end.ptr);
  if (plain && result.find('.') == std::string::npos) result += ".0";
  return result;
}

std::string text(const Scalar& value) {
  return value.is_floating() ? text(value.real()) : std::to_string(value.to<int64_t>());
}

std::string tuple(const Dims& values) {
  std::string result = "(";
  for (int i = 0; i < values.size(); ++i) {
    if (i > 0) result += ", ";
    result += std::to_string(values[i]);
  }
  return result + (values.size() == 1 ? ",)" : ")");
}

}  // namespace hero::nn::repr
