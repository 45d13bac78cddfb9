#pragma once
// What a rank of an offloaded rung holds, by tag and memory, and moves: for tests that compare real
// ranks with simulated ones.
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "dist/ladder.h"

#include <hero/core/planned_device.h>
#include <hero/core/swap_file.h>
#include <hero/optim/paged.h>

namespace hero::test {

inline constexpr Rung kOffloadedRungs[] = {Rung::zero1, Rung::zero2,     Rung::zero3,
                                           Rung::fsdp,  Rung::fsdp_kept, Rung::hybrid};

/// Of one rank, over steps.
struct Held {
  using Peaks = std::array<int64_t, kMemoryTagCount + 1>;  ///< of every tag and of all together
  Peaks device{}, host{};
  int64_t in_file = 0;
  std::array<int64_t, dist::kTransferCount> moved{};
  int64_t read = 0,
          written = 0;  ///< of the file, with the optimizer's states where these are paged
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
           "; sent " + std::to_string(sent);
  }
};

struct OffloadedRun {
  Climb climb;
  bool on_disk = false;
  bool paged = false;    ///< the optimizer's states lie in the file, too
  Device device = kCpu;  ///< where units compute; kMeta on simulated ranks
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

/// Cuts a model and trains it; peaks are of the steps, since a real model has values before it is
/// cut.
inline Held held_by(const OffloadedRun& run, const dist::Communicator& world) {
  Climb c = run.climb;
  const bool simulated = run.device == kMeta;
  core::SwapFile file(run.folder, {.bytes = int64_t{1} << 20, .planned = simulated});
  if (run.on_disk) c.offload.disk = &file;
  std::optional<nn::DeviceScope> scope;
  if (simulated) scope.emplace(kMeta);
  const auto model = make_subject(c.subject);
  scope.reset();
  model->to(c.dtype);
  if (!simulated) model->to(run.device);
  climb(c.rung, c.subject, *model, world, c.order, c.group, c.offload);
  std::unique_ptr<optim::Optimizer> optimizer;
  if (run.paged && c.masters) {
    optimizer = std::make_unique<optim::Paged<optim::MasterWeights<optim::AdamW>>>(
        file, model->parameters(), optim::AdamWOptions{.lr = 0.01},
        optim::PagedOptions{.window_bytes = 512});
  } else if (run.paged) {
    optimizer = std::make_unique<optim::Paged<optim::AdamW>>(
        file, model->parameters(), optim::AdamWOptions{.lr = 0.01},
        optim::PagedOptions{.window_bytes = 512});
  } else {
    optimizer = make_method(c.method, model->parameters(), c.masters);
  }
  current_ledger().reset_peak();
  world.traffic().reset();
  train(c.subject, *model, *optimizer, world, c.steps, c.clip, run.device);
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
  held.sent = world.traffic().bytes();
  return held;
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
  run.device = kMeta;
  const core::PlannedDevice planned(device.type);
  dist::simulate_ranks(ranks, [&](dist::Communicator& world) {
    simulated[static_cast<size_t>(world.rank())] = held_by(run, world);
  });
  std::string lines;
  for (size_t i = 0; i < real.size(); ++i) {
    if (real[i] == simulated[i]) continue;
    lines += "rank " + std::to_string(i) + "\n  real:      " + real[i].text() +
             "\n  simulated: " + simulated[i].text() + "\n";
  }
  return lines;
}

}  // namespace hero::test
