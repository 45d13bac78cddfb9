// GroupedExperts: each expert computes its rows by the fused operations of a feed-forward network.
#include <cmath>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/memory/allocator.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/moe.h>

namespace hero::nn {

namespace {

// The tensor, unchanged; its gradient is divided.
struct DivideGradient : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  double divisor;
  explicit DivideGradient(double d) : divisor(d) {}
  const char* name() const override { return "divide_gradient"; }
  int viewed_input(int) const override { return 0; }
  Array forward(const Array& x) { return x; }
  Grads backward(const Tensor& g) override { return {g / divisor}; }
};

int64_t positive_experts_size(const char* what, int64_t value) {
  check(value > 0, "GroupedExperts: ", what, " is ", value, "; it must be positive");
  core::check_room("GroupedExperts", value);
  return value;
}

const char* activation_name(ExpertActivation activation) {
  switch (activation) {
    case ExpertActivation::swiglu:
      return "swiglu";
    case ExpertActivation::gelu:
      return "gelu";
    case ExpertActivation::relu:
      return "relu";
  }
  return "";
}

}  // namespace

GroupedExperts::GroupedExperts(int64_t width, int64_t hidden, int64_t num_experts,
                               const GroupedExpertsOptions& options)
    : w1(parameter("w1",
                   {positive_experts_size("num_experts", num_experts),
                    positive_experts_size("hidden", hidden), positive_experts_size("width", width)},
                   init::uniform_fan(width))),
      w2(parameter("w2", {num_experts, width, hidden}, init::uniform_fan(hidden))),
      w3(options.activation == ExpertActivation::swiglu
             ? parameter("w3", {num_experts, hidden, width}, init::uniform_fan(width))
             : no_parameter("w3")),
      b1(options.bias ? parameter("b1", {num_experts, hidden}, init::uniform_fan(width))
                      : no_parameter("b1")),
      b2(options.bias ? parameter("b2", {num_experts, width}, init::uniform_fan(hidden))
                      : no_parameter("b2")),
      b3(options.bias && w3.defined()
             ? parameter("b3", {num_experts, hidden}, init::uniform_fan(width))
             : no_parameter("b3")),
      width_(width),
      hidden_(hidden),
      experts_(num_experts),
      options_(options) {}

void GroupedExperts::set_gradient_divisor(double divisor) {
  check(divisor > 0.0 && std::isfinite(divisor),
        "GroupedExperts: the gradients' divisor must be positive: ", divisor);
  divisor_ = divisor;
}

Tensor GroupedExperts::operator()(const Tensor& rows, const std::vector<int64_t>& counts) {
  return run_hooked({rows}, [&](const Tensors& in) { return Tensors{run(in[0], counts)}; })[0];
}

// What each expert has of a parameter, undefined where the layer has none.
std::vector<Tensor> GroupedExperts::each(const Tensor& parameter, size_t experts) const {
  if (!parameter.defined()) return std::vector<Tensor>(experts);
  return unbind(divisor_ == 1.0 ? parameter : record(DivideGradient(divisor_), parameter));
}

Tensor GroupedExperts::run(const Tensor& rows, const std::vector<int64_t>& counts) {
  const auto here = static_cast<size_t>(w1.size(0));
  check(rows.ndim() == 2 && rows.size(1) == width_, "GroupedExperts: expected [M, ", width_,
        "], got ", rows.shape());
  check(counts.size() == here, "GroupedExperts: ", counts.size(), " counts for ", here, " experts");
  const std::vector<Tensor> parts = split(rows, counts);
  const std::vector<Tensor> in = each(w1, here), out = each(w2, here), gate = each(w3, here);
  const std::vector<Tensor> in_bias = each(b1, here), out_bias = each(b2, here),
                            gate_bias = each(b3, here);
  std::vector<Tensor> results;
  for (size_t e = 0; e < here; ++e) {
    const Tensor& x = parts[e];
    switch (options_.activation) {
      case ExpertActivation::swiglu: {
        const Tensor factor = linear(x, gate[e], gate_bias[e]);  // first, whatever the compiler
        const Tensor hidden = silu(linear(x, in[e], in_bias[e])) * factor;
        results.push_back(linear(hidden, out[e], out_bias[e]));
        break;
      }
      case ExpertActivation::gelu:
        results.push_back(linear_gelu_linear(x, {in[e], in_bias[e]}, {out[e], out_bias[e]}));
        break;
      case ExpertActivation::relu:
        results.push_back(linear(linear_relu(x, in[e], in_bias[e]), out[e], out_bias[e]));
        break;
    }
  }
  return cat(results);
}

std::string GroupedExperts::extra_repr() const {
  return "width=" + std::to_string(width_) + ", hidden=" + std::to_string(hidden_) +
         ", experts=" + std::to_string(experts_) +
         ", activation=" + activation_name(options_.activation) +
         ", bias=" + repr::text(options_.bias);
}

}  // namespace hero::nn
