// Offload: a GPT with four times the states that a rank may hold, by the placements of its shards
#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "support/lessons/data_parallel.h"
#include "support/options/device.h"
#include "support/options/page.h"
#include "support/pictures/offload.h"

#include <hero/core/swap_file.h>
#include <hero/nn/nn.h>
#include <hero/optim/paged.h>

using hero::Array, hero::MemoryTag, hero::Tensor;
using hero::core::SwapFile;
using hero::dist::Communicator;
using tutorial::Course, tutorial::device, tutorial::everywhere, tutorial::say;
namespace dist = hero::dist;
namespace nn = hero::nn;
namespace optim = hero::optim;

namespace {

constexpr int kRows = 1, kPositions = 8;
const nn::GPTConfig kConfig = {.vocab_size = 64,
                               .block_size = kPositions,
                               .n_layer = 12,
                               .n_head = 4,
                               .n_embd = 32,
                               .tie_weights = false};

// Where a rank's part of the model lies while nothing is computed with it.
struct Placement {
  const char* name;
  bool is_sharded = true;        // else every rank holds the whole model
  bool on_host = false;          // parameters, gradients and states
  bool on_disk = false;          // parameters and states
  bool activations_too = false;  // on disk
};
constexpr Placement kWhole = {.name = "whole", .is_sharded = false};
constexpr Placement kMemory = {.name = "memory"};
constexpr Placement kHost = {.name = "host", .on_host = true};
constexpr Placement kDisk = {.name = "disk", .on_disk = true};
constexpr Placement kAll = {
    .name = "disk, activations too", .on_disk = true, .activations_too = true};

// The most bytes that a rank may hold where it computes; 0: as many as it likes.
class Limit {
 public:
  Limit(const Communicator& world, int64_t bytes) : world_(world), bytes_(bytes) {}
  // All ranks call it, and all fail when one holds too much.
  void check(int step, const char* moment) const {
    const int64_t held = hero::current_ledger().peak(device().type);
    const bool fits = everywhere(world_, bytes_ == 0 || held <= bytes_);
    hero::check(fits, "out of memory: ", held, " bytes were held in the ", moment, " of step ",
                step + 1, ", where a rank may hold ", bytes_);
  }

