#pragma once
// This header has the layer Linear and its options.
#include <optional>

#include <hero/autograd/sharding/replaced_values.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// Options of Linear.
struct LinearOptions {
  bool bias = true;  ///< whether the layer has a bias
};

/// Options of Linear::add_adapter().
struct AdapterOptions {
  int64_t rank = 8;      ///< inner size of the adapter's two matrices
  double alpha = 16.0;   ///< the output of the adapter is scaled by alpha / rank
  double dropout = 0.0;  ///< rate of dropout on the adapter's input, in training
};

/// y = x weight^T + bias, which maps x [.., in_features] to [.., out_features]. The parameters
/// weight [out_features, in_features] and bias [out_features] are initialised uniformly within +-1
/// / sqrt(in_features).
/// \snippet test_examples_networks.cpp Linear
class Linear : public Module {
 public:
  using Options = LinearOptions;
  /// Makes the layer for these sizes.
  Linear(int64_t in_features, int64_t out_features, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// \name A low-rank adapter, such as add_lora() gives to the layers of a model
  /// \{
  /// From now on, alpha / rank x lora_A^T lora_B^T is added to the output, with the new parameters
  /// lora_A [rank, in_features], initialised as the weight is, and lora_B [out_features, rank],
  /// zeros. Weight and bias train as before. Throws an Error if there is an adapter already, or if
  /// the weight is a shard: adapters come before dist::tensor_parallel() and fully_shard().
  void add_adapter(const AdapterOptions& options);
  /// True if there is an adapter.
  bool has_adapter() const { return adapter_.has_value(); }
  /// True while the adapter is merged: merge_lora() has added alpha / rank lora_B lora_A to the
  /// weight, and forward() leaves the adapter out.
  bool has_merged_adapter() const { return adapter_.has_value() && adapter_->merged.has_value(); }
  /// Removes the adapter's parameters; a merged weight stays merged.
  void remove_adapter();
  /// \}

  /// Sizes of the last dimension of input and output.
  const int64_t in_features, out_features;
  Tensor& weight;  ///< [out_features, in_features]
  Tensor& bias;    ///< [out_features]; undefined without bias

 private:
  friend class AdapterMerger;  // which sees the whole model, and so whether a weight is tied
  // What has been added to the weight: later writes to the adapter do not change it.
  struct Merged {
    Tensor weight, a, b;
    ReplacedValuesScope mark;
  };
  struct Adapter {
    Tensor *a, *b;
    double scale, dropout;
    std::optional<Merged> merged = {};
  };

  std::optional<Adapter> adapter_;
};

/// Returns its input unchanged.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace hero::nn
