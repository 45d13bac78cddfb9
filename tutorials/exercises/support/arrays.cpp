#include "exercises/support/arrays.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace exercise {

std::string number(double value, hero::DType dtype) {
  if (dtype != hero::kFloat32) return number(value);
  char text[40];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (static_cast<float>(std::strtod(text, nullptr)) == static_cast<float>(value)) break;
  }
  return text;
}

std::string index_text(const hero::Shape& shape, int64_t element) {
  std::string text;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    const int64_t size = shape[d];
    text = std::to_string(element % size) + (text.empty() ? "" : ", ") + text;
    element /= size;
  }
  return text.empty() ? "" : "[" + text + "]";
}

Difference first_difference(const std::vector<Named>& got, const std::vector<Named>& right) {
  for (size_t i = 0; i < right.size(); ++i) {
    const hero::Array a = got[i].values, b = right[i].values;
    const std::string& name = right[i].name;
    if (!a.defined()) return {true, i, 0, name + " is not there."};
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
      return {true, i, 0,
              name + " is " + to_string(a.dtype()) + " " + to_string(a.shape()) +
                  " and should be " + to_string(b.dtype()) + " " + to_string(b.shape()) + "."};
    }
    const hero::Array x = a.contiguous(), y = b.contiguous();
    const int64_t size = item_size(b.dtype());
    for (int64_t e = 0; e < b.numel(); ++e) {
      if (std::memcmp(x.bytes() + e * size, y.bytes() + e * size, static_cast<size_t>(size)) == 0) {
        continue;
      }
      const auto at = [&](const hero::Array& values) {
        return number(values.flatten().slice(0, e, e + 1).item(), values.dtype());
      };
      return {true, i, e,
              name + index_text(b.shape(), e) + " is " + at(x) + " and should be " + at(y) + "."};
    }
  }
  return {};
}

}  // namespace exercise
