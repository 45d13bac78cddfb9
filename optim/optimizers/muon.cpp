#include <algorithm>
#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/products/products.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/optim/check_option.h>
#include <hero/optim/gather_parameter.h>
#include <hero/optim/muon.h>

namespace hero::optim {

template class OptimizerOf<MuonOptions>;

void MuonOptions::check_values() const {
  check_not_negative("muon", "lr", lr);
  check_not_negative("muon", "weight_decay", weight_decay);
  check_fraction("muon", "momentum", momentum);
  check_not_negative("muon", "eps", eps);
  check(ns_steps >= 0 && ns_steps < 100, "muon: ns_steps must be in [0, 100): ", ns_steps);
}

namespace {

void check_matrices(const std::vector<Tensor>& params) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Shape& shape = whole_shape(params[i]);
    check(shape.size() == 2, "muon: parameter ", i, " is ", shape,
          ", no matrix; give it to another optimizer, such as AdamW");
  }
}

// x with all of its singular values near 1.
Tensor orthogonal(const Tensor& x, const MuonOptions& o) {
  const auto [a, b, c] = o.ns_coefficients;
  const bool tall = x.size(0) > x.size(1);
  Tensor y = tall ? x.t() : x;
  y = y / clamp(sqrt(sum(square(y))), o.eps, {});
  for (int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(y, y.t());
    y = a * y + matmul(b * gram + c * matmul(gram, gram), y);
  }
  return tall ? y.t() : y;
}

}  // namespace

Muon::Muon(const std::vector<Tensor>& params, const MuonOptions& options)
    : OptimizerOf("muon", params, options) {
  check_matrices(params);
}

Muon::Muon(const std::vector<Group>& groups) : OptimizerOf("muon", groups) {
  check_matrices(parameters());
}

void Muon::check_group(const std::vector<Tensor>& params) const { check_matrices(params); }

std::vector<const char*> Muon::array_names(int) const { return {"momentum_buffer"}; }

void Muon::update(int group, State& state, const Array& grad) {
  const MuonOptions& o = options(group);
  const Tensor m(state.arrays[0].array);
  const Tensor g = Tensor(grad).to(m.dtype());
  m.mul_(o.momentum).add_(g, 1.0 - o.momentum);
  const Tensor towards = o.nesterov ? g + (m - g) * o.momentum : m;
  const Tensor whole(gathered("muon", state.param, towards.array()));
  const Tensor direction(own_part(state.param, orthogonal(whole, o).array()));
  const auto rows = static_cast<double>(whole.size(0)),
             columns = static_cast<double>(whole.size(1));
  const double least = o.spectral_unclamped ? 0.0 : 1.0;
  const double factor = o.match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                                          : std::sqrt(std::max(least, rows / columns));
  const Tensor p(state.param.array());
  const Tensor kept = p.to(m.dtype()) * (1.0 - o.lr * o.weight_decay);
  p.copy_(kept - direction * (o.lr * factor));
}

}  // namespace hero::optim
