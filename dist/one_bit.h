#pragma once
// Optimizers over DDP whose ranks tell each other one bit an element: 1-bit Adam, 1-bit LAMB and
// 0/1 Adam.
//
//   dist::DDP ddp(model, world);
//   dist::OneBitAdam adam(ddp, model.parameters(), {.lr = 1e-3, .freeze_step = 300});
//   ...
//   loss.backward();  // up to step 300 gradients are averaged; later each rank keeps its own
//   adam.step();      // and then momenta are, in bits
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/data_parallel.h>
#include <hero/dist/rank_states.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

class OneBitLink;

struct OneBitAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  int64_t freeze_step = 100'000;               ///< steps of warm-up; the same for all groups
  int64_t bucket_elements = int64_t{4} << 20;  ///< of momentum, sent together; likewise

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("freeze_step", self.freeze_step);
    visit("bucket_elements", self.bucket_elements);
  }
};

/// 1-bit Adam. The first freeze_step steps are AdamW's of the gradients that DDP averages. Then the
/// mean squares v stay, with their correction, and backward leaves each rank its own gradients g:
/// m = m + (1 - beta1) (g - m) becomes the ranks' mean of that in bits, with error feedback on both
/// sides (rows of bits go to the ranks, their means' bits to all), and p = p (1 - lr weight_decay)
/// - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^freeze) + eps). Tang et al., arXiv
/// 2102.02888.
///
/// Every rank ends each step with the same bits, those of one process that does the same with N
/// gradients, on every engine. A frozen step of a bucket of n elements on N ranks sends 2 (N - 1)
/// (4
/// + row / 8) bytes, row = n / N rounded up to 32, and 8 (N - 1) for all buckets together; see
/// bytes_of_step(). Memory beside Adam's: errors of 4 bytes an element, and of 4 / N. They are each
/// rank's own: a Checkpointer that tracks the optimizer saves them by rank.
///
/// Frozen steps: gradients of several backwards are added up as ever and need no no_sync();
/// clip_grad_norm() sees this rank's gradients alone; a parameter without one has a gradient of 0.
/// Elements whose v is 0 had no gradient in the warm-up: they stay, as do those of an embedding
/// that no batch had; still_elements() counts them. A gradient that is not finite on any rank is an
/// Error on all, which names rank and parameter, before anything has changed; optim::GradScaler
/// passes over such a step on every rank.
///
/// `ddp` is a DDP of the module whose parameters these are, all or some of them, in float32 or
/// halves; of ZeRO or FSDP, which keep only parts of gradients and states on a rank, it is an
/// Error.
class OneBitAdam : public optim::OptimizerOf<OneBitAdamOptions>, public RankStates {
 public:
  OneBitAdam(const DataParallel& ddp, const std::vector<Tensor>& params,
             const OneBitAdamOptions& options = {});
  OneBitAdam(const DataParallel& ddp, const std::vector<Group>& groups);
  ~OneBitAdam() override;

  void step() override;
  bool gradients_finite() const override;
  void load_state_dict(const optim::StateDict& dict) override;

  /// Whether the next step's momentum travels in bits.
  bool frozen() const;
  /// Bytes that this rank sends in a frozen step.
  int64_t bytes_of_step();
  /// Elements that no frozen step moves; 0 before.
  int64_t still_elements() const;

  /// \name The errors, of the frozen steps; a checkpoint has none before
  /// \{
  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;
  /// \}

 protected:
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;

 private:
  void step_frozen();

  std::unique_ptr<OneBitLink> link_;
};

struct OneBitLAMBOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.0;
  int64_t freeze_step = 100'000;               ///< steps of warm-up; the same for all groups
  int64_t bucket_elements = int64_t{4} << 20;  ///< of momentum, sent together; likewise
  double max_coeff = 10.0;                     ///< of the quotient |p| / |d| in the warm-up
  double min_coeff = 0.01;
  double coeff_beta = 0.9;  ///< of the quotient's running mean, which stays at the freeze
  double factor_max = 4.0;  ///< of the factor that it gets in a frozen step
  double factor_min = 0.5;
  double factor_threshold = 0.1;  ///< by which part that may change from step to step

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("freeze_step", self.freeze_step);
    visit("bucket_elements", self.bucket_elements);
    visit("max_coeff", self.max_coeff);
    visit("min_coeff", self.min_coeff);
    visit("coeff_beta", self.coeff_beta);
    visit("factor_max", self.factor_max);
    visit("factor_min", self.factor_min);
    visit("factor_threshold", self.factor_threshold);
  }
};

