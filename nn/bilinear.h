#pragma once
// This header has the layer Bilinear and its options.
#include <hero/nn/module.h>

namespace hero::nn {

struct BilinearOptions {
  bool bias = true;
};

/// x1 W_o x2 + b_o. Parameters: weight [out, in1, in2], bias [out], both uniform within 1 /
/// sqrt(in1).
class Bilinear : public Module {
 public:
  using Options = BilinearOptions;
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
           const BilinearOptions& options = {});
  using Module::operator();
  /// x1 [.., in1], x2 [.., in2]: [.., out].
  Tensor operator()(const Tensor& x1, const Tensor& x2);
  std::string extra_repr() const override;

 private:
  int64_t in1_, in2_, out_;

 public:
  Tensor& weight;
  Tensor& bias;  ///< undefined without bias
};

}  // namespace hero::nn
