#pragma once
// This header has the layer Linear and its options.
#include <hero/nn/module.h>

namespace hero::nn {

struct LinearOptions {
  bool bias = true;
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

  const int64_t in_features, out_features;
  Tensor& weight;
  Tensor& bias;  ///< undefined without
};

/// The input, unchanged.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace hero::nn
