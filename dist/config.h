#pragma once
// Config: a training run, as a file in DeepSpeed's JSON format describes it.
// docs/coming_from.md says what every key does here, or why it is refused.
#include <cstdint>
#include <map>
#include <string>

#include <hero/autograd/tensor.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// What dist::Trainer builds. A member that a file does not set keeps the default value given here.
struct Config {
  /// \name Batch sizes, in samples; 0: not given
  /// Given two of them, resolve() computes the third: train_batch_size = micro_batch_size x
  /// accumulation_steps x data ranks.
  /// \{
  int64_t train_batch_size = 0;    ///< samples of all data ranks in one step
  int64_t micro_batch_size = 0;    ///< samples of one rank in one backward pass
  int64_t accumulation_steps = 0;  ///< backward passes of a rank in one step
  /// \}

  /// An optimizer or a schedule: its type, and its numbers by name. Optimizers are "Adam", "AdamW",
  /// "SGD", "Lamb", "Lion", "Adagrad" and "RMSprop", or, with stage 0, "OneBitAdam", "OneBitLamb"
  /// and "ZeroOneAdam", with the names of optim::Optimizer::option(). "Adam" decouples the weight
  /// decay, as DeepSpeed's does; with adam_w_mode false the type in the file is read as "AdamL2".
  /// Options that are not given have DeepSpeed's defaults: a weight decay of 0, a learning rate of
  /// 1e-3 for "Lion", and an eps of 1e-8 for "Lamb" and "OneBitLamb".
  struct Method {
    std::string type = {};                       ///< which one
    std::map<std::string, double> options = {};  ///< its numbers by name
    bool operator==(const Method&) const = default;
  };
  /// The optimizer.
  Method optimizer = {};

  /// The schedule of the learning rate: "WarmupLR", "WarmupDecayLR", "WarmupCosineLR", or "" for a
  /// constant rate; numbers have DeepSpeed's names, and warmup_type is 0 (log) or 1 (linear).
  Method scheduler = {};

  /// The dtype of parameters and gradients. With kFloat16 or kBFloat16 the module is converted to
  /// it, and the optimizer steps float32 copies of the parameters (optim::MasterWeights), as in
  /// DeepSpeed: 16 bytes for each parameter with Adam. With a 1-bit optimizer parameters stay
  /// float32, and kFloat16 is the dtype of matrix products in forward (hero::Autocast).
  DType compute = kFloat32;

  /// How the loss is scaled, for float16.
  struct LossScale {
    double fixed = 0.0;          ///< the scale; 0: dynamic
    int64_t initial_power = 16;  ///< the first scale is 2 to this power
    int64_t window = 1000;       ///< steps without an overflow after which it is doubled
    int64_t hysteresis = 2;      ///< overflows after which it is halved
    bool consecutive = false;    ///< true: only overflows without a good step in between count
    double least = 1.0;          ///< the smallest scale
    bool operator==(const LossScale&) const = default;
  };
  /// How the loss is scaled, for float16.
  LossScale loss_scale = {};

  double gradient_clipping = 0.0;  ///< largest norm of all gradients together; 0: no clipping

  /// The strategies.
  struct Zero {
    int stage = 0;                ///< 0: DDP; 1 to 3: the stages of ZeRO
    int64_t bucket_elements = 0;  ///< stages 1 and 2: elements in a bucket; 0: 25 MiB
    /// Stage 3: gather the next unit while one computes.
    bool prefetch = true;
    bool reshard = true;       ///< stage 3: free units between forward and backward
    bool reduce_each = false;  ///< stages 2 and 3: average gradients in each backward pass
    /// Stage 3: ranks of a group that shards the parameters; the groups are replicas of each other
    /// (HSDP, MiCS). 0: all ranks are one group.
    int shard_group_size = 0;
    bool offload_optimizer = false;    ///< optimizer states in host memory, see Offload
    bool quantized_weights = false;    ///< stage 3: gather shards in int8; see Quantize
    bool quantized_gradients = false;  ///< stage 3: reduce gradients in int4
    /// Stage 3: ranks of a host, which hold a second copy of the shards among them, so that
    /// backward gathers within the host (hpZ of ZeRO++, arXiv 2306.10209); 0: none.
    int secondary_group_size = 0;
    bool offload_parameters = false;  ///< stage 3: parameters in host memory, see Offload
    /// Stages 0 to 2: trainable parameters may lack a gradient, as in DDPOptions; the file's
    /// "ignore_unused_parameters". False: they are an Error.
    bool find_unused_parameters = false;
    /// "nvme": the folder in which each rank makes a file for its optimizer's states (optim::Paged;
    /// the parameters that it steps are in host memory); empty: they are in no file.
    std::string states_folder = {};
    /// "nvme": the folder of the same kind of file for the parameter shards of stage 3; empty:
    /// none.
    std::string parameters_folder = {};
    bool operator==(const Zero&) const = default;
  };
  /// The strategies.
  Zero zero = {};

  int tensor = 1;  ///< ranks that compute each layer together, in tensor parallelism
  int pipe = 1;    ///< stages of a pipeline, which runs accumulation_steps micro-batches
  std::string schedule = "1f1b";   ///< the pipeline's schedule, by Schedule::name()
  bool checkpoint_blocks = false;  ///< true: checkpoint the activations of the model's blocks
  Order order = Order::tree;       ///< order in which the ranks' gradients are added up

  int64_t steps_per_print = 0;  ///< steps between two lines that rank 0 prints; 0: none
  std::string report = {};      ///< file to which rank 0 writes a page of the run, see nn::Report
  /// True: lines have the milliseconds of forward, backward and step.
  bool wall_clock_breakdown = false;

  /// Reads a file. Throws one Error that names all keys that are unknown, refused or have a wrong
  /// value, each with its line and the reason or the most similar key.
  static Config load(const std::string& path);
  /// Reads the same from a text; `label` stands for the file's name in errors.
  static Config parse(const std::string& text, const std::string& label = "config");
  /// The JSON of everything that differs from the defaults; parse(text()) is this Config.
  std::string text() const;

  /// Returns this Config with all three batch sizes, for this many data ranks; if none is given,
  /// one sample per rank and one backward pass per step. Throws an Error with the four numbers if
  /// they do not fit together.
  Config resolve(int data_ranks) const;

  bool operator==(const Config&) const = default;
};

}  // namespace hero::dist
