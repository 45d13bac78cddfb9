// Layer norm and RMS norm: rows of an array, alone or as the sum of two arrays.
#include <limits>
#include <utility>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/threads/thread_state.h>

namespace hero {

namespace {

thread_local bool half_norms = false;
[[maybe_unused]] const core::ThreadSlot<bool> kHalfNormsSlot([] { return half_norms; },
                                                             [](bool on) { half_norms = on; });

// The dtype of a norm of x.
DType norm_dtype(const Tensor& x) {
  const bool half = half_norms && autocast_enabled() && x.dtype() == kFloat32;
  return half ? autocast_options().dtype : x.dtype();
}

// Whether kernels for rows of `x` write a norm of `norm` and read its gradient as they lie.
bool takes_norm(DType x, DType norm) {
  return x == kFloat32 && (norm == kBFloat16 || norm == kFloat16);
}

// The machine epsilon of what norms of `dtype` are computed in.
double machine_epsilon(DType dtype) {
  return dtype == kFloat64 ? std::numeric_limits<double>::epsilon()
                           : std::numeric_limits<float>::epsilon();
}

// Inputs: x [M, N], with a residual that too, and, as `has` says, weight and bias [N]. Outputs:
// with a residual the sum, and the norm.
template <bool kResidual>
struct NormalizeRows : MultiOp {
  // The sum is kept in place of its parts.
  static constexpr unsigned kSaveInputs = kResidual ? 0b1100 : 0b111;
  static constexpr unsigned kSaveOutputs = kResidual ? 0b1 : 0b0;
  // The sum is of the dtype of its parts.
  static constexpr AutocastRule kAutocast =
      kResidual ? AutocastRule::fallthrough : AutocastRule::float32;
  static constexpr int kParameters = kResidual ? 2 : 1;  // inputs before weight and bias
  struct Has {
    bool weight, bias;
  } has;
  double eps;
  bool centered;
  DType mixed;  // that of x and the parameters together, in which all is computed
  DType norm;   // that of the norm
  struct Groups {
    int64_t count = 0, plane = 0;  // as RowNorm has them
  } groups = {};
  NormalizeRows(Has h, double e, bool c, DType m, DType n)
      : has(h), eps(e), centered(c), mixed(m), norm(n) {}
  const char* name() const override {
    if (kResidual) return centered ? "add_layer_norm" : "add_rms_norm";
    if (groups.count > 0) return "group_norm";
    return centered ? "layer_norm" : "rms_norm";
  }

  std::vector<Array> forward(std::span<const Array> inputs) {
    const Array x = as_rows(inputs[0]);
    const Array weight = has.weight ? operand(inputs[kParameters]) : Array();
    const Array bias = has.bias ? operand(inputs.back()) : Array();
    const Array center = Array::empty({x.size(0)}, detail::statistics_dtype(x.dtype()), x.device());
    const Array scale = center.empty_like();
    stash(center, 0);
    stash(scale, 1);
    core::RowNorm rows = row_norm(has.weight ? &weight : nullptr);
    if (has.bias) rows.bias = &bias;
    std::vector<Array> outputs;
    if (kResidual) {
      outputs.push_back(x.empty_like());
      rows.residual = &inputs[1];
      rows.sum = &outputs[0];
    }
    const DType direct = takes_norm(x.dtype(), norm) ? norm : x.dtype();
    const Array out = Array::empty(x.shape(), direct, x.device());
    core::backend(x.device()).run(core::call::NormalizeRows{rows, x, out, center, scale});
    outputs.push_back(out.to(norm));
    return outputs;
  }

  Grads backward(const Grads& grads) override {
    const Tensor& g = grads[kResidual];
    const Tensor g_sum = kResidual ? grads[0] : Tensor();
    // What is differentiated: the rows that were normalised, and the parameters.
    std::vector<Tensor> inputs{kResidual ? output(0) : input(0)};
    for (int i = kParameters; i < input_count(); ++i) inputs.push_back(input(i));
    if (g.defined()) {
      return grad_enabled() ? recorded(inputs, g, g_sum) : in_one_pass(inputs, g, g_sum);
    }
    Grads found;
    found.resize(static_cast<int>(inputs.size()));
    found[0] = g_sum;
    return of_inputs(found, g_sum);
  }

