#include "exercises/support/compare.h"

#include <cmath>

namespace exercise {

using hero::Tensor;

Tensor slope(const Tensor& x) {
  const std::vector<double> at = x.to_vector<double>();
  return hero::tensor({2.0 * at[0] + 0.3 * at[1], 0.2 * at[1] + 0.3 * at[0]},
                      {.dtype = hero::kFloat64});
}

Path walk(int steps, const std::function<Tensor(const Tensor& x)>& step) {
  Tensor x = hero::tensor({2.0, -3.0}, {.dtype = hero::kFloat64});
  Path path;
  for (int i = 0; i < steps; ++i) {
    x = step(x);
    require(x.defined(), "It returns an undefined tensor.");
    require(x.shape() == hero::Shape{2} && x.dtype() == hero::kFloat64, "It returns ", x.dtype(),
            " ", x.shape(), ", and should return the next point, float64 [2].");
    require(!x.requires_grad(),
            "The point that it returns has a history, which an update needs not.");
    x = Tensor(x.array().clone());  // steps may write to the point that they got
    path.push_back(x.to_vector<double>());
  }
  return path;
}

namespace {

bool same(const Path& a, const Path& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!near(a[i][0], b[i][0], 1e-9) || !near(a[i][1], b[i][1], 1e-9)) return false;
  }
  return true;
}

std::string text(const std::vector<double>& x) {
  return "(" + number(x[0]) + ", " + number(x[1]) + ")";
}

}  // namespace

std::string compare(const Path& got, const Path& right,
                    const std::vector<std::pair<Path, std::string>>& mistakes) {
  for (size_t i = 0; i < right.size(); ++i) {
    if (near(got[i][0], right[i][0], 1e-9) && near(got[i][1], right[i][1], 1e-9)) continue;
    std::string why;
    for (const auto& [path, sentence] : mistakes) {
      if (why.empty() && same(got, path)) why = " " + sentence;
    }
    throw Wrong("Step " + std::to_string(i + 1) + " ends at " + text(got[i]) +
                " and should end at " + text(right[i]) + "." + why);
  }
  return std::to_string(right.size()) + " steps end at " + text(got.back()) + ".";
}

void compare(const std::string& name, const Tensor& got, const Tensor& right,
             const std::vector<std::pair<Tensor, std::string>>& mistakes) {
  require(got.defined(), name, " is undefined.");
  require(got.shape() == right.shape(), name, " has the shape ", got.shape(), " and should have ",
          right.shape(), ".");
  require(got.dtype() == right.dtype(), name, " is ", got.dtype(), " and should be ", right.dtype(),
          ".");
  const auto alike = [](const std::vector<double>& a, const std::vector<double>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!near(a[i], b[i], 1e-9)) return i;
    }
    return a.size();
  };
  const std::vector<double> a = got.to_vector<double>(), b = right.to_vector<double>();
  const size_t i = alike(a, b);
  if (i == a.size()) return;
  std::string why;
  for (const auto& [wrong, sentence] : mistakes) {
    if (why.empty() && wrong.shape() == got.shape() &&
        alike(a, wrong.to_vector<double>()) == a.size()) {
      why = " " + sentence;
    }
  }
  throw Wrong(name + index_text(right.shape(), static_cast<int64_t>(i)) + " is " + number(a[i]) +
              " and should be " + number(b[i]) + "." + why);
}

Tensor numbers(const hero::Shape& shape, double seed, bool requires_grad) {
  std::vector<double> values;
  int64_t count = 1;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) count *= shape[d];
  for (int64_t i = 0; i < count; ++i)
    values.push_back(std::sin(seed + 1.7 * static_cast<double>(i)));
  return Tensor(hero::Array::from(values, shape), requires_grad);
}

}  // namespace exercise
