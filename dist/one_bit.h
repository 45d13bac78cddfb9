#pragma once
// 1-bit optimizers on top of DDP, whose ranks send each other one bit for each element: 1-bit Adam,
// 1-bit LAMB and 0/1 Adam.
//
// dist::DDP ddp(model, world); dist::OneBitAdam adam(ddp, model.parameters(), {.lr = 1e-3,
// .freeze_step = 300}); ... loss.backward();  // up to step 300 gradients are averaged; later each
// rank keeps its own adam.step();      // momenta are then averaged, sent as one bit per element
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/data_parallel.h>
#include <hero/dist/rank_states.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

class OneBitLink;

/// The common base of the 1-bit optimizers: the compression errors, which differ from rank to rank.
/// There are none before the first compressed mean, and a checkpoint saved before it has none.
class OneBitErrors : public RankStates {
 public:
  ~OneBitErrors() override;
  OneBitErrors(const OneBitErrors&) = delete;
  OneBitErrors& operator=(const OneBitErrors&) = delete;

  optim::StateDict rank_state_dict() const override;
  void load_rank_state_dict(const optim::StateDict& dict) override;
  void reset_rank_state() override;

 protected:
  /// Prepares the compressed mean for `parameters`, which belong to ddp's module; Errors begin with
  /// `what`.
  OneBitErrors(const char* what, const DataParallel& ddp, const std::vector<Tensor>& parameters,
               int64_t bucket_elements);

  /// The reason, for an error, why a 1-bit optimizer has neither master weights nor paged states.
  static const char* no_parts() {
    return "it steps parameters in their own precision, beside what it sends in bits; with "
           "masters, "
           "or states in a file, use AdamW or LAMB";
  }

  const std::unique_ptr<OneBitLink> link_;
};

/// Options of OneBitAdam.
struct OneBitAdamOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;  ///< added to the root that is divided by
  /// Decoupled decay: the parameter is multiplied by 1 - lr * weight_decay.
  double weight_decay = 0.0;
  int64_t freeze_step = 100'000;  ///< steps of warm-up; the same for all groups
  /// Elements of momentum that are sent together; the same for all groups.
  int64_t bucket_elements = int64_t{4} << 20;

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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

/// 1-bit Adam. The first freeze_step steps are AdamW's, with the gradients that DDP averages. After
/// that, the mean squares v and their correction stay fixed, and backward leaves each rank its own
/// gradients g: m = the mean over the ranks of m + (1 - beta1) (g - m), sent in bits with error
/// feedback on both sides (each rank gets its row of bits from all ranks, and sends the bits of the
/// row's mean to all), and p = p (1 - lr weight_decay) - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 -
/// beta2^freeze) + eps). Tang et al., arXiv 2102.02888.
///
/// Every rank ends each step with the same bits, those of one process that does the same with N
/// gradients, on every backend. A frozen step of a bucket of n elements on N ranks sends 2 (N - 1)
/// (4 + row / 8) bytes, row = n / N rounded up to 32, and 8 (N - 1) for all buckets together; see
/// bytes_of_step(). In addition to Adam's memory, errors take 4 + 4 / N bytes for each element.
/// They differ from rank to rank: a Checkpointer that tracks the optimizer saves them by rank.
///
/// In frozen steps, gradients of several backward passes are added up as usual and need no
/// no_sync(); clip_grad_norm() sees only this rank's gradients; a parameter without a gradient has
/// a gradient of 0. Elements whose v is 0 got no gradient in the warm-up, such as rows of an
/// embedding that no batch contained: frozen steps do not change them, and still_elements() counts
/// them. If a gradient on any rank is not finite, all ranks throw an Error, which names rank and
/// parameter, before anything has changed; optim::GradScaler skips such a step on every rank.
///
/// `ddp` is a DDP of the module whose trainable parameters these are, all of them, in float32 or
/// half precision. For ZeRO or FSDP, which keep only shards of gradients and states on a rank, it
/// throws an Error.
class OneBitAdam : public optim::OptimizerOf<OneBitAdamOptions>, public OneBitErrors {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  OneBitAdam(const DataParallel& ddp, const std::vector<Tensor>& params,
             const OneBitAdamOptions& options = {});
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  OneBitAdam(const DataParallel& ddp, const std::vector<Group>& groups);

