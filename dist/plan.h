#pragma once
// Planning a run: finds the fastest strategy that fits into memory for training a GPT, or a model
// of your own that describes its nn::ParallelForm, on the devices of a cluster. Formulas give
// bounds for every strategy, and the promising ones are simulated: the program itself runs on meta
// arrays, one rank of each stage, and the recording is replayed on a model of the cluster. No
// device is needed.
//
//   const dist::Plan plan = dist::plan(dist::load_plan_request("gpt3.json"));
//   std::puts(table(plan).c_str());
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hero/core/dtype.h>
#include <hero/dist/pipeline_schedule.h>
#include <hero/dist/simulation/cluster.h>
#include <hero/dist/simulation/replay.h>
#include <hero/nn/gpt.h>

namespace hero::dist {

/// How replicas of the model share the work of data parallelism.
enum class PlanSharding : uint8_t {
  ddp,    ///< each replica has everything; with one replica: no data parallelism
  zero1,  ///< optimizer states are divided
  zero2,  ///< optimizer states and gradients are divided
  fsdp,   ///< optimizer states, gradients and parameters are divided (ZeRO-3), block by block
  hybrid  ///< like fsdp within a host, replicated among hosts
};
/// "DDP", "ZeRO-1", "ZeRO-2", "FSDP", "hybrid".
const char* name(PlanSharding sharding);

/// Where the sharded tensors are kept while nothing is computed with them; see Offload.
enum class PlanOffload : uint8_t {
  none,  ///< on the device
  host,  ///< in host memory: optimizer states and gradients, and parameters for fsdp and hybrid
  disk   ///< like host, but the states, and parameters for fsdp and hybrid, in a file
};

/// One way to run a training step on the cluster. There are tensor x replicate x shard x pipe
/// ranks, where tensor varies fastest and pipe slowest.
struct Strategy {
  int tensor = 1;     ///< ranks that compute each layer together
  int pipe = 1;       ///< stages of a pipeline
  int replicate = 1;  ///< replicas, among which no states are sharded
  int shard = 1;      ///< ranks among which states are sharded; 1 for DDP
  PlanSharding sharding = PlanSharding::ddp;
  int64_t micro_batch = 1;                      ///< sequences that a rank computes at a time
  int64_t micro_batches = 1;                    ///< micro-batches in a step
  Schedule schedule = Schedule::one_f_one_b();  ///< the pipeline's schedule
  bool reshard = true;      ///< fsdp and hybrid: free blocks between forward and backward
  bool checkpoint = false;  ///< checkpoint the activations of blocks
  PlanOffload offload = PlanOffload::none;  ///< under all strategies but DDP, also with one replica

  int data() const { return replicate * shard; }
  int ranks() const { return tensor * pipe * data(); }
  /// "t 8 p 4 x FSDP 32, 16 x 1 sequences, 1f1b, checkpoint, offload".
  std::string text() const;
};

/// What a step of a strategy costs.
struct PlanCost {
  double seconds = 0.0;  ///< seconds of a step
  int64_t memory = 0;    ///< peak memory of the fullest rank, in bytes
  double inside = 0.0;   ///< bytes that the busiest rank sends within its host in a step
  double outside = 0.0;  ///< bytes that it sends to other hosts
  int64_t host = 0;      ///< peak of a rank's bytes in host memory
  int64_t disk = 0;      ///< peak of a rank's bytes on disk
};

struct PlanModelSizes;

/// A model of your own to plan for: a Module that is an nn::PipelineModel and whose
/// nn::ParallelForm has a stack of equal blocks, such as a class that derives from nn::Stack.
class PlanModel {
 public:
  /// `make` makes the model; it is called for each simulation, on meta and by several threads at a
  /// time. x and y are a batch of one sample and of its target, of which only shapes and dtypes are
  /// read. The constructor makes the model once, to measure its sizes and its work. Throws an Error
  /// if the model is not an nn::PipelineModel, describes no stack, or has different blocks.
  PlanModel(std::function<std::unique_ptr<nn::Module>()> make, const Tensor& x, const Tensor& y);
  /// Makes the model on meta.
  std::unique_ptr<nn::Module> make() const;
  const Tensor& x() const { return x_; }                   ///< one sample
  const Tensor& y() const { return y_; }                   ///< the target of the sample
  const PlanModelSizes& sizes() const { return *sizes_; }  ///< the measured sizes and work

