#pragma once
// What a rank of an offloaded strategy holds, by tag and memory, and moves: for tests that compare
// real ranks with simulated ones.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dist/data_parallel/strategies.h"
#include "dist/parallel/pipelines.h"

#include <hero/core/device/planned_device.h>
#include <hero/core/swap_file.h>
#include <hero/dist/mesh.h>
#include <hero/optim/paged.h>

namespace hero::test {

inline constexpr ShardingStrategy kOffloadedStrategies[] = {
    ShardingStrategy::zero1, ShardingStrategy::zero2,     ShardingStrategy::zero3,
    ShardingStrategy::fsdp,  ShardingStrategy::fsdp_kept, ShardingStrategy::hybrid};

/// Of one rank, over steps.
struct Held {
  using Peaks = std::array<int64_t, kMemoryTagCount + 1>;  ///< of every tag and of all together
  Peaks device{}, host{};
  int64_t in_file = 0;
  std::array<int64_t, dist::kTransferCount> moved{};
  int64_t read = 0,
          written = 0;  ///< of the file, with the optimizer's states where these are paged
  OffloadTraffic activations;
  int64_t sent = 0;
  bool operator==(const Held&) const = default;

  std::string text() const {
    std::string line = "device";
    for (const int64_t bytes : device) line += " " + std::to_string(bytes);
    line += "; host";
    for (const int64_t bytes : host) line += " " + std::to_string(bytes);
    line += "; in file " + std::to_string(in_file) + "; moved";
    for (const int64_t bytes : moved) line += " " + std::to_string(bytes);
    return line + "; read " + std::to_string(read) + ", written " + std::to_string(written) +
           "; activations " + std::to_string(activations.to_host) + " " +
           std::to_string(activations.to_device) + " " + std::to_string(activations.to_disk) + " " +
           std::to_string(activations.from_disk) + "; sent " + std::to_string(sent);
  }
};

struct OffloadedRun {
  Climb climb;
  bool on_disk = false;
  bool paged = false;        ///< the optimizer's states lie in the file, too
  bool activations = false;  ///< those of a GPT's blocks are offloaded, to the file with on_disk
  int stages = 1;            ///< of a pipeline, each on climb.ranks / stages ranks
  dist::Schedule schedule = dist::Schedule::one_f_one_b();
  int64_t micro_rows = 14;  ///< of stages: sequences of a micro-batch, of which there are four
  Device device = kCpu;     ///< where units compute; kMeta on simulated ranks
  std::string folder = "/tmp";
};

inline Held::Peaks peaks_on(DeviceType device) {
  Held::Peaks peaks{};
  for (int tag = 0; tag < kMemoryTagCount; ++tag) {
    peaks[static_cast<size_t>(tag)] = current_ledger().peak(static_cast<MemoryTag>(tag), device);
  }
  peaks.back() = current_ledger().peak(device);
  return peaks;
}

inline std::unique_ptr<optim::Optimizer> make_offloaded(const OffloadedRun& run,
                                                        core::SwapFile& file,
                                                        const std::vector<Tensor>& parameters) {
  const optim::AdamWOptions adamw = {.lr = 0.01};
  const optim::PagedOptions windows = {.window_bytes = 512};
  if (!run.paged) return make_method(run.climb.method, parameters, run.climb.masters);
  if (!run.climb.masters) {
    return std::make_unique<optim::Paged<optim::AdamW>>(file, parameters, adamw, windows);
  }
  return std::make_unique<optim::Paged<optim::MasterWeights<optim::AdamW>>>(file, parameters, adamw,
                                                                            windows);
}

/// What `steps` holds and moves.
template <class Steps>
Held held_over(const OffloadedRun& run, const core::SwapFile& file, const dist::Communicator& world,
               Steps&& steps) {
  current_ledger().reset_peak();
  world.traffic().reset();
  const OffloadTraffic before = offload_traffic();
  steps();
  Held held;
  const bool one_memory = core::kernels_of(run.device) == DeviceType::cpu;
  held.device = peaks_on(run.device.type);
  if (!one_memory) held.host = peaks_on(DeviceType::cpu);
  held.in_file = file.used();
  for (int i = 0; i < dist::kTransferCount; ++i) {
    held.moved[static_cast<size_t>(i)] = world.traffic().moved(static_cast<dist::Transfer>(i));
  }
  held.read = file.read_bytes();
  held.written = file.written_bytes();
  const OffloadTraffic after = offload_traffic();
  held.activations = {after.to_host - before.to_host, after.to_device - before.to_device,
                      after.to_disk - before.to_disk, after.from_disk - before.from_disk};
  held.sent = world.traffic().bytes();
  return held;
}

/// As held_by(), where the ranks are stages of a pipeline beside the strategy.
inline Held held_by_stage(const OffloadedRun& run, const dist::Communicator& world,
                          core::SwapFile& file, const std::optional<OffloadOptions>& activations) {
  const Climb& c = run.climb;
  const dist::Mesh mesh(world, {{"pipe", run.stages}, {"data", c.ranks / run.stages}});
  PipeModel model = make_pipe_model(PipeSubject::gpt, kMeta, activations);
  dist::Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                      {.schedule = run.schedule, .micro_batches = 4, .device = run.device});
  dist::Offload offload = c.offload;
  if (run.on_disk) offload.disk = &file;
  climb(c.strategy, Subject::gpt, model.module(), mesh["data"], c.order, c.group, offload);
  const auto optimizer = make_offloaded(run, file, pipe.parameters());
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (int step = 0; step < c.steps; ++step) {
    const auto [x, y] = pipe_batch(PipeSubject::gpt, step, mesh.coordinate("data"), run.device);
    const int64_t rows = 4 * run.micro_rows;
    batches.emplace_back(x.slice(0, 0, rows), y.slice(0, 0, rows));
  }
  return held_over(run, file, world, [&] {
    for (const auto& [x, y] : batches) {
      pipe.step(x, y);
      finish_step(model.module(), *optimizer, c.clip);
    }
  });
}