  void step() override;
  bool gradients_finite() const override;
  void load_state_dict(const optim::StateDict& dict) override;

  /// True if the next step is a frozen one, which sends its momentum in bits.
  bool frozen() const;
  /// The bytes that this rank sends in a frozen step.
  int64_t bytes_of_step();
  /// The number of elements that no frozen step changes; 0 in the warm-up.
  int64_t still_elements() const;

 protected:
  void check_group(const std::vector<Tensor>& params) const override;
  const char* no_master_weights() const override { return no_parts(); }
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names() const override;
  void update(int group, State& state, const Array& grad) override;

 private:
  void step_frozen();
};

/// Options of OneBitLAMB.
struct OneBitLAMBOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-6;              ///< added to the root that is divided by
  double weight_decay = 0.0;      ///< this times the parameter is added to its direction d
  int64_t freeze_step = 100'000;  ///< steps of warm-up; the same for all groups
  /// Elements of momentum that are sent together; the same for all groups.
  int64_t bucket_elements = int64_t{4} << 20;
  double max_coeff = 10.0;  ///< upper limit of the quotient c = |p| / |d| in the warm-up
  double min_coeff = 0.01;  ///< lower limit of c
  double coeff_beta = 0.9;  ///< decay of the running mean of c, which stays fixed after the warm-up
  double factor_max = 4.0;  ///< upper limit of the factor f of a frozen step
  double factor_min = 0.5;  ///< lower limit of f
  double factor_threshold = 0.1;  ///< largest relative change of f from one step to the next

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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

/// 1-bit LAMB. The warm-up is LAMB's: the quotient c = |p| / |d| of each parameter is limited to
/// [min_coeff, max_coeff], and its mean over the steps is kept. A frozen step averages momenta as
/// OneBitAdam does, after scaling each parameter's momentum to the same root mean square (by
/// factors that were computed at the freeze). v and the mean of c stay fixed; v' starts from v and
/// is updated by the gradients that follow from the averaged momenta, (m - beta1 m') / (1 - beta1),
/// with the previous momentum m'. Then p -= lr c f d, d = m / (1 - beta1^t) / denominator +
/// weight_decay p, where f is the largest quotient of the denominators by v and by v', moved
/// towards 1 by the share of the decay in d, and limited to [factor_min, factor_max] and to a
/// change of factor_threshold from the last step's f. Li et al., arXiv 2104.06069, algorithm 1.
///
/// What OneBitAdam says about bytes, errors, checkpoints and DDP is true here, too. It has
/// one more array for each parameter, v'.
class OneBitLAMB : public optim::OptimizerOf<OneBitLAMBOptions>, public OneBitErrors {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  OneBitLAMB(const DataParallel& ddp, const std::vector<Tensor>& params,
             const OneBitLAMBOptions& options = {});
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  OneBitLAMB(const DataParallel& ddp, const std::vector<Group>& groups);

  void step() override;
  bool gradients_finite() const override;
  void load_state_dict(const optim::StateDict& dict) override;
  /// True if the next step is a frozen one, which sends its momentum in bits.
  bool frozen() const;
  /// The bytes that this rank sends in a frozen step.
  int64_t bytes_of_step();

 protected:
  void check_group(const std::vector<Tensor>& params) const override;
  const char* no_master_weights() const override { return no_parts(); }
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names() const override;
  double first_value(int group, const char* name) const override;
  void update(int group, State& state, const Array& grad) override;
  void step_done() override;

