#pragma once
// This header has the layer Bilinear and its options.
#include <hero/nn/module.h>

namespace hero::nn {

/// Options of Bilinear.
struct BilinearOptions {
  bool bias = true;  ///< whether the layer has a bias
};

/// Output o is x1^T W_o x2 + b_o. Parameters: weight [out, in1, in2], bias [out], both uniform
/// within 1 / sqrt(in1).
class Bilinear : public Module {
 public:
  using Options = BilinearOptions;
  /// Makes the layer for these sizes.
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
           const BilinearOptions& options = {});
  using Module::operator();
  /// Maps x1 [.., in1] and x2 [.., in2] to [.., out].
  Tensor operator()(const Tensor& x1, const Tensor& x2);
  std::string extra_repr() const override;

 private:
  int64_t in1_, in2_, out_;

 public:
  Tensor& weight;  ///< [out, in1, in2]
  Tensor& bias;    ///< [out]; undefined without bias
};

}  // namespace hero::nn
