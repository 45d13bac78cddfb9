#pragma once
// A small model with a mixture of experts, and its tokens, for tests on several ranks.
#include <memory>
#include <string>

#include "dist/parallel/boxes.h"

#include <hero/autograd/autograd.h>

namespace hero::test {

inline constexpr int64_t kTokens = 24, kMoEWidth = 8, kMoEHidden = 12, kExperts = 8;

struct Mixture : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", kMoEWidth, kMoEWidth);
  nn::MoE& moe;
  nn::Linear& out = add<nn::Linear>("out", kMoEWidth, kMoEWidth);
  explicit Mixture(const nn::MoEOptions& options = {})
      : moe(add<nn::MoE>("moe", kMoEWidth, kMoEHidden, kExperts, options)) {
    const NoGrad no_grad;
    if (moe.router.weight.device() == kMeta) return;
    moe.router.weight.copy_(Tensor(noise(moe.router.weight.shape(), kFloat32, 3)));
  }
  Tensor forward(const Tensor& x) override { return out(moe(tanh(in(x)))); }
};

inline std::unique_ptr<Mixture> make_mixture(const nn::MoEOptions& options, DType dtype) {
  manual_seed(17);
  auto model = std::make_unique<Mixture>(options);
  model->to(dtype);
  return model;
}

inline Tensor all_tokens(int step, DType dtype) {
  return Tensor(noise({kTokens, kMoEWidth}, dtype, static_cast<uint64_t>(step) + 40)) / 3;
}

// Rank `rank` of `ranks` has the rank-th even part of the tokens.
inline Tensor own_tokens(const Tensor& all, int rank, int ranks) {
  const int64_t count = all.size(0) / ranks;
  return narrow(all, 0, rank * count, count);
}

inline Tensor mixture_loss(Mixture& model, const Tensor& x) {
  const Tensor loss = mean(square(model(x) - x));
  return loss + nn::moe_aux_loss(model);
}

inline const nn::MoEOptions kBothLosses{
    .bias = true, .load_balance_coef = 0.5, .router_z_coef = 0.25};
inline const nn::MoEOptions kSwitch{.top_k = 1,
                                    .normalize_gates = false,
                                    .activation = nn::ExpertActivation::gelu,
                                    .load_balance_coef = 0.5};
inline const nn::MoEOptions kShared{
    .top_k = 3, .activation = nn::ExpertActivation::relu, .shared_experts = 1};

inline bool is_experts(const std::string& name) { return name.starts_with("moe.experts."); }

}  // namespace hero::test
