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
#include <hero/dist/owned.h>
#include <hero/dist/wrap_policy.h>
#include <hero/nn/module.h>
#include <hero/nn/pipeline_model.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// Options of Trainer.
struct TrainerOptions {
  /// For stage 3: which modules are units; a module made on meta is then initialised shard by
  /// shard. When empty, every module with parameters is one. Hybrid sharding of a model with tied
  /// parameters needs it.
  UnitPolicy unit = {};
  Device device = kCpu;  ///< where a module made on meta computes
  /// true: in train_batch() the loss of a step is the mean over all targets of its micro-batches on
  /// all data ranks (nn::PipelineModel::target_count()), as transformers' Trainer computes it, so
  /// that it does not depend on how the batch is divided. false: the mean of the micro-batches'
  /// means, as in DeepSpeed. If all have equally many targets, both are bitwise equal.
  bool weigh_by_targets = true;
};

/// Trains a module as a Config says: on the strategy that it names, with its optimizer. All ranks
/// make a trainer with the same module and Config and make the same calls. The module and the
/// communicator must outlive it.
///
/// Loss and gradients are bitwise equal to those of the same program without a Trainer: backward()
/// divides the loss by the accumulation steps and scales it; ranks average only in the last
/// backward pass of a step, or with "reduce_each" in each; and step() then unscales, clips, steps
/// the optimizer, changes the learning rate and clears the gradients, while other calls of step()
/// only count. train_batch() does all this for a batch.
///
/// With "pipe" above 1 the module must be an nn::PipelineModel, such as nn::GPT, with a number of
/// blocks that the stages divide, or at least as many layers as stages; it may be on meta, and you
/// can train it only by train_batch().
class Trainer {
 public:
  /// Makes a trainer. A collective; throws an Error if the Config does not fit the module or the
  /// ranks.
  Trainer(nn::Module& model, const Communicator& world, const Config& config,
          const TrainerOptions& options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Returns the result of `run`. With "fp16" and "bf16" the parameters are in float16 or bfloat16,
  /// and floating-point inputs must be, too. Only with a 1-bit optimizer do parameters stay float32
  /// with "fp16"; then matrix products in `run` are in float16.
  Tensor forward(const std::function<Tensor()>& run);
  /// Adds the gradients of a micro-batch's loss, divided so that a step's gradients are those of
  /// the mean over all its micro-batches on all data ranks. For a mean over all targets, multiply
  /// the loss by its factor from target_weights().
  void backward(const Tensor& loss);
  /// Returns true if parameters were stepped: not between the micro-batches of a step, and not if a
  /// float16 gradient overflowed.
  bool step();

  /// Makes a whole step: forward and backward for each micro-batch of x and y, whose first
  /// dimension is this rank's part of a batch, then step(). Returns the mean loss over this rank's
  /// part (not over the data ranks), on every stage of a pipeline. Throws an Error if the module is
  /// not an nn::PipelineModel, which knows its loss, or if the first dimension is not
  /// train_micro_batch_size_per_gpu() x gradient_accumulation_steps().
  double train_batch(const Tensor& x, const Tensor& y);

  /// The replica of the model to which this rank belongs, and how many there are. Ranks that share
  /// a replica by "tensor" or "pipe" have the same number and take the same samples.
  int data_rank() const;
  int data_ranks() const;

  /// True if the next backward pass, or the last one before step(), is the last one of a step.
  bool is_gradient_accumulation_boundary() const;
  /// The configuration, with all three batch sizes.
  const Config& config() const;
  /// Samples of all data ranks in one step.
  int64_t train_batch_size() const { return config().train_batch_size; }
  /// Samples of this rank in one backward pass.
  int64_t train_micro_batch_size_per_gpu() const { return config().micro_batch_size; }
  /// Backward passes of a rank in one step.
  int64_t gradient_accumulation_steps() const { return config().accumulation_steps; }

  /// Steps of the optimizer, including skipped ones.
  int64_t global_steps() const;
  /// Backward passes so far.
  int64_t micro_steps() const;
  /// Steps that were skipped because of an overflow.
  int64_t skipped_steps() const;
  /// The present learning rate.
  double lr() const;
  /// The factor of the loss; 1 without float16.
  double loss_scale() const;
  /// The norm of all gradients in the last step, unscaled and before clipping; 0 before the first
  /// step, without gradient_clipping, and on simulated ranks.
  double global_grad_norm() const;

  /// The module.
  nn::Module& module() const;
  /// The state of the whole module, on every rank. A collective. Throws an Error if "tensor" or
  /// "pipe" is above 1: use dist::save_full() then.
  nn::StateDict full_state_dict() const;
  /// The optimizer.
  optim::Optimizer& optimizer() const;
  /// Tracks the model, the optimizer, the learning-rate schedule, the loss scale and the counts,
  /// for checkpoint.save() and resume(): training resumes with the same bits, on any number of
  /// ranks with the same batch size. Call it between two steps.
  void track(Checkpointer& checkpoint);

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace hero::dist