 private:
  const Communicator& world_;
  int64_t bytes_;
};

// What a run ends with, and what its last step took.
struct Seen {
  uint64_t bits = 0;
  std::vector<double> losses = {};
  int64_t peak = 0;
  std::array<int64_t, hero::kMemoryTagCount> peaks = {};
  int64_t read = 0, written = 0, up = 0, down = 0;
  hero::OffloadTraffic activations = {};
  std::vector<dist::UnitInfo> units = {};
  std::vector<int64_t> leaves = {};  // elements of this rank's part of each parameter
  Course course = {};
};

Tensor loss_of(nn::GPT& model, int step, int rank) {
  std::vector<int64_t> tokens, targets;
  for (int row = 0; row < kRows; ++row) {
    const int first = 7 * row + 3 * step + 5 * rank, by = 1 + (row + step + rank) % 4;
    for (int i = 0; i < kPositions; ++i) {
      tokens.push_back((first + i * by) % kConfig.vocab_size);
      targets.push_back((first + (i + 1) * by) % kConfig.vocab_size);
    }
  }
  const auto ids = [](const std::vector<int64_t>& list) {
    return Tensor(Array::from(list, {kRows, kPositions}).to(device()));
  };
  return model.loss(ids(tokens), ids(targets));
}

nn::GPT make_model(const Placement& placement, SwapFile& disk) {
  hero::manual_seed(1);
  nn::GPTConfig config = kConfig;
  // [snippet: activations]
  if (placement.activations_too) config.offload = hero::OffloadOptions{.disk = &disk};
  // [end]
  const nn::DeviceScope scope(placement.is_sharded ? hero::kMeta : device());
  return nn::GPT(config);
}

// [snippet: shard]
dist::DataParallel shard(nn::GPT& model, const Communicator& world, const Placement& placement,
                         SwapFile& disk) {
  if (!placement.is_sharded) return dist::DDP(model, world);
  dist::Offload offload = {.parameters = placement.on_host};
  if (placement.on_disk) offload.disk = &disk;
  return dist::fully_shard(
      model, world, {.unit = dist::each<nn::Block>(), .device = device(), .offload = offload});
}

std::unique_ptr<optim::Optimizer> make_adamw(const nn::GPT& model, const Placement& placement,
                                             SwapFile& disk) {
  const optim::AdamWOptions options = {.lr = 1e-2};
  if (!placement.on_disk) return std::make_unique<optim::AdamW>(model.parameters(), options);
  return std::make_unique<optim::Paged<optim::AdamW>>(
      disk, model.parameters(), options, optim::PagedOptions{.window_bytes = 32 << 10});
}
// [end]

// Notes what is held when each block has run, forward and backward.
std::vector<hero::HookHandle> watch(nn::GPT& model, Course& course) {
  std::vector<hero::HookHandle> hooks;
  for (size_t i = 0; i < model.transformer.h.size(); ++i) {
    hooks.push_back(
        model.transformer.h[i].register_forward_hook([&](auto&...) { course.note(""); }));
    hooks.push_back(
        model.transformer.h[i].register_full_backward_hook([&](auto&...) { course.note(""); }));
  }
  return hooks;
}

std::string temporary_folder() {
  std::error_code failed;
  const std::string folder = std::filesystem::temp_directory_path(failed).string();
  hero::check(!failed, "TMPDIR does not name a folder for the swap file: ", failed.message());
  return folder;
}

Seen train(const Communicator& world, const Placement& placement, int64_t bytes, int steps) {
  const Limit limit(world, bytes);
  hero::Ledger& ledger = hero::current_ledger();
  ledger.reset_peak();
  SwapFile disk(temporary_folder(), {.bytes = int64_t{8} << 20, .threads = 1});
  nn::GPT model = make_model(placement, disk);
  const dist::DataParallel parallel = shard(model, world, placement, disk);
  const auto adamw = make_adamw(model, placement, disk);
  Seen seen;
  seen.course.title = placement.name;
  std::vector<hero::HookHandle> hooks;
  hero::OffloadTraffic before;
  // [snippet: step]
  for (int step = 0; step < steps; ++step) {
    if (step + 1 == steps) {  // the one that we look at
      hooks = watch(model, seen.course);
      world.traffic().reset();
      ledger.reset_peak();
      before = hero::offload_traffic();
      seen.read = -disk.read_bytes();
      seen.written = -disk.written_bytes();
      seen.course.note("forward");
    }
    const Tensor loss = loss_of(model, step, world.rank());
    limit.check(step, "forward");
    if (step + 1 == steps) seen.course.note("backward");
    loss.backward();
    limit.check(step, "backward");
    if (step + 1 == steps) seen.course.note("step");
    adamw->step();
    limit.check(step, "optimizer's step");
    adamw->zero_grad();
    if (step + 1 == steps) seen.course.note("");
    seen.losses.push_back(loss.item());
    tutorial::note_step(placement.name, {{"loss", seen.losses.back()}});
  }
  // [end]
  for (hero::HookHandle& hook : hooks) hook.remove();
  seen.peak = ledger.peak(device().type);
  for (int i = 0; i < hero::kMemoryTagCount; ++i) {
    seen.peaks[static_cast<size_t>(i)] = ledger.peak(static_cast<MemoryTag>(i), device().type);
  }
  seen.read += disk.read_bytes();
  seen.written += disk.written_bytes();
  seen.up = world.traffic().moved(dist::Transfer::to_device);
  seen.down = world.traffic().moved(dist::Transfer::to_host);
  const hero::OffloadTraffic after = hero::offload_traffic();
  seen.activations = {.to_disk = after.to_disk - before.to_disk,
                      .from_disk = after.from_disk - before.from_disk};
  seen.units = parallel.units();
  for (const Tensor& leaf : model.parameters()) seen.leaves.push_back(leaf.numel());
  const auto whole = parallel.summon_full_parameters();
  seen.bits = tutorial::bits_of(model.parameters());
  return seen;
}

// [snippet: formulas]
int64_t in_blocks(int64_t floats) {
  return (4 * floats + SwapFile::kBlock - 1) / SwapFile::kBlock * SwapFile::kBlock;
}

// Bytes of a step with the disk as the placement of shards and of AdamW's two states.
struct Moved {
  int64_t read = 0, written = 0;
};
Moved shards_moved(const Seen& seen) {
  Moved moved;
  for (const dist::UnitInfo& unit : seen.units) {
    const int64_t own = in_blocks(unit.own.count);
    moved.read += (unit.name == "root" ? 2 : 3) * own;  // forward, backward, the optimizer's step
    moved.written += own;
  }
  return moved;
}
Moved states_moved(const Seen& seen) {
  int64_t all = 0;
  for (const int64_t leaf : seen.leaves) all += 2 * in_blocks(leaf);
  return {all, all};
}
// Twelve arrays of each block, and all results but the last two. None is larger than 4 KiB.
Moved activations_moved() {
  const int64_t all = (12 * kConfig.n_layer + kConfig.n_layer - 2) * SwapFile::kBlock;
  return {all, all};
}
// [end]

void show_moved(const Communicator& world, const Seen& seen) {
  const Moved shards = shards_moved(seen), states = states_moved(seen);
  const Moved activations = activations_moved();
  const Moved sum = {shards.read + states.read + activations.read,
                     shards.written + states.written + activations.written};
  const auto row = [&](const char* label, const Moved& moved) {
    say(world, "  %-27s %10lld %10lld\n", label, static_cast<long long>(moved.read),
        static_cast<long long>(moved.written));
  };
  say(world, "\n%-29s %10s %10s\n", "rank 0's file in a step", "read", "written");
  row("shards, by the formula", shards);
  row("states, by the formula", states);
  row("activations, by the formula", activations);
  row("all of it", sum);
  row("what the file counted", {seen.read, seen.written});
  const bool as_said = seen.read == sum.read && seen.written == sum.written &&
                       seen.activations.from_disk == activations.read &&
                       seen.activations.to_disk == activations.written;
  say(world, "  as the formulas say on every rank: %s\n",
      everywhere(world, as_said) ? "yes" : "no");
}

// The host as the placement: what goes up is gathered twice, but for the root, and what comes down
// are gradients.
void show_copied(const Communicator& world, const Seen& seen) {
  Moved formula;
  for (const dist::UnitInfo& unit : seen.units) {
    formula.read += (unit.name == "root" ? 1 : 2) * 4 * unit.own.count;
    formula.written += 4 * unit.own.count;
  }
  say(world, "host: %lld bytes up and %lld down in a step, by the formula %lld and %lld\n",
      static_cast<long long>(seen.up), static_cast<long long>(seen.down),
      static_cast<long long>(formula.read), static_cast<long long>(formula.written));
}

void show_peaks(const Communicator& world, const std::vector<Seen>& runs) {
  say(world, "\n%-24s %10s %9s %9s %11s %9s %9s\n", "bytes of rank 0, at most", "parameters",
      "gradients", "optimizer", "activations", "gathered", "together");
  for (const Seen& seen : runs) {
    const auto peak = [&](MemoryTag tag) {
      return static_cast<long long>(seen.peaks[static_cast<size_t>(tag)]);
    };
    say(world, "  %-22s %10lld %9lld %9lld %11lld %9lld %9lld\n", seen.course.title.c_str(),
        peak(MemoryTag::parameter), peak(MemoryTag::gradient), peak(MemoryTag::optimizer),
        peak(MemoryTag::activation), peak(MemoryTag::communication),
        static_cast<long long>(seen.peak));
  }
}

// [snippet: below]
// A run below the limit: says how it ended.
std::optional<Seen> train_below(const Communicator& world, const Placement& placement,
                                int64_t limit, int steps, const Seen& expected) {
  try {
    Seen seen = train(world, placement, limit, steps);
    const bool same = seen.bits == expected.bits && seen.losses == expected.losses;
    say(world, "  %-22s  %s\n", placement.name,
        everywhere(world, same) ? "the bits of the run without a limit" : "OTHER bits");
    return seen;
  } catch (const hero::Error& error) {
    const std::string line = error.what();
    if (line.rfind("out of memory", 0) != 0) throw;
    say(world, "  %-22s  %s\n", placement.name, line.c_str());
    return {};
  }
}
// [end]

void compare(const Communicator& world, int steps, const std::string& folder) {
  const int64_t states = 16 * [] {
    const nn::DeviceScope meta(hero::kMeta);
    return nn::GPT(kConfig).parameter_count();
  }();
  const int64_t limit = states / 4;
  say(world, "%lld bytes of parameters, gradients and states; a rank may hold %lld\n",
      static_cast<long long>(states), static_cast<long long>(limit));
  const Seen expected = train(world, kMemory, 0, steps);
  say(world, "losses %.4f", expected.losses.front());
  for (size_t i = 1; i < expected.losses.size(); ++i) say(world, " %.4f", expected.losses[i]);
  say(world, "\n\nplacements below the limit\n");
  std::vector<Seen> runs = {expected};
  for (const Placement& placement : {kWhole, kMemory, kHost, kDisk, kAll}) {
    if (placement.on_host && device() == hero::kCpu) {
      say(world, "  %-22s  is where the ranks compute here\n", placement.name);
      continue;
    }
    std::optional<Seen> seen = train_below(world, placement, limit, steps, expected);
    if (!seen) continue;
    if (placement.on_host) show_copied(world, *seen);
    runs.push_back(std::move(*seen));
  }
  show_peaks(world, runs);
  if (runs.back().read > 0) show_moved(world, runs.back());
  if (world.rank() > 0) return;
  std::vector<Course> courses;
  for (Seen& seen : runs) courses.push_back(std::move(seen.course));
  tutorial::draw_courses(courses, limit, folder);
}

}  // namespace

int main(int argc, char** argv) {
  return tutorial::run_ranks(
      argc, argv,
      {.title = "Offload: placements of shards, states and activations.", .ranks = 4, .steps = 5},
      [](Communicator& world, const tutorial::RankOptions& options) {
        compare(world, static_cast<int>(options.steps), options.out);
      });
}