/// Cuts a model and trains it; peaks are of the steps, since a real model has values before it is
/// cut.
inline Held held_by(const OffloadedRun& run, const dist::Communicator& world) {
  Climb c = run.climb;
  const bool simulated = run.device == kMeta;
  core::SwapFile file(run.folder, {.bytes = int64_t{1} << 24, .planned = simulated});
  std::optional<OffloadOptions> activations;
  if (run.activations) activations = {.disk = run.on_disk ? &file : nullptr};
  if (run.stages > 1) return held_by_stage(run, world, file, activations);
  if (run.on_disk) c.offload.disk = &file;
  std::optional<nn::DeviceScope> scope;
  if (simulated) scope.emplace(kMeta);
  const auto model = make_subject(c.subject, activations);
  scope.reset();
  model->to(c.dtype);
  if (!simulated) model->to(run.device);
  climb(c.strategy, c.subject, *model, world, c.order, c.group, c.offload);
  const auto optimizer = make_offloaded(run, file, model->parameters());
  return held_over(run, file, world, [&] {
    train(c.subject, *model, *optimizer, world, c.steps, c.clip, run.device);
  });
}

/// Whether a simulated rank says what a real one does, to the byte; but for what a device's kernels
/// keep for themselves, which nobody plans, and but for what a stage has sent and holds until it
/// has come, which on real ranks is a matter of time: two micro-batches at a border, under gpipe
/// all four, and as many gradients.
inline bool is_as_planned(const OffloadedRun& run, Held real, const Held& simulated) {
  const auto leave_out = [&](size_t i, int64_t most) {
    const int64_t more = real.device[i] - simulated.device[i];
    if (0 <= more && more <= most) real.device[i] = simulated.device[i];
  };
  const auto other = static_cast<size_t>(MemoryTag::other);
  int64_t unplanned = 0;
  if (run.device.type == DeviceType::cuda) unplanned = std::exchange(real.device[other], 0);
  int64_t on_its_way = 0;
  if (run.stages > 1) {
    const int64_t border = run.micro_rows * 6 * 8 * 4;  // of pipe_batch()
    const bool has_four = run.schedule.name() == "gpipe" || run.schedule.chunks() > 1;
    on_its_way = border * (has_four ? 4 : 2);
    for (const MemoryTag tag :
         {MemoryTag::gradient, MemoryTag::activation, MemoryTag::communication}) {
      leave_out(static_cast<size_t>(tag), on_its_way);
    }
  }
  leave_out(kMemoryTagCount, unplanned + 2 * on_its_way);
  return real == simulated;
}

/// Real ranks and simulated ones, of which each is compared with the real one of its number; what
/// differs, or "".
inline std::string offloaded_difference(OffloadedRun run, Device device,
                                        const dist::RunOptions& options = {}) {
  const int ranks = run.climb.ranks;
  std::vector<Held> real(static_cast<size_t>(ranks)), simulated = real;
  run.device = device;
  dist::run_ranks(
      ranks,
      [&](dist::Communicator& world) {
        real[static_cast<size_t>(world.rank())] = held_by(run, world);
      },
      options);
  const OffloadedRun on_device = run;
  run.device = kMeta;
  const core::PlannedDevice planned(device.type);
  dist::simulate_ranks(ranks, [&](dist::Communicator& world) {
    simulated[static_cast<size_t>(world.rank())] = held_by(run, world);
  });
  std::string lines;
  for (size_t i = 0; i < real.size(); ++i) {
    if (is_as_planned(on_device, real[i], simulated[i])) continue;
    lines += "rank " + std::to_string(i) + "\n  real:      " + real[i].text() +
             "\n  simulated: " + simulated[i].text() + "\n";
  }
  return lines;
}

}  // namespace hero::test
