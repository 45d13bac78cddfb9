#pragma once
// Mixture of experts: a router sends every token to a few of many feed-forward networks. Shazeer et
// al., arXiv 1701.06538. T tokens, D width, H hidden units, E experts, K = top_k experts per token.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/nn/linear.h>

namespace hero::nn {

/// The activation between an expert's two layers; swiglu is silu(w1 x) * (w3 x), with a third
/// matrix. Shazeer, arXiv 2002.05202.
enum class ExpertActivation { swiglu, gelu, relu };

/// Options of GroupedExperts.
struct GroupedExpertsOptions {
  /// What is between the two layers of an expert.
  ExpertActivation activation = ExpertActivation::swiglu;
  bool bias = false;  ///< whether the experts' layers have biases
};

/// E feed-forward networks of the same shape, each of which computes w2(activation(w1 x)) for its
/// own rows. Parameters: w1 [E, H, D], w2 [E, D, H], w3 [E, H, D] for swiglu only, and with bias b1
/// [E, H], b2 [E, D], b3 [E, H]. Each expert is initialised like Linear layers of its sizes.
class GroupedExperts : public Module {
 public:
  using Options = GroupedExpertsOptions;
  /// Makes the experts for these sizes.
  GroupedExperts(int64_t width, int64_t hidden, int64_t num_experts,
                 const GroupedExpertsOptions& options = {});

  using Module::operator();
  /// Maps rows [M, D], of which the first counts[0] go to the first expert, the next counts[1] to
  /// the second, and so on, to results [M, D] in the same order. A count may be 0; such an expert
  /// gets gradients of zero. Throws an Error unless there is one count for each expert and they add
  /// up to M.
  Tensor operator()(const Tensor& rows, const std::vector<int64_t>& counts);
  /// From now on gradients of the parameters, but not those of the rows, are divided by this
  /// number. Experts that compute the tokens of several ranks get the gradient of the ranks' mean
  /// loss that way.
  void set_gradient_divisor(double divisor);
  std::string extra_repr() const override;

  /// The first and the second layer's weights, [E, H, D] and [E, D, H].
  Tensor &w1, &w2;
  Tensor& w3;            ///< [E, H, D]; undefined unless swiglu
  Tensor &b1, &b2, &b3;  ///< undefined without bias; b3 also unless swiglu

 protected:
  bool computes_with_boxes() const override { return true; }

 private:
  Tensor run(const Tensor& rows, const std::vector<int64_t>& counts);
  std::vector<Tensor> each(const Tensor& parameter, size_t experts) const;

  int64_t width_, hidden_, experts_;
  GroupedExpertsOptions options_;
  double divisor_ = 1.0;
};

/// Sends rows to an MoE's experts and back, if not all experts are on this rank.
class TokenDispatcher {
 public:
  /// Has the signature of GroupedExperts::operator().
  using Experts = std::function<Tensor(const Tensor& rows, const std::vector<int64_t>& counts)>;

  TokenDispatcher() = default;
  TokenDispatcher(const TokenDispatcher&) = delete;
  TokenDispatcher& operator=(const TokenDispatcher&) = delete;
  virtual ~TokenDispatcher() = default;

