#pragma once
// Pipeline: a model that is cut between its layers into stages. Each rank of a group has one stage,
// or several (chunks), and the ranks compute different micro-batches at the same time.
//
//   std::optional<nn::DeviceScope> meta(kMeta);
//   nn::GPT model(config);  // shapes alone, on every rank; with tie_weights = false
//   meta.reset();
//   const dist::Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
//   dist::Pipeline pipe(model, mesh["pipe"], {.micro_batches = 8});
//   dist::fully_shard(model, mesh["data"], {.unit = dist::each<nn::Block>()});
//   optim::AdamW adamw(pipe.parameters(), {.lr = 3e-4});
//   ...
//   const double loss = pipe.step(tokens, targets);         // forward and backward
//   optim::clip_grad_norm(pipe.parameters(), 1.0);          // of the whole model
//   adamw.step();
#include <memory>
#include <utility>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/dist/owned.h>
#include <hero/dist/pipeline_schedule.h>
#include <hero/nn/generate.h>
#include <hero/nn/pipeline_model.h>

namespace hero::dist {

/// Options of Pipeline.
struct PipelineOptions {
  Schedule schedule = Schedule::one_f_one_b();  ///< the order of forward and backward passes
  int micro_batches = 1;  ///< equal parts of a batch along its first dimension
  /// The first layer of each stage, beginning with 0; there is a stage for each chunk of each rank,
  /// and chunk c of rank r is stage c p + r, with p ranks. When empty, layers are divided evenly,
  /// and the first stages have one more layer if the division leaves a remainder.
  std::vector<size_t> first_layers = {};
  Device device = kCpu;  ///< where a module that was made on meta is initialised
  /// true: micro-batches are weighed by their numbers of targets
  /// (nn::PipelineModel::target_count()), so that the loss is the mean over all targets of the
  /// batch, however it is divided. false: all have weight 1, and the loss is the mean of their
  /// means, as in PyTorch, which differs if micro-batches have different numbers of targets.
  bool weigh_by_targets = false;
  /// With weigh_by_targets: the ranks whose gradients are averaged with this rank's afterwards,
  /// such as mesh["data"]; their targets count, too. Undefined: no other ranks.
  Communicator data = {};
};

/// Options of Pipeline::step().
struct PipelineStepOptions {
  double scale = 1.0;  ///< factor of the loss in backward, such as GradScaler::get_scale()
};

/// One rank's handle of a pipeline. The module is whole on every rank and may be on meta.
/// Parameters and buffers of this rank's layers are allocated, with the initial values that they
/// would have in the whole module; all others become leaves without elements, as their partition()
/// describes. Names do not change, so a dist::Checkpointer saves and loads the model on any number
/// of ranks. Optimizers, clip_grad_norm() and GradScaler take parameters(), or the module's
/// parameters(), which are the same.
///
/// Under every schedule and on any number of ranks, the gradients of a step have the bits of one
/// process that calls backward() of (loss / m) for the same m micro-batches, one after the other.
/// There are two exceptions: the gradient of a parameter that is tied over stages, such as GPT's
/// wte and lm_head, is the sum of the sums of its stages (with the same bits only for one
/// micro-batch); and dropout draws from each rank's own generator.
///
/// Along another axis of the mesh, fully_shard() or ZeRO can be applied afterwards, and shards each
/// rank's own layers: gradients are averaged in the last backward pass of each chunk. A parameter
/// that is tied over stages cannot be sharded. Huang et al., arXiv 1811.06965.
/// \snippet test_examples_ranks.cpp Pipeline
class Pipeline {
 public:
  /// Makes a pipeline. A collective of `comm`: throws an Error on every rank if ranks give
  /// different options or models, if there are fewer layers than stages, or if a parameter belongs
  /// to no layer or is sharded already. `model` must outlive the pipeline.
  Pipeline(nn::PipelineModel& model, const Communicator& comm, const PipelineOptions& options = {});
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// Runs forward and backward for a batch: adds the gradients of its mean loss to those of the
  /// parameters, and returns that loss, the same number on every rank (NaN on simulated ranks,
  /// which compute none). The first dimensions of x and y must be multiples of the number of
  /// micro-batches, which have the same weight unless weigh_by_targets is set. With
  /// weigh_by_targets and `data`, the gradients are this pipeline's part of those of the mean over
  /// the targets of all ranks of `data`, and the returned loss is the mean over the targets of this
  /// pipeline's own batch. Every rank needs x: the first rank reads its values, the others only its
  /// shape; only the last rank reads y, which may be undefined elsewhere.
  double step(const Tensor& x, const Tensor& y, const PipelineStepOptions& options = {});
  /// Computes only the mean loss, without recording.
  double loss(const Tensor& x, const Tensor& y);
  /// Computes the module's output for x without recording. The result is defined only on the last
  /// rank.
  Tensor operator()(const Tensor& x);

  /// Does what nn::Decoder::generate() does, if the model is a GPT, a Llama or another
  /// PipelineDecoder: every rank returns the same tokens, which are those of one process. All ranks
  /// pass the same tokens and options; the last rank draws, from `seed` or its thread's generator.
  /// Each rank keeps the keys and values of its own blocks. A token passes through all stages one
  /// after the other, so while one rank computes, the others wait.
  Tensor generate(const Tensor& tokens, const nn::GenerateOptions& options = {});

  /// All parameters of the model, in its order; only those of this rank have elements.
  std::vector<Tensor> parameters() const;
  /// The layers of one of this rank's chunks: the first one, and the one after the last.
  std::pair<size_t, size_t> layers(int chunk = 0) const;

 private:
  struct State;
  Owned<State> state_;
};

}  // namespace hero::dist
