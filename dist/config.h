#pragma once
// Config: a training run as a file in DeepSpeed's JSON describes it. docs/deepspeed.md says of
// every key what it does here, or why it is refused.
#include <cstdint>
#include <map>
#include <string>

#include <hero/autograd/tensor.h>
#include <hero/dist/engines/call.h>

namespace hero::dist {

/// What dist::Trainer builds. A member that a file does not name keeps the value it has here.
struct Config {
  /// \name Batches, in samples; 0: not given
  /// resolve() makes the third of the two that are given: train_batch_size = micro_batch_size x
  /// accumulation_steps x data ranks.
  /// \{
  int64_t train_batch_size = 0;    ///< of all data ranks in one step
  int64_t micro_batch_size = 0;    ///< of one rank in one backward
  int64_t accumulation_steps = 0;  ///< backwards of a rank in one step
  /// \}

  /// "Adam", "AdamW", "SGD", "Lamb", "Lion", "Adagrad", "RMSprop", and that optimizer's options by
  /// the names of optim::Optimizer::option(). "Adam" decouples the weight decay, as DeepSpeed's
  /// does; with adam_w_mode false the file's type is read as "AdamL2". Decay is 0 unless given.
  struct Method {
    std::string type = {};
    std::map<std::string, double> options = {};
    bool operator==(const Method&) const = default;
  };
  Method optimizer = {};

  /// "WarmupLR", "WarmupDecayLR", "WarmupCosineLR" or "" for a constant rate; numbers by
  /// DeepSpeed's names, and warmup_type as 0 (log) or 1 (linear).
  Method scheduler = {};

  /// dtype of the products in forward (hero::Autocast); parameters, gradients and states stay as
  /// the model has them, so that parameters are what DeepSpeed calls master weights.
  DType compute = kFloat32;

  /// The factor of the loss, for float16 alone.
  struct LossScale {
    double fixed = 0.0;          ///< 0: dynamic
    int64_t initial_power = 16;  ///< begins at 2 to that power
    int64_t window = 1000;       ///< steps without an overflow before it is doubled
    int64_t hysteresis = 2;      ///< overflows before it is halved
    bool consecutive = false;    ///< only overflows without a good step between them count
    double least = 1.0;          ///< it is not halved below
    bool operator==(const LossScale&) const = default;
  };
  LossScale loss_scale = {};

  double gradient_clipping = 0.0;  ///< largest norm of all gradients; 0: none

  /// The rung: 0 DDP, 1 to 3 ZeRO's stages.
  struct Zero {
    int stage = 0;
    int64_t bucket_elements = 0;      ///< stages 1 and 2: reduced and gathered together; 0: 25 MiB
    bool prefetch = true;             ///< stage 3: the next unit is gathered while one computes
    bool reshard = true;              ///< stage 3: units are freed between forward and backward
    int replicas_of = 0;              ///< stage 3: shards lie in groups of so many ranks; 0: in all
    bool offload_optimizer = false;   ///< to the host's memory: see Offload
    bool offload_parameters = false;  ///< stage 3
    bool operator==(const Zero&) const = default;
  };
  Zero zero = {};

  int tensor = 1;  ///< ranks that compute each layer together
  int pipe = 1;    ///< stages of a pipeline, whose micro-batches are accumulation_steps
  std::string schedule = "1f1b";   ///< of a pipeline: what Schedule::name() says
  bool checkpoint_blocks = false;  ///< blocks of an nn::GPT keep their input alone and run twice
  Order order = Order::tree;       ///< in which the ranks' gradients are added up

  int64_t steps_per_print = 0;  ///< a line of rank 0 every so many steps; 0: none
  std::string report = {};      ///< rank 0 writes the run as a page to this file: see nn::Report
  bool wall_clock_breakdown = false;  ///< and with it the milliseconds of forward, backward, step

  /// Reads a file. One Error names all keys that are unknown, refused or have a wrong value, each
  /// with its line and the reason or the nearest key.
  static Config load(const std::string& path);
  /// The same of text; `label` stands for the file's name in errors.
  static Config parse(const std::string& text, const std::string& label = "config");
  /// The JSON of what differs from a Config's first values; parse(text()) is this Config.
  std::string text() const;

  /// With all three batch sizes, for so many data ranks; without any of them one sample a rank and
  /// one backward a step. An Error with the four numbers where they do not fit.
  Config resolve(int data_ranks) const;

  bool operator==(const Config&) const = default;
};

}  // namespace hero::dist
