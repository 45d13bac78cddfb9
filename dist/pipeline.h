#pragma once
// Pipeline: a model cut between its links over the ranks of a group, each of which holds one stage
// of it, or several chunks, and works on one micro-batch while the others work on other ones.
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
#include <hero/dist/schedule.h>
#include <hero/nn/chain.h>
#include <hero/nn/generate.h>

namespace hero::dist {

struct PipelineOptions {
  Schedule schedule = Schedule::one_f_one_b();
  int micro_batches = 1;  ///< equal parts of a batch along its first dimension
  /// The first link of each stage, from 0 on, a stage for each chunk of each rank: chunk c of rank
  /// r is stage c p + r. Empty: as many links each as they go, the first ones one more.
  std::vector<size_t> first_links = {};
  Device device = kCpu;  ///< where what was made on meta gets its values, if all of it was
};

struct PipelineStepOptions {
  double scale = 1.0;  ///< of the loss whose gradients are added: a GradScaler's get_scale()
};

/// One rank's end of a pipeline. The module is whole on every rank and may lie on meta; parameters
/// and buffers of this rank's links get bytes and the first values that building the whole would
/// have given them, all others become leaves of no elements, whose partition() says so. Names stay
/// the model's, so a dist::Checkpointer saves and loads it on any number of ranks. Optimizers,
/// norms and scalers take parameters(), or the module's own, which are the same.
///
/// The gradients of a step are, to the bit, those of one process that adds up the same
/// micro-batches by backward() of (loss / m), one after the other, under every schedule and number
/// of ranks. The exceptions: a parameter tied over stages, as GPT's wte and lm_head, whose gradient
/// is the sum of its stages' sums (the same bits for one micro-batch alone); and dropout, which
/// draws from each rank's own generator.
///
/// Along another axis of the mesh fully_shard() or ZeRO may follow, where each rank divides what it
/// holds: gradients are averaged in each chunk's last backward. A parameter tied over stages cannot
/// be sharded. Huang et al., arXiv 1811.06965.
/// \snippet test_examples_ranks.cpp Pipeline
class Pipeline {
 public:
  /// A collective of `comm`: an Error on every rank where ranks name other options or models. So it
  /// is where there are fewer links than stages, where a parameter belongs to no link, or where it
  /// is sharded already. `chain` must outlive the pipeline.
  Pipeline(nn::Chain& chain, const Communicator& comm, const PipelineOptions& options = {});
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// Forward and backward of a batch: adds the gradients of its mean loss to the parameters and
  /// returns that loss, the same number on every rank (NaN on simulated ranks, which have none).
  /// The first dimensions of x and y must be multiples of the number of micro-batches, each of
  /// which counts alike. Every rank needs x, of which only the first one reads the values and the
  /// others the shape; y is read by the last one alone and may be undefined elsewhere.
  double step(const Tensor& x, const Tensor& y, const PipelineStepOptions& options = {});
  /// The mean loss alone, unrecorded.
  double loss(const Tensor& x, const Tensor& y);
  /// What the module makes of x, unrecorded: on the last rank, undefined on the others.
  Tensor operator()(const Tensor& x);

  /// nn::Decoder::generate() where the chain is a GPT, a Llama or another DecoderChain: the same
  /// tokens on every rank, and those of one process. All ranks give the same tokens and options;
  /// the last one draws, from `seed` or its thread's generator. Each rank keeps the keys and values
  /// of its own blocks. A token goes through all stages one after the other, so while one rank
  /// works the others wait.
  Tensor generate(const Tensor& tokens, const nn::GenerateOptions& options = {});

  /// All parameters of the model, in its order; this rank's alone have elements.
  std::vector<Tensor> parameters() const;
  /// The links of one of this rank's chunks: the first and the one behind the last.
  std::pair<size_t, size_t> links(int chunk = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hero::dist
