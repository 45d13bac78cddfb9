#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/optim/adafactor.h>
#include <hero/optim/check_option.h>
#include <hero/optim/gather_parameter.h>

namespace hero::optim {

template class OptimizerOf<AdafactorOptions>;

void AdafactorOptions::check_values() const {
  check_not_negative("adafactor", "lr", lr);
  check(beta2_decay <= 0.0, "adafactor: beta2_decay must be 0 or less: ", beta2_decay);
  check_not_negative("adafactor", "eps1", eps1);
  check_not_negative("adafactor", "eps2", eps2);
  check(d >= 1.0, "adafactor: d must be 1 or more: ", d);
  check_not_negative("adafactor", "weight_decay", weight_decay);
}

namespace {

double epsilon_of(DType dtype) {
  if (dtype == kFloat64) return std::numeric_limits<double>::epsilon();
  if (dtype == kFloat16) return 0x1p-10;
  return dtype == kBFloat16 ? 0x1p-7 : std::numeric_limits<float>::epsilon();
}

Tensor rms(const Tensor& x) { return sqrt(mean(square(x))); }

// Moves a state towards `to` by the fraction `part`. lerp() begins at the nearer end; otherwise a
// new state that is far smaller than the old one would have rounding errors of the old one's size.
void move(const Tensor& state, const Tensor& to, double part) {
  state.copy_(lerp(state, to, part));
}

}  // namespace

// A vector has one of these empty, and a matrix the third.
std::vector<const char*> Adafactor::array_names(int) const {
  return {"row_var", "col_var", "variance"};
}

bool Adafactor::is_number(const std::string& state) const {
  return state == "row_var" || state == "col_var" || state == "variance" ||
         OptimizerOf::is_number(state);
}

Shape Adafactor::array_shape(const char* name, const Shape& param) const {
  const std::string_view which(name);
  if (param.size() < 2) return which == "variance" ? param : Shape{0};
  if (which == "variance") return {0};
  Shape shape = param;
  shape[param.size() - (which == "row_var" ? 1 : 2)] = 1;
  return shape;
}

void Adafactor::update(int group, State& state, const Array& grad) {
  const AdafactorOptions& o = options(group);
  const Tensor values(state.param.array());
  const DType wide = state.arrays[0].array.dtype();
  const auto whole = [&](const Array& part) {
    return Tensor(gathered("adafactor", state.param, part)).to(wide);
  };
  const Tensor p = whole(values.array());
  const Tensor g = o.maximize ? -whole(grad) : whole(grad);
  const double eps1 = o.eps1 > 0.0 ? o.eps1 : epsilon_of(values.dtype());
  const double newest = std::pow(state.steps, o.beta2_decay);
  const double rho = std::min(o.lr, 1.0 / std::sqrt(state.steps));
  const Tensor length = clamp(rms(p), o.eps2, {}) * rho;
  const Tensor squares = square(g);
  Tensor second;
  if (g.ndim() >= 2) {
    const Tensor row(state.arrays[0].array), column(state.arrays[1].array);
    move(row, mean(squares, {-1}, true), newest);
    move(column, mean(squares, {-2}, true), newest);
    second = matmul(row, column) / clamp(mean(row, {-2}, true), eps1, {});
  } else {
    second = Tensor(state.arrays[2].array);
    move(second, squares, newest);
  }
  const Tensor direction = g / sqrt(clamp(second, eps1 * eps1, {}));
  const Tensor shortened = clamp(rms(direction) / o.d, 1.0, {});
  const Tensor moved = p * (1.0 - o.lr * o.weight_decay) - direction * (length / shortened);
  values.copy_(Tensor(own_part(state.param, moved.array())));
}

}  // namespace hero::optim
