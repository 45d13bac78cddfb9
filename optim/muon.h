#pragma once
// This header has the optimizer Muon and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Muon.
struct MuonOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decoupled decay: the parameter is multiplied by 1 - lr * weight_decay.
  double weight_decay = 0.1;
  double momentum = 0.95;  ///< decay of the momentum m, in [0, 1)
  bool nesterov = true;    ///< true: O is taken of g + momentum (m - g) instead of m
  int64_t ns_steps = 5;    ///< iterations of Newton and Schulz
  /// The coefficients a, b and c of their polynomial, which is of degree five.
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;  ///< lower limit of the norm that a direction is divided by
  /// True: lr is multiplied by 0.2 sqrt(max(rows, columns)), which makes a step as large as
  /// AdamW's, instead of by sqrt(max(1, rows / columns)). Liu et al., arXiv 2502.16982.
  bool match_rms_adamw = false;
  /// True: lr is multiplied by sqrt(rows / columns), which is below 1 for wide matrices, unless
  /// match_rms_adamw is true.
  bool spectral_unclamped = false;

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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
    visit("spectral_unclamped", self.spectral_unclamped);
  }
};
extern template class OptimizerOf<MuonOptions>;

/// Steps matrices along a momentum whose singular values are all brought close to 1: m = momentum m
/// + (1 - momentum) g; p = p (1 - lr weight_decay) - lr' O(m), where lr' is lr times the factor
/// that match_rms_adamw and spectral_unclamped choose. O divides by the Frobenius norm and runs
/// ns_steps iterations of X = a X + (b X X^T + c (X X^T)^2) X. Jordan et al., "Muon: An optimizer
/// for hidden layers in neural networks", 2024. It behaves like torch.optim.Muon.
///
/// Use it for the two-dimensional weights of hidden layers, and AdamW for embeddings, output
/// layers, norms and biases. A step needs whole matrices. For shards (fully_shard(), ZeRO) each
/// rank gathers one matrix at a time, in a collective for each, computes the step and keeps its
/// part, so the bits are those of one process; under DDP each rank steps all parameters. Products
/// are computed in float32, or in float64 for float64 parameters; PyTorch computes them in
/// bfloat16.
class Muon : public OptimizerOf<MuonOptions> {
 public:
  /// Makes an optimizer for these parameters. Throws an Error unless each has two dimensions.
  explicit Muon(const std::vector<Tensor>& params, const MuonOptions& options = {});
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Muon(const std::vector<Group>& groups);

 protected:
  void check_group(const std::vector<Tensor>& params) const override;
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim
