#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <hero/core/io/print_number.h>

namespace hero::core {
namespace {

// A decimal number without its sign: 0.d1 d2 d3 ... x 10^point.
struct Decimal {
  std::string digits;  // no trailing zeros; empty for zero
  int point = 0;
};

// value in the precision of the array's dtype.
double rounded(double value, DType dtype) {
  switch (dtype) {
    case kFloat64:
      return value;
    case kFloat16:
      return convert<double>(convert<Float16>(value));
    case kBFloat16:
      return convert<double>(convert<BFloat16>(value));
    default:
      return static_cast<double>(static_cast<float>(value));
  }
}

Decimal parse_scientific(std::string_view text) {
  const size_t e = text.find('e');
  Decimal result;
  for (const char c : text.substr(0, e)) {
    if (c != '.') result.digits += c;
  }
  result.point = std::atoi(std::string(text.substr(e + 1)).c_str()) + 1;
  while (!result.digits.empty() && result.digits.back() == '0') result.digits.pop_back();
  if (result.digits.empty()) result.point = 0;
  return result;
}

// Not strtod: the user's locale may have a comma for the point.
double parse_double(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The fewest digits that read back as the same number of its dtype.
Decimal shortest(double magnitude, DType dtype) {
  char text[64];
  const auto finish = [&](std::to_chars_result r) {
    return parse_scientific({text, static_cast<size_t>(r.ptr - text)});
  };
  constexpr auto scientific = std::chars_format::scientific;
  if (dtype == kFloat64) return finish(std::to_chars(text, text + 64, magnitude, scientific));
  if (dtype == kFloat32) {
    return finish(std::to_chars(text, text + 64, static_cast<float>(magnitude), scientific));
  }
  const auto reads_back = [&](const std::to_chars_result& r) {
    return rounded(parse_double({text, r.ptr}), dtype) == magnitude;
  };
  for (int digits = 1;; ++digits) {  // a half needs five at most
    const auto nearest = std::to_chars(text, text + 64, magnitude, scientific, digits - 1);
    if (digits == 9 || reads_back(nearest)) return finish(nearest);
    // Below a power of two the numbers lie twice as dense as above it, so the next text above may
    // read back where the nearest one does not.
    const Decimal d = finish(nearest);
    const double step = std::pow(10.0, d.point - digits);
    const double above = parse_double({text, nearest.ptr}) + step;
    const auto next = std::to_chars(text, text + 64, above, scientific, digits - 1);
    if (reads_back(next)) return finish(next);
  }
}

// The exact value to `places` digits behind the point (fixed) or behind the first digit
// (scientific); ties go to the even digit, as the exact value decides.
Decimal exactly(double magnitude, int places, std::chars_format format) {
  // The longest fixed double has 309 digits before the point.
  std::string text(static_cast<size_t>(places) + 330, ' ');
  const auto r = std::to_chars(text.data(), text.data() + text.size(), magnitude, format, places);
  text.resize(static_cast<size_t>(r.ptr - text.data()));
  if (format == std::chars_format::scientific) return parse_scientific(text);
  const size_t dot = std::min(text.find('.'), text.size());
  Decimal result{text, static_cast<int>(dot)};
  std::erase(result.digits, '.');
  const size_t zeros = std::min(result.digits.find_first_not_of('0'), result.digits.size());
  result.digits.erase(0, zeros);
  result.point -= static_cast<int>(zeros);
  while (!result.digits.empty() && result.digits.back() == '0') result.digits.pop_back();
  if (result.digits.empty()) result.point = 0;
  return result;
}

int places_of(const Decimal& d, std::chars_format format) {
  const int digits = static_cast<int>(d.digits.size());
  return std::max(0, digits - (format == std::chars_format::scientific ? 1 : d.point));
}

// Fewest digits, but at most `precision` behind the point.
Decimal limited(double magnitude, DType dtype, int precision, std::chars_format format) {
  Decimal d = shortest(magnitude, dtype);
  return places_of(d, format) <= precision ? d : exactly(magnitude, precision, format);
}

// What is before and behind the point, and the exponent of scientific notation.
struct Parts {
  std::string whole, fraction;
  int exponent = 0;
};

Parts split(const Decimal& d, bool negative, bool scientific) {
  Parts parts;
  if (negative) parts.whole += '-';
  const int point = scientific ? 1 : d.point;
  const auto size = static_cast<int>(d.digits.size());
  for (int i = 0; i < point; ++i) parts.whole += i < size ? d.digits[static_cast<size_t>(i)] : '0';
  if (point <= 0) parts.whole += '0';
  for (int i = std::min(point, 0); i < 0; ++i) {
    if (size > 0) parts.fraction += '0';
  }
  if (size > std::max(point, 0))
    parts.fraction += d.digits.substr(static_cast<size_t>(std::max(point, 0)));
  if (scientific && size > 0) parts.exponent = d.point - 1;
  return parts;
}

bool wants_scientific(std::span<const double> values, DType dtype, bool suppress_small) {
  double largest = 0, smallest = std::numeric_limits<double>::infinity();
  for (const double v : values) {
    if (!std::isfinite(v) || v == 0) continue;
    largest = std::max(largest, std::abs(v));
    smallest = std::min(smallest, std::abs(v));
  }
  if (largest == 0) return false;
  // Where the digits before the point would be more than the dtype has.
  const double limit = dtype == kFloat64 ? 1e8 : dtype == kFloat32 ? 1e6 : 1e3;
  if (largest >= limit) return true;
  // Compared in the array's own precision: 0.0001 in float32 is not below 0.0001.
  return !suppress_small &&
         (smallest < rounded(1e-4, dtype) || rounded(largest / smallest, dtype) > 1000);
}

std::string exponent_text(int exponent, size_t digits) {
  const std::string number = std::to_string(std::abs(exponent));
  std::string text = exponent < 0 ? "e-" : "e+";
  text.append(digits - std::min(digits, number.size()), '0');
  return text.append(number);
}

std::string padded_left(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ').append(text);
}

std::string special_text(double value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

}  // namespace

std::vector<std::string> float_texts(std::span<const double> values, DType dtype,
                                     const PrintOptions& options) {
  const bool scientific = wants_scientific(values, dtype, options.suppress_small);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::vector<Parts> parts(values.size());
  size_t left = 0, right = 0, exponent_digits = 2, special = 0;
  bool any_finite = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    if (!std::isfinite(v)) {
      special = std::max(special, special_text(v).size());
      continue;
    }
    any_finite = true;
    parts[i] =
        split(limited(std::abs(v), dtype, options.precision, format), std::signbit(v), scientific);
    left = std::max(left, parts[i].whole.size());
    right = std::max(right, parts[i].fraction.size());
    exponent_digits = std::max(exponent_digits, std::to_string(std::abs(parts[i].exponent)).size());
  }
  if (scientific) {  // columns are filled with digits of the exact values
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i]) || parts[i].fraction.size() == right) continue;
      const Decimal d = exactly(std::abs(values[i]), static_cast<int>(right), format);
      parts[i] = split(d, std::signbit(values[i]), scientific);
    }
  }
  const size_t tail = right + (scientific ? 2 + exponent_digits : 0);
  size_t width = any_finite ? left + 1 + tail : 1;
  if (special > width) {
    left += special - width;
    width = special;
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      texts.push_back(padded_left(special_text(values[i]), width));
      continue;
    }
    std::string text = padded_left(parts[i].whole, left) + '.' + parts[i].fraction;
    const size_t missing = right - parts[i].fraction.size();
    text.append(missing, scientific ? '0' : ' ');
    if (scientific) text += exponent_text(parts[i].exponent, exponent_digits);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> integer_texts(std::span<const int64_t> values) {
  std::vector<std::string> texts;
  size_t width = 0;
  for (const int64_t v : values) {
    texts.push_back(std::to_string(v));
    width = std::max(width, texts.back().size());
  }
  for (std::string& text : texts) text = padded_left(text, width);
  return texts;
}

}  // namespace hero::core