  // Gradients of what is differentiated, with that of the residual behind that of x.
  Grads of_inputs(const Grads& found, const Tensor& g_residual) const {
    Grads grads{found[0]};
    if (kResidual) grads.push_back(g_residual);
    for (int i = 1; i < found.size(); ++i) grads.push_back(found[i]);
    return grads;
  }

  Grads in_one_pass(const std::vector<Tensor>& inputs, const Tensor& g, const Tensor& g_sum) {
    const Array x = as_rows(inputs[0].array());
    const Array weight = has.weight ? operand(inputs[1].array()) : Array();
    const Array g_x = x.empty_like();
    const int64_t channels =
        groups.count > 0 ? groups.count * (x.size(1) / groups.plane) : x.size(1);
    const DType of_weight = groups.count > 0 ? detail::statistics_dtype(x.dtype()) : x.dtype();
    const Array g_weight = Array::empty({channels}, of_weight, x.device());
    const Array g_bias = g_weight.empty_like();
    const Array beside = g_sum.defined() ? operand(g_sum.array()) : Array();
    core::RowNorm rows = row_norm(has.weight ? &weight : nullptr);
    if (g_sum.defined()) rows.g_sum = &beside;
    Array g_residual = g_x;
    if (kResidual && needs(1) && input_spec(1).dtype != input_spec(0).dtype) {
      g_residual = Array::empty(x.shape(), input_spec(1).dtype, x.device());
      rows.g_residual = &g_residual;
    }
    const bool direct = takes_norm(x.dtype(), g.dtype());
    const Array g_norm = direct ? g.array().contiguous() : as_rows(g.array());
    core::backend(x.device())
        .run(core::call::NormalizeRowsBack{rows, g_norm, x, stashed(0), stashed(1), g_x,
                                           has.weight ? &g_weight : nullptr,
                                           has.bias ? &g_bias : nullptr});
    Grads grads{Tensor(g_x)};
    if (has.weight) grads.push_back(Tensor(g_weight));
    if (has.bias) grads.push_back(Tensor(g_bias));
    return of_inputs(grads, Tensor(g_residual));
  }

  Grads recorded(const std::vector<Tensor>& inputs, const Tensor& g, const Tensor& g_sum) {
    std::vector<bool> wanted{needs(0) || (kResidual && needs(1))};
    for (int i = kParameters; i < input_count(); ++i) wanted.push_back(needs(i));
    Grads grads = detail::composed_backward(
        wanted, inputs, {g},
        [this](const std::vector<Tensor>& in) { return std::vector<Tensor>{composed(in)}; });
    if (g_sum.defined()) grads[0] = grads[0].defined() ? g_sum + grads[0] : g_sum;
    return of_inputs(grads, grads[0]);
  }

  Tensor composed(const std::vector<Tensor>& in) const {
    const Tensor x = in[0].to(mixed);
    if (groups.count > 0) return composed_groups(x, in);
    const Tensor y = centered ? detail::standardize(x, {1}, eps)
                              : x * rsqrt(hero::mean(square(x), {1}, true) + eps);
    return detail::scale_and_shift(y, has.weight ? in[1] : Tensor(),
                                   has.bias ? in.back() : Tensor())
        .to(norm);
  }

  Tensor composed_groups(const Tensor& x, const std::vector<Tensor>& in) const {
    const Shape planes{x.size(0) / groups.count, groups.count * (x.size(1) / groups.plane),
                       groups.plane};
    const Tensor y = reshape(detail::standardize(x, {1}, eps), planes);
    const auto of_channels = [](bool has_it, const Tensor& parameter) {
      return has_it ? detail::per_channel(parameter, 3) : Tensor();
    };
    const Tensor found = detail::scale_and_shift(y, of_channels(has.weight, in[has.weight]),
                                                 of_channels(has.bias, in.back()));
    return reshape(found, x.shape()).to(norm);
  }

