// Weights that stay orthogonal, as torch.nn.utils.parametrizations.orthogonal makes them.
#include <memory>

#include <hero/autograd/ops.h>
#include <hero/nn/parametrize.h>

namespace hero::nn::detail {

namespace {

Tensor unit(int64_t n, const Tensor& like) {
  return eye(n, {.dtype = like.dtype(), .device = like.device()});
}

// base [n, n] times an orthogonal matrix made of the n rows of X, turned where it is wide.
class Orthogonal : public Module {
 public:
  Orthogonal(const Tensor& values, OrthogonalMap map) : base_(buffer("base", values)), map_(map) {}
  std::string type_name() const override { return "_Orthogonal"; }
  Tensor forward(const Tensor& x) override {
    const bool wide = x.size(-2) < x.size(-1);
    const Tensor made = matmul(base_, columns(wide ? x.mT() : x));
    return wide ? made.mT() : made;
  }

 private:
  Tensor columns(const Tensor& x) const {
    const int64_t n = x.size(-2), k = x.size(-1);
    if (map_ == OrthogonalMap::householder) {
      const Tensor below = tril(x, -1);
      const Tensor tau = 2.0 / (1.0 + sum(square(below), {-2}));
      const Tensor signs = sign(diagonal(x.detach(), 0, -2, -1));
      return householder_product(below, tau) * unsqueeze(signs, -2);
    }
    const Tensor lower = pad(tril(x), {0, n - k});
    const Tensor skew = lower - lower.mT();
    if (map_ == OrthogonalMap::matrix_exp) return slice(matrix_exp(skew), -1, 0, k);
    const Tensor half = skew * 0.5, one = unit(n, x);
    return slice(solve(one - half, one + half), -1, 0, k);
  }

  Tensor& base_;
  OrthogonalMap map_;
};

// Q of the matrix, whose R has no negative diagonal.
Tensor made_orthogonal(const Tensor& x) {
  const QR found = qr(x);
  return found.q * unsqueeze(sign(diagonal(found.r, 0, -2, -1)), -2);
}

}  // namespace

void add_orthogonal(Module& module, const OrthogonalOptions& options) {
  const Tensor weight = module.get_parameter(options.name);
  check(weight.ndim() >= 2, "orthogonal: ", module.type_name(), "'s ", options.name, " of shape ",
        weight.shape(), " is no matrix");
  check(weight.device().type != DeviceType::meta, "orthogonal: ", module.type_name(), "'s ",
        options.name, " is on meta; materialize() the module before");
  check(!is_parametrized(module, options.name), "orthogonal: ", module.type_name(), "'s ",
        options.name, " has a parametrization already");
  const int64_t rows = weight.size(-2), columns = weight.size(-1);
  const OrthogonalMap map = options.orthogonal_map.value_or(
      rows == columns ? OrthogonalMap::matrix_exp : OrthogonalMap::householder);
  const NoGrad no_grad;
  Tensor tall = rows < columns ? weight.detach().mT() : weight.detach();
  if (rows != columns) {
    Shape beside = tall.shape();
    beside.back() = tall.size(-2) - tall.size(-1);
    const TensorOptions like{.dtype = weight.dtype(), .device = weight.device()};
    tall = cat({tall, randn(beside, like)}, -1);
  }
  const Tensor base = made_orthogonal(tall);
  weight.detach().copy_((-eye(rows, columns, {.dtype = weight.dtype(), .device = weight.device()}))
                            .expand(weight.shape()));
  add_parametrization(module, options.name, std::make_unique<Orthogonal>(base, map));
}

}  // namespace hero::nn::detail
