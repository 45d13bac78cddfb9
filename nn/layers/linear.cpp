#include <cmath>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/nn/linear.h>

namespace hero::nn {

namespace {
int64_t positive(const char* what, int64_t value) {
  check(value > 0, "Linear: ", what, " is ", value, "; it must be positive");
  return value;
}
}  // namespace

// kaiming_uniform with a = sqrt(5) is uniform in +-1 / sqrt(fan_in).
Linear::Linear(int64_t in, int64_t out, const LinearOptions& options)
    : in_features(positive("in_features", in)),
      out_features(positive("out_features", out)),
      weight(parameter("weight", {out, in}, init::kaiming_uniform({.a = std::sqrt(5.0)}))),
      bias(options.bias ? parameter("bias", {out}, init::uniform_fan(in)) : no_parameter("bias")) {}

Tensor Linear::forward(const Tensor& x) {
  // Of a slice of the layer there are fewer inputs than in_features.
  check(x.ndim() >= 1 && x.size(-1) == weight.size(-1), "Linear: expected [.., ", weight.size(-1),
        "], got ", x.shape());
  const Tensor y = linear(x, weight, bias);
  if (!adapter_ || adapter_->merged) return y;
  const Tensor in = dropout(x, adapter_->dropout, training());
  return y + linear(linear(in, *adapter_->a), *adapter_->b) * adapter_->scale;
}

void Linear::add_adapter(const AdapterOptions& options) {
  check(!adapter_, "Linear: it has an adapter already");
  check(options.rank > 0, "Linear: an adapter's rank must be positive: got ", options.rank);
  check(options.dropout >= 0.0 && options.dropout <= 1.0,
        "Linear: an adapter's dropout is outside [0, 1]: ", options.dropout);
  check(partition(weight) == nullptr, "Linear: its weight is a shard, ", describe_part(weight),
        "; add adapters before the model is cut or sharded (dist::tensor_parallel(), "
        "dist::fully_shard())");
  const DeviceScope device(weight.device());
  const int64_t rank = options.rank;
  Tensor& a = parameter("lora_A", {rank, in_features}, init::kaiming_uniform({.a = std::sqrt(5.0)}),
                        weight.dtype());
  Tensor& b = parameter("lora_B", {out_features, rank}, init::zeros(), weight.dtype());
  adapter_.emplace(Adapter{&a, &b, options.alpha / static_cast<double>(rank), options.dropout});
  set_called_alone(true);
}

void Linear::remove_adapter() {
  check(adapter_.has_value(), "Linear: it has no adapter to remove");
  adapter_.reset();
  remove_parameter("lora_A");
  remove_parameter("lora_B");
  set_called_alone(false);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(in_features) +
         ", out_features=" + std::to_string(out_features) +
         ", bias=" + (bias.defined() ? "True" : "False");
}

}  // namespace hero::nn