  core::RowNorm row_norm(const Array* weight) const {
    core::RowNorm rows{weight, nullptr, eps, centered};
    rows.groups = groups.count;
    rows.plane = groups.plane;
    return rows;
  }
  Array operand(const Array& array) const { return detail::fused_operand(array.to(mixed)); }
  // Rows that are normalised, or their gradient: of groups, halves as they are.
  Array as_rows(const Array& array) const {
    const bool stays = groups.count > 0 && detail::is_half(Tensor(array));
    return stays ? array.contiguous() : operand(array);
  }
};

// Rows of a tensor's last `trailing` dimensions.
Shape rows_of(const Shape& shape, int trailing) {
  Shape flat{1, 1};
  for (int i = 0; i < shape.size(); ++i) flat[i < shape.size() - trailing ? 0 : 1] *= shape[i];
  return flat;
}

struct Parameters {
  Tensor weight, bias;  // either may be undefined
  double eps;
  bool centered;
  // The dtype of x and these together.
  DType beside(DType x) const {
    for (const Tensor* parameter : {&weight, &bias}) {
      if (parameter->defined()) x = promote(x, parameter->dtype());
    }
    return x;
  }
  bool are(DType dtype) const {
    return (!weight.defined() || weight.dtype() == dtype) &&
           (!bias.defined() || bias.dtype() == dtype);
  }
};

// Outputs of rows of x's last `trailing` dimensions, and of those of a residual.
template <bool kResidual>
std::vector<Tensor> record_rows(std::vector<Tensor> inputs, int trailing, const Parameters& p) {
  const DType mixed = p.beside(inputs[0].dtype()), norm = norm_dtype(inputs[0]);
  const Shape shape = inputs[0].shape(), flat = rows_of(shape, trailing);
  for (Tensor& x : inputs) x = reshape(x, flat);
  const typename NormalizeRows<kResidual>::Has has{p.weight.defined(), p.bias.defined()};
  if (has.weight) inputs.push_back(reshape(p.weight, {flat[1]}));
  if (has.bias) inputs.push_back(reshape(p.bias, {flat[1]}));
  std::vector<Tensor> outputs =
      record_multi_list(NormalizeRows<kResidual>(has, p.eps, p.centered, mixed, norm), inputs);
  for (Tensor& output : outputs) output = reshape(output, shape);
  return outputs;
}

}  // namespace

Tensor detail::group_norm_rows(const Tensor& x, int64_t num_groups, const Tensor& weight,
                               const Tensor& bias, double eps) {
  const Parameters p{weight, bias, eps, true};
  const int64_t plane = x.numel() / (x.size(0) * x.size(1));
  NormalizeRows<false> op({weight.defined(), bias.defined()}, eps, true, kFloat32, x.dtype());
  op.groups = {num_groups, plane};
  std::vector<Tensor> inputs{reshape(x, {x.size(0) * num_groups, x.size(1) / num_groups * plane})};
  if (weight.defined()) inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  return reshape(record_multi_list(std::move(op), inputs)[0], x.shape());
}

namespace {

// Whether kernels add a residual to x: x has the dtype of their sum.
bool adds(DType x, DType residual) {
  return x == residual || (x == kFloat32 && (residual == kBFloat16 || residual == kFloat16));
}

// Whether x and residual are added and normalised in one operation: the device's kernels take them
// as they lie, and autocast leaves the norm in the dtype of their sum.
bool fuses(const Tensor& x, const Tensor& residual, const Parameters& p) {
  if (!x.defined() || !residual.defined() || x.numel() == 0) return false;
  const bool alike = x.shape() == residual.shape() && adds(x.dtype(), residual.dtype()) &&
                     x.device() == residual.device() && p.are(x.dtype());
  const bool taken = x.dtype() == detail::fused_dtype(x.dtype(), x.device()) &&
                     x.array().is_contiguous() && residual.array().is_contiguous();
  return alike && taken &&
         !(autocast_enabled() && x.dtype() != detail::statistics_dtype(x.dtype()));
}

void check_layer(const char* op, const Tensor& x, const Shape& normalized_shape,
                 const Parameters& p) {
  detail::check_floating(op, x);
  detail::check_eps(op, p.eps);
  const int lead = x.ndim() - normalized_shape.size();
  check(!normalized_shape.empty() && lead >= 0, op, ": normalized_shape ", normalized_shape,
        " is not a tail of x's shape ", x.shape());
  for (int i = 0; i < normalized_shape.size(); ++i) {
    check(x.shape()[lead + i] == normalized_shape[i], op, ": normalized_shape ", normalized_shape,
          " is not a tail of x's shape ", x.shape());
  }
  detail::check_parameter(op, "weight", p.weight, normalized_shape);
  detail::check_parameter(op, "bias", p.bias, normalized_shape);
}

void check_rms(const char* op, const Tensor& x, const Parameters& p) {
  detail::check_floating(op, x);
  detail::check_eps(op, p.eps);
  check(x.ndim() > 0, op, ": x needs a dimension: got a scalar");
  detail::check_parameter(op, "weight", p.weight, {x.size(-1)});
}

SumAndNorm add_and_normalize(const Tensor& x, const Tensor& residual, int trailing,
                             const Parameters& p) {
  const std::vector<Tensor> outputs = record_rows<true>({x, residual}, trailing, p);
  return {outputs[0], outputs[1]};
}

}  // namespace

detail::HalfNorms::HalfNorms(bool on) : before_(half_norms) { half_norms = half_norms || on; }
detail::HalfNorms::~HalfNorms() { half_norms = before_; }

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  detail::check_defined("layer_norm", {{"x", x}});
  if (const AutocastInputs in(AutocastRule::float32, x); in.changed()) {
    return layer_norm(in[0], normalized_shape, weight, bias, eps);
  }
  const Parameters p{weight, bias, eps, true};
  check_layer("layer_norm", x, normalized_shape, p);
  return record_rows<false>({x}, normalized_shape.size(), p)[0];
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, std::optional<double> eps) {
  detail::check_defined("rms_norm", {{"x", x}});
  if (const AutocastInputs in(AutocastRule::float32, x); in.changed()) {
    return rms_norm(in[0], weight, eps);
  }
  const Parameters p{weight, {}, eps.value_or(machine_epsilon(x.dtype())), false};
  check_rms("rms_norm", x, p);
  return record_rows<false>({x}, 1, p)[0];
}

// Dimensions that are normalised together are one that is as long as all of them.
Tensor detail::rms_norm_over(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                             std::optional<double> eps) {
  detail::check_defined("rms_norm", {{"x", x}});
  const int count = normalized_shape.size(), first = x.ndim() - count;
  bool fits = count > 0 && first >= 0;
  for (int i = 0; fits && i < count; ++i) fits = x.size(first + i) == normalized_shape[i];
  check(fits, "rms_norm: normalized_shape ", normalized_shape,
        " must be the last dimensions of x, of shape ", x.shape());
  check(!weight.defined() || weight.shape() == normalized_shape, "rms_norm: weight of shape ",
        weight.defined() ? weight.shape() : Shape(), " for normalized_shape ", normalized_shape);
  if (count == 1) return rms_norm(x, weight, eps);
  const Tensor flat = weight.defined() ? flatten(weight) : weight;
  return reshape(rms_norm(flatten(x, first, -1), flat, eps), x.shape());
}

SumAndNorm add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                          const Tensor& weight, const Tensor& bias, double eps) {
  const detail::Named named("add_layer_norm", {"x", x}, {"residual", residual});
  detail::check_defined("add_layer_norm", {{"x", x}, {"residual", residual}});
  const Parameters p{weight, bias, eps, true};
  if (!fuses(x, residual, p)) {
    const Tensor sum = x + residual;
    return {sum, layer_norm(sum, normalized_shape, weight, bias, eps)};
  }
  check_layer("add_layer_norm", x, normalized_shape, p);
  return add_and_normalize(x, residual, normalized_shape.size(), p);
}

SumAndNorm add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight,
                        std::optional<double> eps) {
  const detail::Named named("add_rms_norm", {"x", x}, {"residual", residual});
  detail::check_defined("add_rms_norm", {{"x", x}, {"residual", residual}});
  const Parameters p{weight, {}, eps.value_or(machine_epsilon(x.dtype())), false};
  if (!fuses(x, residual, p)) {
    const Tensor sum = x + residual;
    return {sum, rms_norm(sum, weight, eps)};
  }
  check_rms("add_rms_norm", x, p);
  return add_and_normalize(x, residual, 1, p);
}

}  // namespace hero
