#pragma once
// Trainer: a training run as a Config describes it, with the calls of DeepSpeed's engine.
//
//   dist::Trainer trainer(model, world, dist::Config::load("ds_config.json"));
//   for (const auto& [x, y] : loader) {
//     const Tensor loss = trainer.forward([&] { return model.loss(x, y); });
//     trainer.backward(loss);
//     trainer.step();
//   }
#include <functional>
#include <memory>

#include <hero/dist/checkpoint.h>
#include <hero/dist/communicator.h>
#include <hero/dist/config.h>
#include <hero/dist/policy.h>
#include <hero/nn/chain.h>
#include <hero/nn/module.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

struct TrainerOptions {
  /// Stage 3: which modules are units, and a module made on meta is then filled shard by shard.
  /// Empty: each with parameters. A hybrid of a model with tied parameters needs it.
  UnitPolicy unit = {};
  Device device = kCpu;  ///< where a module made on meta computes
};

/// Puts a module on the rung that a Config names and steps its optimizer. All ranks make one with
/// the same module and Config and call the same. The module and the communicator must outlive it.
///
/// Loss and gradients are those of the same program by hand, to the bit: backward() divides the
/// loss by the accumulation steps and scales it, ranks average with the last backward of a step
/// alone, and step() then unscales, clips, steps the optimizer, moves the rate and empties the
/// gradients; other calls of step() only count. train_batch() does all of that for a batch.
///
/// With "pipe" above 1 the module must be an nn::Chain, as nn::GPT is, with blocks that the stages
/// divide or links that they do not outnumber; it may lie on meta, and train_batch() is the only
/// way through it.
class Trainer {
 public:
  Trainer(nn::Module& model, const Communicator& world, const Config& config,
          const TrainerOptions& options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// What `run` gives, its products in the Config's dtype. A forward outside of it is in the
  /// parameters' dtype.
  Tensor forward(const std::function<Tensor()>& run);
  /// Adds the gradients of the mean over the micro-batches of a step.
  void backward(const Tensor& loss);
  /// True when parameters were stepped: not between the micro-batches of a step, and not where a
  /// float16 gradient overflowed.
  bool step();

  /// A whole step: forward and backward of each micro-batch of x and y, whose first dimension is
  /// this rank's part of a batch, then step(). Returns the mean loss over them, on every stage of a
  /// pipeline. An Error where the module is no nn::Chain, which knows its loss, or the first
  /// dimension is not train_micro_batch_size_per_gpu() x gradient_accumulation_steps().
  double train_batch(const Tensor& x, const Tensor& y);

  /// Which replica of the model this rank is of, of how many: those that share one by "tensor" or
  /// "pipe" have the same and take the same samples.
  int data_rank() const;
  int data_ranks() const;

  /// The backward that comes next, or was the last before step(), is the last one of a step.
  bool is_gradient_accumulation_boundary() const;
  /// With all three batch sizes.
  const Config& config() const;
  int64_t train_batch_size() const { return config().train_batch_size; }
  int64_t train_micro_batch_size_per_gpu() const { return config().micro_batch_size; }
  int64_t gradient_accumulation_steps() const { return config().accumulation_steps; }

  /// Steps of the optimizer that were due, with those that were skipped.
  int64_t global_steps() const;
  int64_t micro_steps() const;    ///< backwards
  int64_t skipped_steps() const;  ///< for an overflow
  double lr() const;
  double loss_scale() const;  ///< 1 without float16
  /// Of all gradients in the last step, before clipping; 0 before the first one and without
  /// gradient_clipping.
  double global_grad_norm() const;

  nn::Module& module() const;
  /// The whole module's state on every rank; a collective. An Error with "tensor" or "pipe" above
  /// 1: there dist::save_full() writes whole modules.
  nn::StateDict full_state_dict() const;
  optim::Optimizer& optimizer() const;
  /// The model, the optimizer, the rate's steps, the loss's scale and the counts, for
  /// checkpoint.save() and resume(): training goes on bit for bit, on any number of ranks that has
  /// the same batch. Between two steps.
  void track(Checkpointer& checkpoint);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::dist