 private:
  std::function<std::unique_ptr<nn::Module>()> make_;
  Tensor x_, y_;
  std::shared_ptr<const PlanModelSizes> sizes_;
};

/// A request for a plan.
struct PlanRequest {
  nn::GPTConfig model;  ///< block_size is the length of sequences
  /// A model of your own in place of `model`; "sequences" below then means its samples.
  std::optional<PlanModel> own = {};
  Cluster cluster;
  int ranks = 8;
  int64_t global_batch = 8;  ///< sequences of a step
  /// kBFloat16 and kFloat16: parameters and gradients of two bytes with float32 masters and
  /// moments, 16 bytes for each parameter in all; with kFloat16 the loss is scaled. kFloat32: also
  /// 16 bytes, all in float32.
  DType dtype = kBFloat16;
  int best = 10;             ///< strategies that are returned
  int64_t simulations = 64;  ///< simulations at most; other strategies are judged by their bounds
  int64_t max_micro_batch = 8;  ///< sequences
  /// Replaces the simulation, for tests; empty: simulate_strategy(). Several threads may call it.
  std::function<PlanCost(const PlanRequest&, const Strategy&)> simulate = {};
};

/// A strategy and what is known about it.
struct PlanEntry {
  Strategy strategy;
  int64_t memory_bound = 0;    ///< lower bound of the fullest rank's memory, in bytes
  double seconds_bound = 0.0;  ///< lower bound of the time of a step
  int64_t host_bound = 0;      ///< lower bound of a rank's bytes in host memory
  int64_t disk_bound = 0;      ///< lower bound of a rank's bytes on disk
  std::optional<PlanCost> cost = {};
};

/// All strategies with given numbers of tensor-parallel ranks and pipeline stages: how many of them
/// were rejected, and for which reason.
struct PlanGroup {
  int tensor = 1, pipe = 1;
  int64_t strategies = 0;
  int64_t too_large = 0;       ///< strategies that do not fit, by their bound or their simulation
  int64_t least_memory = 0;    ///< the least memory that one of these needs
  int64_t host_too_large = 0;  ///< strategies that do not fit into the hosts' memory or disks
  int64_t least_over = 0;      ///< the least number of bytes that a rank of one of these lacks
  int64_t needless = 0;        ///< strategies whose offload is not needed: they fit with less
  int64_t slower = 0;  ///< strategies that are slower, by their bound, than the last of the best
  double least_seconds = 0.0;  ///< the smallest bound of these
  int64_t simulated = 0;       ///< strategies that were simulated
  double best_seconds = 0.0;   ///< the best time of a simulation
  int64_t not_simulated = 0;   ///< strategies not simulated because the limit was reached
};

struct Plan {
  PlanRequest request;
  std::vector<PlanEntry> best;    ///< the best strategies, fastest first
  std::vector<PlanGroup> groups;  ///< all strategies, by tensor ranks and stages
  int64_t strategies = 0;
  int64_t simulated = 0;
};

/// All strategies of a request, without regard to memory: the tensor-parallel degree divides the
/// heads and a host's ranks, divides the heads of keys and values or is a multiple of them, and for
/// a model of your own divides all that its form cuts; the number of stages divides the blocks; the
/// remaining factor is data parallel and divides the batch. Micro-batches are powers of two that
/// divide a replica's batch. Interleaved schedules are tried if the stages divide the micro-batches
/// and data parallelism, if any, is FSDP or hybrid. If the cluster says how much memory its hosts
/// have, each sharding but DDP is also tried with offload to host memory, and if it says how large
/// their disks are, also with offload to disk. Throws an Error if the request is invalid.
std::vector<Strategy> strategies(const PlanRequest& request);

/// A lower bound of the memory of the fullest rank, in bytes. With P parameters in a stage (12 C^2
/// for each block and the small ones; those that tensor parallelism cuts are divided by t) a rank
/// holds, by Table 1 of the ZeRO paper (Rajbhandari et al., arXiv 1910.02054), 2 P + 2 P + 12 P
/// bytes for parameters, gradients and states, each term divided by `shard` if it is sharded; in
/// float32 4 P + 4 P + 8 P. When all micro-batches that wait for backward at a time have run
/// forward, it holds parameters, optimizer states and activations: for a micro-batch of b sequences
/// of s positions each block keeps s b C (8 + 26 / t) bytes in 16 bits, where Korthikanti et al.
/// (arXiv 2205.05198, equation 1 and 2) have s b C (10 + 24 / t + 5 a s / (C t)): Hero keeps no
/// matrix of attention and no dropout. If keys and values have fewer heads than queries, or several
/// ranks have copies of the same ones, their share of the bytes changes with their number of heads.
/// A checkpointed block keeps 2 s b C bytes, except for the one that is being recomputed. Offloaded
/// bytes are not counted, nor are activations of a model of your own, which only the simulation
/// knows.
int64_t memory_bound(const PlanRequest& request, const Strategy& strategy);
/// A lower bound of the bytes of the fullest rank in host memory: 16 for each parameter that it
/// steps there (shard, gradient and states), less the bytes on disk; 0 without offload.
int64_t host_bound(const PlanRequest& request, const Strategy& strategy);
/// A lower bound of the bytes of the fullest rank on disk.
int64_t disk_bound(const PlanRequest& request, const Strategy& strategy);
/// A rank's share of its host's memory, in bytes.
int64_t host_share(const PlanRequest& request);
/// A rank's share of its host's disk, in bytes.
int64_t disk_share(const PlanRequest& request);
/// A lower bound of the seconds of a step. It is the larger of two times: first, the sum of matrix
/// products and attention of the stage with the most of them at the cluster's speed, the
/// tensor-parallel communication within the host, the bubble of the schedule and, with offload, the
/// optimizer step at the speed of host memory or, if slower, of the disk; second, sending
/// parameters and gradients along the data axes, by the slower of a device's two ports. Reductions
/// over hosts are made in two levels (Call::two_levels()), gathers in one.
double seconds_bound(const PlanRequest& request, const Strategy& strategy);
/// Flops of the model in a step, forward and backward, of all ranks together: 6 for each weight and
/// token, 6 C T a block and token for causal attention, without what checkpoints compute again.
/// Divided by the time of a step and the peak of all ranks this is the MFU, the model flops
/// utilisation.
double model_flops(const PlanRequest& request);
/// Flops that the ranks compute in a step: those of the model, of keys and values that several
/// ranks compute alike, and, where blocks are checkpointed, of a second forward of all blocks. They
/// give the HFU, the hardware flops utilisation.
double hardware_flops(const PlanRequest& request, const Strategy& strategy);

/// Runs two steps of a strategy on meta, one rank of each stage, and replays the second one on the
/// cluster. For many micro-batches it does so with two smaller numbers of them and extrapolates
/// linearly, since each further micro-batch costs the same once gradients exist and the pipeline is
/// full.
PlanCost simulate_strategy(const PlanRequest& request, const Strategy& strategy);

/// The simulated step of a strategy with the spans of each stage's first rank, for write_trace()
/// and for pictures; it has at most 2 p micro-batches, with p stages.
Simulation strategy_timeline(const PlanRequest& request, const Strategy& strategy);

/// Finds the best strategies of a request: those whose bounds fit are simulated in the order of
/// seconds_bound() until no other can be faster than the last of the best, or `simulations` is
/// reached. A strategy with offload is left out if the same one fits with less offload.
Plan plan(const PlanRequest& request);

/// The best strategies and, by tensor ranks and stages, why all others were dropped.
std::string table(const Plan& plan);
/// The configuration file of a strategy, which dist::Config reads and dist::Trainer runs: JSON with
/// DeepSpeed's keys, for offload its "offload_optimizer" and "offload_param", and Hero's own
/// "tensor", "pipe", "schedule", "checkpoint_blocks" and "reduce_each".
std::string config_text(const PlanRequest& request, const Strategy& strategy);

/// A request's JSON: {"model": {"layers", "width", "heads", "vocabulary", "sequence"}, "ranks",
/// "global_batch", "dtype", "cluster": see cluster_file.h}. Throws an Error that lists all unknown
/// keys, or one for an invalid value.
PlanRequest parse_plan_request(const std::string& text, const std::string& label = "the text");
PlanRequest load_plan_request(const std::string& path);

/// Measures this machine in a few seconds, with `ranks` threads that all work at the same time: the
/// speed of matrix products and attention of a model's sizes (limited to 512 positions and a width
/// of 1024), of memory, and of collectives.
Cluster calibrate(int ranks = 1, const nn::GPTConfig& model = {});

}  // namespace hero::dist
