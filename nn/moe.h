#pragma once
// Mixture of experts: a router sends every token to a few of many feed-forward networks. Shazeer et
// al., arXiv 1701.06538. T tokens, D width, H hidden units, E experts, K = top_k experts a token.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/nn/linear.h>

namespace hero::nn {

/// What stands between an expert's two layers; swiglu is silu(w1 x) * (w3 x), with a third matrix.
/// Shazeer, arXiv 2002.05202.
enum class ExpertActivation { swiglu, gelu, relu };

struct GroupedExpertsOptions {
  ExpertActivation activation = ExpertActivation::swiglu;
  bool bias = false;
};

/// E feed-forward networks of one shape, each of which computes its own rows: w2(activation(w1 x)).
/// Parameters: w1 [E, H, D], w2 [E, D, H], w3 [E, H, D] of swiglu alone, and with bias b1 [E, H],
/// b2 [E, D], b3 [E, H]. Expert e starts as Linear layers of its sizes do.
class GroupedExperts : public Module {
 public:
  using Options = GroupedExpertsOptions;
  GroupedExperts(int64_t width, int64_t hidden, int64_t num_experts,
                 const GroupedExpertsOptions& options = {});

  using Module::operator();
  /// rows [M, D], of which the first counts[0] are the first expert's, the next counts[1] the
  /// second's, and so on; the results [M, D] in the same order. Counts may be 0: such an expert has
  /// gradients of zero. An Error unless there is one count an expert and they add up to M.
  Tensor operator()(const Tensor& rows, const std::vector<int64_t>& counts);
  /// Gradients of the parameters are divided by this on their way back, those of rows are not:
  /// experts that see the tokens of several ranks get the gradient of the ranks' mean loss by it.
  void set_gradient_divisor(double divisor);
  std::string extra_repr() const override;

  Tensor &w1, &w2;
  Tensor& w3;            ///< undefined unless swiglu
  Tensor &b1, &b2, &b3;  ///< undefined without bias, b3 unless swiglu

 protected:
  bool computes_with_boxes() const override { return true; }

 private:
  Tensor run(const Tensor& rows, const std::vector<int64_t>& counts);
  std::vector<Tensor> each(const Tensor& parameter, size_t experts) const;

  int64_t width_, hidden_, experts_;
  GroupedExpertsOptions options_;
  double divisor_ = 1.0;
};

/// Where an MoE's experts are when not all of them are here: it takes rows to them and back.
class TokenDispatcher {
 public:
  /// What GroupedExperts' operator() is.
  using Experts = std::function<Tensor(const Tensor& rows, const std::vector<int64_t>& counts)>;

  TokenDispatcher() = default;
  TokenDispatcher(const TokenDispatcher&) = delete;
  TokenDispatcher& operator=(const TokenDispatcher&) = delete;
  virtual ~TokenDispatcher() = default;

