#include <cctype>
#include <memory>
#include <vector>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/sharding/partition.h>
#include <hero/nn/embedding.h>
#include <hero/nn/quantized.h>

namespace hero::nn {

using core::QuantizedMatrix;

namespace {

// The buffer of a type: blocks of two types may have as many bytes, and must not be taken for each
// other when a state is loaded.
std::string buffer_of(const QuantizedMatrix& matrix) {
  std::string name = "weight_";
  for (const char letter : std::string_view(matrix.type())) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return name;
}

}  // namespace

QuantizedLinear::QuantizedLinear(const QuantizedMatrix& weight, const LinearOptions& options)
    : in_features(weight.columns()),
      out_features(weight.rows()),
      type_(weight.type()),
      blocks_(buffer(buffer_of(weight), Tensor(weight.blocks()))),
      bias(options.bias ? parameter("bias", {weight.rows()}, init::zeros())
                        : no_parameter("bias")) {}

QuantizedMatrix QuantizedLinear::weight() const { return {type_, blocks_.array()}; }

Tensor QuantizedLinear::forward(const Tensor& x) {
  check(x.ndim() >= 1 && x.size(-1) == in_features, "QuantizedLinear: expected [.., ", in_features,
        "], got ", x.shape());
  check(!grad_enabled() || !x.requires_grad(),
        "QuantizedLinear: its input is recorded for backward, and a quantised weight gives no "
        "gradients; compute under NoGrad, or train the model that was not quantised");
  const Tensor y(core::quantized_product(x.array(), weight()));
  return bias.defined() ? y + bias : y;
}

std::string QuantizedLinear::extra_repr() const {
  return "in_features=" + std::to_string(in_features) +
         ", out_features=" + std::to_string(out_features) +
         ", bias=" + (bias.defined() ? "True" : "False") + ", type=" + type_;
}

QuantizedEmbedding::QuantizedEmbedding(const QuantizedMatrix& table, DType dtype)
    : type_(table.type()),
      blocks_(buffer(buffer_of(table), Tensor(table.blocks()))),
      like_(buffer("like", Tensor(Array::empty({0}, dtype)), Slot::Kind::buffer_not_saved)) {
  check(is_floating(dtype), "QuantizedEmbedding: its output is floating, not ", dtype);
}

QuantizedMatrix QuantizedEmbedding::weight() const { return {type_, blocks_.array()}; }

Tensor QuantizedEmbedding::forward(const Tensor& x) {
  check(x.dtype() == kInt64 || x.dtype() == kInt32,
        "QuantizedEmbedding: expected row numbers, int64: got ", x.dtype(), " of shape ",
        x.shape());
  const QuantizedMatrix table = weight();
  const std::vector<int64_t> numbers = x.to_vector<int64_t>();
  for (const int64_t number : numbers) {
    check(number >= 0 && number < table.rows(), "QuantizedEmbedding: row ", number,
          " is outside [0, ", table.rows(), ")");
  }
  Shape shape = x.shape();
  shape.push_back(table.columns());
  return Tensor(table.values_of(numbers, like_.dtype()).reshape(shape));
}

std::string QuantizedEmbedding::extra_repr() const {
  const QuantizedMatrix table = weight();
  return std::to_string(table.rows()) + ", " + std::to_string(table.columns()) + ", type=" + type_;
}

int64_t quantize_linear(Module& model, std::string_view type) {
  constexpr const char* kName = "quantize_linear";
  constexpr int64_t kBlock = 32;  // numbers of a block of all types that can be made
  struct Change {
    std::string path;
    Tensor* old;
    std::unique_ptr<Module> module;
  };
  std::vector<Change> changes;
  std::vector<std::pair<Tensor, QuantizedMatrix>> made;
  const auto known = [&](const Tensor& weight) -> const QuantizedMatrix* {
    for (const auto& [tensor, matrix] : made) {
      if (is_same(tensor, weight)) return &matrix;
    }
    return nullptr;
  };
  const auto check_free = [&](const std::string& path, const Module& layer, const Tensor& weight) {
    check(!path.empty(), kName, ": the model is a ", layer.type_name(),
          " itself, which nothing can replace; make a QuantizedLinear of its weight");
    check(!layer.has_hooks(), kName, ": ", path,
          " has hooks or an adapter; quantise before they are added, or merge and remove them");
    check(partition(weight) == nullptr, kName, ": the weight of ", path, " is a shard, ",
          describe_part(weight));
    check(weight.device() == kCpu, kName, ": ", path, " lies on ", weight.device(),
          "; what is quantised lies on the cpu");
  };
  const auto modules = model.named_modules();
  for (const auto& [path, module] : modules) {
    auto* linear = dynamic_cast<Linear*>(module);
    if (linear == nullptr || linear->in_features % kBlock != 0) continue;
    check_free(path, *linear, linear->weight);
    if (known(linear->weight) == nullptr) {
      made.emplace_back(linear->weight,
                        QuantizedMatrix::from(linear->weight.array().contiguous(), type));
    }
    const bool biased = linear->bias.defined();
    auto layer =
        std::make_unique<QuantizedLinear>(*known(linear->weight), LinearOptions{.bias = biased});
    if (biased) layer->bias = linear->bias;
    changes.push_back({path, &linear->weight, std::move(layer)});
  }
  check(!changes.empty(), kName, ": ", model.type_name(), " has no Linear whose in_features are a ",
        "multiple of ", kBlock);
  for (const auto& [path, module] : modules) {
    auto* table = dynamic_cast<Embedding*>(module);
    if (table == nullptr || known(table->weight) == nullptr) continue;
    check_free(path, *table, table->weight);
    check(!table->options().max_norm, kName, ": ", path,
          " shortens its rows to max_norm, and quantised ones do not change");
    auto layer = std::make_unique<QuantizedEmbedding>(*known(table->weight), table->weight.dtype());
    changes.push_back({path, &table->weight, std::move(layer)});
  }
  for (auto& [path, old, layer] : changes) {
    layer->train(model.training());
    model.replace(path, std::move(layer));
  }
  // The old layers stay where the model's references lead; their numbers need no more room.
  for (const auto& [tensor, matrix] : made) {
    const Tensor without(Array::empty(tensor.shape(), tensor.dtype(), kMeta));
    for (const Change& change : changes) {
      if (is_same(*change.old, tensor)) *change.old = without;
    }
  }
  return static_cast<int64_t>(changes.size());
}

}  // namespace hero::nn