/// 1-bit LAMB. The warm-up is LAMB's, its quotient c = |p| / |d| kept within [min_coeff, max_coeff]
/// and averaged over the steps, each parameter's by itself. A frozen step makes momenta as
/// OneBitAdam does, after scaling each parameter's to the same root of the mean square (scales are
/// those of the freeze); v and the average of c stay, and v' goes on from v with the gradients that
/// the means stand for, (m - beta1 m') / (1 - beta1). Then p -= lr c f d, d = m / (1 - beta1^t) /
/// denominator
/// + weight_decay p, where f is the largest quotient of the denominators by v and by v', drawn
/// towards 1 by the share of the decay in d, within [factor_min, factor_max] and within
/// factor_threshold of the last step's. Li et al., arXiv 2104.06069, algorithm 1.
///
/// Bytes, errors, pairing, checkpoints and what else is said of OneBitAdam hold here, too. Beside
/// those errors it has one array more, v'.
class OneBitLAMB : public optim::OptimizerOf<OneBitLAMBOptions>, public RankStates {
 public:
  OneBitLAMB(const DataParallel& ddp, const std::vector<Tensor>& params,
             const OneBitLAMBOptions& options = {});
  OneBitLAMB(const DataParallel& ddp, const std::vector<Group>& groups);
  ~OneBitLAMB() override;

  void step() override;
  bool gradients_finite() const override;
  void load_state_dict(const optim::StateDict& dict) override;
  bool frozen() const;
  int64_t bytes_of_step();

  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names(int group) const override;
  double first_value(int group, const char* name) const override;
  void update(int group, State& state, const Array& grad) override;
  void step_done() override;

 private:
  void step_frozen();
  void freeze();
  void step_along(int group, State& state, const Array& before);

  std::unique_ptr<OneBitLink> link_;
  std::vector<std::pair<int, State*>> directed_;  // of the warm-up step now running, by group
};

struct ZeroOneAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  int64_t var_freeze_step = 100'000;   ///< the last step that may update v
  int64_t var_update_scaler = 16;      ///< updates of v after which the steps between two double
  int64_t local_step_scaler = 32'768;  ///< local steps after which those between two means double
  int64_t local_step_clipper = 16;     ///< the most of them
  int64_t bucket_elements = int64_t{4} << 20;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("var_freeze_step", self.var_freeze_step);
    visit("var_update_scaler", self.var_update_scaler);
    visit("local_step_scaler", self.local_step_scaler);
    visit("local_step_clipper", self.local_step_clipper);
    visit("bucket_elements", self.bucket_elements);
  }
};

/// 0/1 Adam. Up to var_freeze_step, v is updated in every k-th step alone, by gradients that DDP
/// averages; in the others each rank keeps its own and their mean in bits (with error feedback on
/// both sides) goes into m. k doubles after var_update_scaler updates. Then v stays, errors begin
/// anew, and ranks step by themselves, each with its own m and parameters, adding up u = sum of r
/// m, r = lr / (1 - beta1^t). After every h such steps, where h doubles after local_step_scaler
/// steps up to local_step_clipper, u becomes the ranks' mean in bits, parameters go back to where
/// they were after the last mean, p -= u / denominator, and m = u / (sum of r). Lu et al., arXiv
/// 2202.06009, algorithm 1; m and v are corrected for their start at zero, as Adam's.
///
/// Between two means ranks have different parameters: state_dict() is an Error there that names the
/// next one, and synchronize() makes one. After it all ranks have the same bits. Bytes: those of
/// DDP's all_reduce where v is updated, OneBitAdam's where bits travel, none in local steps. What
/// else is said of OneBitAdam holds here, too; a gradient that is not finite in a local step is
/// that rank's Error, which the others hear of in their next call. Options count the steps of all
/// groups.
class ZeroOneAdam : public optim::OptimizerOf<ZeroOneAdamOptions>, public RankStates {
 public:
  ZeroOneAdam(const DataParallel& ddp, const std::vector<Tensor>& params,
              const ZeroOneAdamOptions& options = {});
  ZeroOneAdam(const DataParallel& ddp, const std::vector<Group>& groups);
  ~ZeroOneAdam() override;

  void step() override;
  bool gradients_finite() const override;
  optim::StateDict state_dict() const override;
  void load_state_dict(const optim::StateDict& dict) override;

  /// How the ranks' next step goes.
  enum class Kind : uint8_t { variance, bits, local };
  Kind next_step() const;
  /// The ranks' parameters are the same.
  bool synchronized() const { return local_steps_ == 0; }
  /// Makes them the same now, where they are not. A collective.
  void synchronize();
  /// Bytes that this rank sends where bits travel.
  int64_t bytes_of_mean();

  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names(int group) const override;
  double first_value(int group, const char* name) const override;
  void update(int group, State& state, const Array& grad) override;

 private:
  enum Number : uint8_t { kVarianceSteps, kInterval, kCounter, kLocalInterval, kLocalCounter };

  double number(Number which) const;
  void set_number(Number which, double value);
  double steps() const;
  Array gradient_or_zeros(const State& state) const;
  void each_state(const std::function<void(int group, size_t at, State& state)>& body);
  void step_by_bits();
  void step_locally();
  void move(int group, State& state, double keep, double rate);
  void count_variance_step();
  void begin_local_steps();

  std::unique_ptr<OneBitLink> link_;
  int64_t local_steps_ = 0;     // since the last mean
  Array sum_;                   // u
  std::vector<Array> at_mean_;  // parameters after the last mean
  std::vector<double> rates_;   // sums of r since then, of each group
  std::vector<double> keeps_;   // products of 1 - lr * weight_decay
};

}  // namespace hero::dist
