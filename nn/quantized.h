#pragma once
// Layers whose weights are quantised in blocks and stay so in memory: for inference, where one
// token reads every weight of a model, they are read in a fraction of the time.
#include <string>
#include <string_view>

#include <hero/core/quantized.h>
#include <hero/nn/linear.h>

namespace hero::nn {

/// y = x weight^T + bias of a quantised weight [out_features, in_features], in x's dtype, which is
/// float32, float16 or bfloat16; core::quantized_product() says how sums are made. The weight is
/// the buffer weight_q4_0, for blocks of type Q4_0, of uint8 [out_features, bytes of a row]; the
/// bias [out_features] is a parameter. It does not train: an Error is thrown if x is recorded for
/// backward. It computes on the cpu alone.
/// \snippet test_examples_networks.cpp QuantizedLinear
class QuantizedLinear : public Module {
 public:
  using Options = LinearOptions;
  /// Makes the layer; its bias begins as zeros.
  explicit QuantizedLinear(const core::QuantizedMatrix& weight, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  /// The weight.
  core::QuantizedMatrix weight() const;

  /// Sizes of the last dimension of input and output.
  const int64_t in_features, out_features;

 private:
  std::string type_;
  Tensor& blocks_;

 public:
  Tensor& bias;  ///< [out_features]; undefined without bias
};

/// Looks up rows of a quantised table: maps int64 x [..] to [.., embedding_dim] of a floating
/// dtype, which to() changes. The table is a buffer as QuantizedLinear's weight is, and does not
/// train.
class QuantizedEmbedding : public Module {
 public:
  /// Makes the layer, whose output has this dtype.
  explicit QuantizedEmbedding(const core::QuantizedMatrix& table, DType dtype = kFloat32);
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  /// The table.
  core::QuantizedMatrix weight() const;

 private:
  std::string type_;
  Tensor& blocks_;
  Tensor& like_;  // no elements; its dtype, which to(dtype) changes, is that of the output
};

/// Replaces every Linear below the model by a QuantizedLinear with its bias and its weight
/// quantised to Q8_0, Q4_0 or Q4_1 (core::QuantizedMatrix::from()), and an Embedding whose table is
/// such a weight, as a tied one is, by a QuantizedEmbedding of the same blocks. Layers whose
/// in_features are no multiple of 32 stay as they are. Returns how many layers were replaced.
/// Throws an Error, and leaves the model as it is, if there is none, or if a layer has hooks or an
/// adapter, is a shard, or does not lie on the cpu. References to the old layers, such as a model's
/// own, call the new ones.
int64_t quantize_linear(Module& model, std::string_view type);

}  // namespace hero::nn
