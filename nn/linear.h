#pragma once
// This header has the layer Linear and its options.
#include <optional>

#include <hero/nn/module.h>

namespace hero::nn {

struct LinearOptions {
  bool bias = true;
};

struct AdapterOptions {
  int64_t rank = 8;
  double alpha = 16.0;   ///< what the adapter adds is scaled by alpha / rank
  double dropout = 0.0;  ///< of what goes into the adapter, in training
};

/// y = x weight^T + bias: x [.., in_features] to [.., out_features]. weight [out, in] and bias
/// [out] start uniform in +-1 / sqrt(in_features).
/// \snippet test_examples_networks.cpp Linear
class Linear : public Module {
 public:
  using Options = LinearOptions;
  Linear(int64_t in_features, int64_t out_features, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// \name A low-rank adapter: add_lora() gives them to the layers of a model
  /// \{
  /// From now on the parameters lora_A [rank, in_features], uniform as weight, and lora_B
  /// [out_features, rank], zeros, add alpha / rank x lora_A^T lora_B^T to the output. Weight and
  /// bias train as before. An Error where there is an adapter or the weight is a shard.
  void add_adapter(const AdapterOptions& options);
  bool has_adapter() const { return adapter_.has_value(); }
  /// Adds alpha / rank lora_B lora_A to the weight, after which forward leaves the adapter out; no
  /// more where it is merged already.
  void merge_adapter();
  /// Takes it out of the weight again, which rounds as merging does.
  void unmerge_adapter();
  /// Takes its parameters away; a merged weight stays so.
  void remove_adapter();
  /// \}

  const int64_t in_features, out_features;
  Tensor& weight;
  Tensor& bias;  ///< undefined without

 private:
  struct Adapter {
    Tensor *a, *b;
    double scale, dropout;
    bool merged = false;
  };
  void add_to_weight(double scale);

  std::optional<Adapter> adapter_;
};

/// The input, unchanged.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace hero::nn