  /// Returns the results [M, D] for rows [M, D], of which counts[e] go to expert e, in the order of
  /// all E experts; `experts` computes those that are on this rank. It is recorded, so gradients
  /// take the same way back.
  virtual Tensor run(const Tensor& rows, const std::vector<int64_t>& counts,
                     const Experts& experts) = 0;
  /// The sum of each count over all ranks whose tokens the experts compute.
  virtual std::vector<int64_t> add_up(const std::vector<int64_t>& counts) = 0;
};

/// Options of MoE.
struct MoEOptions {
  int64_t top_k = 2;  ///< experts that each token is sent to, K
  /// An expert takes at most ceil(capacity_factor T K / E) tokens in a forward pass, the first ones
  /// in their order; it drops later ones, and adds nothing to their results. 0: no token is
  /// dropped. Lepikhin et al., arXiv 2006.16668.
  double capacity_factor = 0.0;
  /// True: a token's weights are the softmax of its K best logits (Mixtral, arXiv 2401.04088).
  /// False: the softmax of all E logits, of which the K best are taken (Switch, arXiv 2101.03961).
  bool normalize_gates = true;
  /// What is between the two layers of an expert.
  ExpertActivation activation = ExpertActivation::swiglu;
  bool bias = false;                ///< whether the experts have biases; the router has none
  double load_balance_coef = 0.01;  ///< factor of the load-balancing loss in aux_loss()
  double router_z_coef = 0.0;       ///< factor of the router's z-loss in aux_loss()
  /// Experts that compute every token, beside the routed ones; they are one expert of this many
  /// times H hidden units. Dai et al., arXiv 2401.06066.
  int64_t shared_experts = 0;
};

/// What the router did in a forward pass.
struct MoEStatistics {
  std::vector<int64_t> tokens_per_expert;  ///< E numbers that add up to T K, including dropped ones
  int64_t dropped = 0;                     ///< how many of these T K were dropped
};

/// A mixture-of-experts layer, in the place of a feed-forward network:
///
///   struct Block : nn::Module {
///     nn::MoE& moe = add<nn::MoE>("moe", 512, 1024, 8, {.top_k = 2});
///     Tensor forward(const Tensor& x) override { return x + moe(x); }
///   };
///   const Tensor loss = cross_entropy(model(tokens), targets);
///   (loss + nn::moe_aux_loss(model)).backward();  // after the forward: a statement of its own
///
/// The router computes the logits of tokens by router.weight [E, D], in float32 even if the module
/// has half precision or runs under Autocast. Each token is computed by the K experts of the
/// highest logits (of equal logits, the lowest expert comes first), and their results are added up,
/// weighted, in the order of experts. The router learns through these weights alone, so
/// normalize_gates with top_k = 1, where they would always be 1, is an Error. NaN counts as the
/// highest logit: a token of NaN goes to the first experts and comes back as NaN, while the results
/// of other tokens do not change. Children: router, experts (GroupedExperts), shared_experts (one
/// of GroupedExperts).
///
/// The host has to know how many tokens each expert gets, so on a GPU the forward pass waits for
/// the router. On meta, where there are no logits, tokens are spread evenly over the experts.
class MoE : public Module {
 public:
  using Options = MoEOptions;
  /// Makes the layer. Throws an Error unless sizes are positive, top_k is from 1 to E, and the
  /// numbers in options are finite and not negative.
  MoE(int64_t width, int64_t hidden, int64_t num_experts, const MoEOptions& options = {});

  /// Maps x [.., D] to the same shape; x may have no token.
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// \name About the last forward pass, on any thread; an Error before the first
  /// \{
  /// Returns load_balance_coef E sum_e f_e P_e + router_z_coef mean_t (logsumexp of the logits of
  /// token t)^2, to be added to the loss. Here f_e is the share of the T K choices that fell on
  /// expert e, and P_e is the mean over tokens of the softmax over all experts. E sum_e f_e P_e is
  /// 1 if both are even, and only P has gradients. The graph of that forward pass stays in memory
  /// until the next one. Fedus et al., arXiv 2101.03961, (4); Zoph et al., arXiv 2202.08906, (5).
  Tensor aux_loss() const;
  /// How many tokens each expert got, and how many were dropped.
  MoEStatistics statistics() const;
  /// \}

  /// The options that the layer was made with.
  const MoEOptions& options() const { return options_; }
  /// The number of experts of the whole layer, on whatever ranks they are.
  int64_t num_experts() const { return experts_; }
  /// From now on rows go through this dispatcher; null means that all experts are on this rank.
  void set_dispatcher(std::shared_ptr<TokenDispatcher> dispatcher);

  /// The router, of weight [E, D] without a bias.
  Linear& router;
  /// The experts that are on this rank.
  GroupedExperts& experts;
  GroupedExperts* const shared_experts;  ///< the experts of every token; null without them

 private:
  struct Routing;
  struct Last;
  Routing route(const Tensor& tokens);
  void group(Routing& routing, const Tensor& chosen) const;
  Tensor loss_of(const Routing& routing, const Tensor& logits);
  Tensor compute(const Tensor& rows, const std::vector<int64_t>& counts);

  int64_t width_, experts_;
  MoEOptions options_;
  std::shared_ptr<TokenDispatcher> dispatcher_;
  std::shared_ptr<Last> last_;  // a shared_ptr only because it needs no complete type
};

/// The sum of aux_loss() over all MoE layers of a model, in the order of modules(). Throws an Error
/// if there are none. Do not write it in one expression with the forward pass, since C++ may
/// evaluate the operands in any order.
Tensor moe_aux_loss(Module& model);

}  // namespace hero::nn