 private:
  void step_frozen();
  void freeze();
  void step_along(int group, State& state, const Array& before);

  // Parameters of the current warm-up step that have a direction, with their group.
  std::vector<std::pair<int, State*>> directed_;
};

/// Options of ZeroOneAdam. Numbers of steps count those of all groups.
struct ZeroOneAdamOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;  ///< added to the root that is divided by
  /// Decoupled decay: the parameter is multiplied by 1 - lr * weight_decay.
  double weight_decay = 0.0;
  int64_t var_freeze_step = 100'000;  ///< the last step that may update v
  /// Updates of v after which the interval between two of them doubles.
  int64_t var_update_scaler = 16;
  /// Local steps after which the interval between two means doubles. The default, also of a file in
  /// DeepSpeed's JSON that has none, is that of DeepSpeed's source, 32678, which is no power of
  /// two.
  int64_t local_step_scaler = 32'678;
  int64_t local_step_clipper = 16;             ///< upper limit of that interval
  int64_t bucket_elements = int64_t{4} << 20;  ///< elements that are sent together

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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

/// 0/1 Adam. Up to var_freeze_step, v is updated only in every k-th step, by gradients that DDP
/// averages; in the other steps each rank keeps its own gradients, and their mean, sent in bits
/// with error feedback on both sides, enters m. k doubles after var_update_scaler updates. After
/// that, v stays fixed, errors are reset, and ranks make local steps, each with its own m and
/// parameters, and add up u = sum of r m, with r = lr / (1 - beta1^t). After every h local steps,
/// where h doubles after local_step_scaler steps up to local_step_clipper, u is replaced by its
/// mean over the ranks, sent in bits; parameters return to where they were after the last mean; p
/// -= u / denominator; and m = u / (sum of r). Lu et al., arXiv 2202.06009, algorithm 1; m and v
/// are corrected for their start at zero, as Adam's.
///
/// Between two means the ranks have different parameters: state_dict() then throws an Error that
/// names the step of the next mean, and synchronize() makes one at once. After a mean all ranks
/// have the same bits. A step sends the bytes of DDP's all_reduce if v is updated, those of
/// OneBitAdam if bits are sent, and none if it is local. What else OneBitAdam says is true
/// here, too; a gradient that is not finite in a local step is an Error of that rank, which the
/// others get in their next call.
class ZeroOneAdam : public optim::OptimizerOf<ZeroOneAdamOptions>, public OneBitErrors {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  ZeroOneAdam(const DataParallel& ddp, const std::vector<Tensor>& params,
              const ZeroOneAdamOptions& options = {});
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  ZeroOneAdam(const DataParallel& ddp, const std::vector<Group>& groups);

  void step() override;
  bool gradients_finite() const override;
  optim::StateDict state_dict() const override;
  void load_state_dict(const optim::StateDict& dict) override;

  /// What a step does: it updates v by averaged gradients, averages in bits, or is local.
  enum class Kind : uint8_t { variance, bits, local };
  /// What the next step does.
  Kind next_step() const;
  /// True if the parameters are the same on all ranks.
  bool synchronized() const { return local_steps_ == 0; }
  /// Makes a mean now, unless the parameters are the same already. A collective.
  void synchronize();
  /// The bytes that this rank sends in a step that averages in bits.
  int64_t bytes_of_mean();

 protected:
  void check_group(const std::vector<Tensor>& params) const override;
  const char* no_master_weights() const override { return no_parts(); }
  std::vector<const char*> array_names(int group) const override;
  std::vector<const char*> number_names() const override;
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

  int64_t local_steps_ = 0;     // since the last mean
  Array sum_;                   // u
  std::vector<Array> at_mean_;  // parameters after the last mean
  std::vector<double> rates_;   // sums of r since then, of each group
  std::vector<double> keeps_;   // products of 1 - lr * weight_decay
};

}  // namespace hero::dist