  /// The results [M, D] of rows [M, D], of which counts[e] are expert e's, in the order of all E
  /// experts; `experts` computes those that are here. Recorded, so that gradients go the same way
  /// back.
  virtual Tensor run(const Tensor& rows, const std::vector<int64_t>& counts,
                     const Experts& experts) = 0;
  /// The sums of each count over all whose tokens the experts see.
  virtual std::vector<int64_t> add_up(const std::vector<int64_t>& counts) = 0;
};

struct MoEOptions {
  int64_t top_k = 2;  ///< experts a token is sent to
  /// An expert takes at most ceil(capacity_factor T K / E) tokens of a forward, the first of them
  /// in their order; what comes later it drops, which adds nothing to those tokens' results. 0:
  /// nothing is dropped. Lepikhin et al., arXiv 2006.16668.
  double capacity_factor = 0.0;
  /// True: a token's weights are the softmax of its K best scores (Mixtral, arXiv 2401.04088).
  /// False: the softmax of all E scores, of which the K best are taken (Switch, arXiv 2101.03961).
  bool normalize_gates = true;
  ExpertActivation activation = ExpertActivation::swiglu;
  bool bias = false;                ///< of the experts; the router has none
  double load_balance_coef = 0.01;  ///< of the load-balancing loss in aux_loss()
  double router_z_coef = 0.0;       ///< of the router's z-loss in aux_loss()
  /// Experts that see every token beside the routed ones, as one of so many times H hidden units.
  /// Dai et al., arXiv 2401.06066.
  int64_t shared_experts = 0;
};

/// What the router did in a forward.
struct MoEStatistics {
  std::vector<int64_t> tokens_per_expert;  ///< E numbers that add up to T K, dropped ones included
  int64_t dropped = 0;                     ///< of these T K
};

/// A layer of E experts in the place of one feed-forward network:
///
///   struct Block : nn::Module {
///     nn::MoE& moe = add<nn::MoE>("moe", 512, 1024, 8, {.top_k = 2});
///     Tensor forward(const Tensor& x) override { return x + moe(x); }
///   };
///   const Tensor loss = cross_entropy(model(tokens), targets);
///   (loss + nn::moe_aux_loss(model)).backward();  // after the forward: a statement of its own
///
/// The router scores tokens by router.weight [E, D], in float32 also where the module is a half or
/// under Autocast; the K experts of the highest scores compute each token (of equal scores the
/// lowest expert is first), and the results are added up, weighted, in the order of experts. The
/// router learns through these weights alone, so normalize_gates with top_k = 1, where they are
/// always 1, is an Error. NaN counts as the highest score: a token of NaN goes to the first experts
/// and comes back as NaN, and the results of others are what they were. Children: router, experts
/// (GroupedExperts), shared_experts (one of GroupedExperts).
///
/// The host must know how many tokens each expert has, so on a GPU a forward waits for the router.
/// On meta, where there are no scores, tokens are taken as spread evenly over the experts.
class MoE : public Module {
 public:
  using Options = MoEOptions;
  /// An Error unless sizes are positive, top_k lies in 1 .. E and the numbers in options are finite
  /// and not negative.
  MoE(int64_t width, int64_t hidden, int64_t num_experts, const MoEOptions& options = {});

  /// x [.., D]; the same shape. There may be no token.
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  /// \name Of the last forward, by whichever thread; an Error before the first
  /// \{
  /// load_balance_coef E sum_e f_e P_e + router_z_coef mean_t (logsumexp of t's scores)^2, to be
  /// added to the loss: f_e is the share of the T K choices that fell on expert e, P_e the mean
  /// over tokens of the softmax over all experts. The first sum is 1 where both are even, and only
  /// P has gradients. It holds that forward's graph until the next forward. Fedus et al., arXiv
  /// 2101.03961, (4); Zoph et al., arXiv 2202.08906, (5).
  Tensor aux_loss() const;
  MoEStatistics statistics() const;
  /// \}

  const MoEOptions& options() const { return options_; }
  /// Experts of the whole layer, wherever they are.
  int64_t num_experts() const { return experts_; }
  /// From now on rows go by it; null: all experts are here.
  void set_dispatcher(std::shared_ptr<TokenDispatcher> dispatcher);

  Linear& router;
  GroupedExperts& experts;
  GroupedExperts* const shared_experts;  ///< null without

 private:
  struct Routing;
  struct Last;
  Routing route(const Tensor& tokens);
  void group(Routing& routing, const Tensor& chosen) const;
  Tensor loss_of(const Routing& routing, const Tensor& scores);
  Tensor compute(const Tensor& rows, const std::vector<int64_t>& counts);

  int64_t width_, experts_;
  MoEOptions options_;
  std::shared_ptr<TokenDispatcher> dispatcher_;
  std::shared_ptr<Last> last_;  // shared only as that needs no complete type
};

/// The sum of aux_loss() over all MoE layers of a model, in the order of modules(); an Error if
/// there are none. Not in one expression with the forward, whose operands C++ may evaluate in any
/// order.
Tensor moe_aux_loss(Module& model);

}  // namespace hero::nn
