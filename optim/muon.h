#pragma once
// This header has the optimizer Muon and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;  ///< of Newton and Schulz, whose fifth-order polynomial has these numbers:
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;  ///< the least norm that a direction is divided by
  /// lr is multiplied by 0.2 sqrt(max(rows, columns)), so that a step is as large as AdamW's, in
  /// place of sqrt(max(1, rows / columns)). Liu et al., arXiv 2502.16982.
  bool match_rms_adamw = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("weight_decay", self.weight_decay);
    visit("momentum", self.momentum);
    visit("nesterov", self.nesterov);
    visit("ns_steps", self.ns_steps);
    visit("ns_a", self.ns_coefficients[0]);
    visit("ns_b", self.ns_coefficients[1]);
    visit("ns_c", self.ns_coefficients[2]);
    visit("eps", self.eps);
    visit("match_rms_adamw", self.match_rms_adamw);
  }
};
extern template class OptimizerOf<MuonOptions>;

/// Matrices step along a momentum whose singular values are all made about 1: m = momentum m + (1 -
/// momentum) g; p = p (1 - lr weight_decay) - lr' O(m), with nesterov of g + momentum (m - g)
/// instead of m. O divides by the Frobenius norm and runs ns_steps steps of X = a X + (b X X^T + c
/// (X X^T)^2) X. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024;
/// torch.optim.Muon.
///
/// For weights of two dimensions, of hidden layers; embeddings, heads, norms and biases belong to
/// AdamW. A step needs whole matrices: of shards (fully_shard(), ZeRO) it is an Error; under DDP
/// each rank steps all. Products are of float32, of float64 parameters in that; PyTorch's are of
/// bfloat16.
class Muon : public OptimizerOf<MuonOptions> {
 public:
  /// An Error unless every parameter has two dimensions.
  explicit Muon(const std::vector<Tensor>& params, const MuonOptions& options = {});
  explicit Muon(const std::vector<Group>& groups);

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim
