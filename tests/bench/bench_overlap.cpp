// How much of its communication a strategy hides behind its computing: training steps of a GPT on
// two ranks, first on a link as fast as memory, then on one whose rate makes a step's communication
// as long as its backward pass. What the second takes longer was not hidden.
//   bench_overlap [STEPS]
//   bench_overlap --figures FOLDER [STEPS]
// draws one step of each on that link instead, as the ranks' profilers saw it:
// FOLDER/11_ddp_measured.svg and FOLDER/17_fsdp_measured.svg, which chapters 11 and 17 show.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "support/lessons/overlap.h"
#include "support/pictures/palette.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/profile/profiler.h>
#include <hero/dist/dist.h>
#include <hero/nn/gpt.h>
#include <hero/optim/optim.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Clock = std::chrono::steady_clock;

constexpr nn::GPTConfig kModel = {
    .vocab_size = 256, .block_size = 64, .n_layer = 12, .n_head = 4, .n_embd = 128};
constexpr int64_t kBatch = 8;

using ShardingStrategy = std::function<void(nn::Module&, const Communicator&)>;

struct Times {
  double step = 0.0, backward = 0.0;  // medians, seconds
  double bytes = 0.0;                 // that a rank sends in a step
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Times train(Communicator& world, const ShardingStrategy& strategy, int steps) {
  constexpr int kWarm = 2;
  nn::GPT model(kModel);
  strategy(model, world);
  optim::AdamW adamw(model.parameters(), {.lr = 3e-4});
  const Tensor tokens = randint(0, kModel.vocab_size, {kBatch, kModel.block_size});
  const Tensor targets = randint(0, kModel.vocab_size, {kBatch * kModel.block_size});
  std::vector<double> step_times, backward_times;
  for (int i = -kWarm; i < steps; ++i) {
    if (i == 0) world.traffic().reset();
    const Clock::time_point start = Clock::now();
    adamw.zero_grad();
    const Tensor loss = cross_entropy(flatten(model(tokens), 0, 1), targets);
    const Clock::time_point turn = Clock::now();
    loss.backward();
    const double backward = seconds_since(turn);
    adamw.step();
    if (i < 0) continue;
    step_times.push_back(seconds_since(start));
    backward_times.push_back(backward);
  }
  const double bytes = static_cast<double>(world.traffic().bytes()) / steps;
  return {median(step_times), median(backward_times), bytes};
}

Times measure(const ShardingStrategy& strategy, int steps, double rate) {
  Times times;
  run_ranks(2,
            [&](Communicator& world) {
              const Times mine = train(world, strategy, steps);
              if (world.rank() == 0) times = mine;
            },
            {.link_bytes_per_second = rate});
  return times;
}

void report(const char* name, const ShardingStrategy& strategy, int steps) {
  const Times before = measure(strategy, steps, 0.0);
  const double rate = before.bytes / before.backward;
  const Times slow = measure(strategy, steps, rate);
  const Times after = measure(strategy, steps, 0.0);  // what else the machine does meets both
  const double free = 0.5 * (before.step + after.step);
  const double hidden = 1.0 - (slow.step - free) / before.backward;
  std::printf("%-28s %8.2f %9.2f %9.2f %10.2f %8.0f %%\n", name, 1e-6 * rate, 1e3 * before.backward,
              1e3 * free, 1e3 * slow.step, 100.0 * hidden);
  std::fflush(stdout);
}

struct Setting {
  const char* name;
  ShardingStrategy strategy;
};

Setting ddp(const char* name, int64_t bucket, int64_t first) {
  return {name, [=](nn::Module& model, const Communicator& world) {
            DDP(model, world, {.bucket_bytes = bucket, .first_bucket_bytes = first});
          }};
}

Setting fsdp(const char* name, int prefetch) {
  return {name, [=](nn::Module& model, const Communicator& world) {
            fully_shard(model, world, {.unit = each<nn::Block>(), .prefetch = prefetch});
          }};
}

// As programs for FSDP2 are written.
Setting block_by_block(const char* name) {
  return {name, [=](nn::Module& model, const Communicator& world) {
            for (nn::Module* module : model.modules()) {
              if (dynamic_cast<nn::Block*>(module) != nullptr) fully_shard(*module, world);
            }
            fully_shard(model, world);
          }};
}

// "3" of "transformer.h.3.attn.c_attn", "" outside of blocks.
std::string block_of(const std::string& module) {
  const size_t at = module.find("h.");
  if (at == std::string::npos) return {};
  const size_t end = module.find('.', at + 2);
  return module.substr(at + 2, end == std::string::npos ? end : end - at - 2);
}

// From one optimizer step's end to the next one's, by the median of them.
std::pair<double, double> middle_step(const Profile& mine) {
  std::vector<std::pair<double, double>> steps;  // length, begin
  double last = -1.0;
  for (const Profile::Event& event : mine.events) {
    if (mine.rows[static_cast<size_t>(event.row)].name != "optimizer step") continue;
    const double end = event.begin + event.seconds;
    if (last >= 0.0) steps.emplace_back(end - last, last);
    last = end;
  }
  std::sort(steps.begin(), steps.end());
  const auto [length, begin] = steps.at(steps.size() / 2);
  return {begin, begin + length};
}

// What the rank computed in that time, where neighbouring operations of one block and direction are
// one interval, with what takes less than a pixel between them; and how long it waited for the
// other rank.
void add_computing(const Profile& mine, double begin, double end, tutorial::StepLanes& lanes) {
  const double pixel = 0.002 * (end - begin);
  std::vector<Profile::Event> events;
  for (const Profile::Event& event : mine.events) {
    if (event.begin >= begin && event.begin + event.seconds <= end) events.push_back(event);
  }
  const auto earlier = [](const auto& a, const auto& b) { return a.begin < b.begin; };
  std::sort(events.begin(), events.end(), earlier);
  for (const Profile::Event& event : events) {
    const ProfileRow& row = mine.rows[static_cast<size_t>(event.row)];
    const bool is_step = row.name == "optimizer step";
    if (row.phase == ProfilePhase::wait) {
      lanes.waited += event.seconds;
      continue;
    }
    if (row.phase == ProfilePhase::part && !is_step) continue;  // the whole of backward
    const bool forward = row.phase == ProfilePhase::forward;
    const std::string block = block_of(row.module);
    const std::string what = is_step ? "AdamW" : block;
    const char* colour = is_step   ? "#c8c8c8"
                         : forward ? tutorial::kForwardColours[0]
                                   : tutorial::kBackwardColours[0];
    const double from = event.begin - begin, to = from + event.seconds;
    tutorial::LaneSpan* last = lanes.computing.empty() ? nullptr : &lanes.computing.back();
    const bool follows = last != nullptr && last->colour == colour && from - last->end < pixel;
    if (follows && (last->what == what || (block.empty() && event.seconds < pixel))) {
      last->end = std::max(last->end, to);
    } else {
      lanes.computing.push_back({what, from, to, colour});
    }
  }
  std::erase_if(lanes.computing, [&](const auto& span) { return span.end - span.begin < pixel; });
}

// When the bytes of the first rank's calls were on the link. It sends them as
// dist/backends/throttled_link.h does: one call after the other, each from when both ranks had made
// it, at the link's rate.
void add_sending(const std::vector<Profile>& ranks, double rate, double begin, double end,
                 tutorial::StepLanes& lanes) {
  const Profile& mine = ranks[0];
  double free = 0.0;
  for (size_t i = 0; i < mine.calls.size(); ++i) {
    double made = mine.calls[i].begin;
    for (const Profile& rank : ranks) made = std::max(made, rank.calls.at(i).begin);
    const double from = std::max(made, free);
    free = from + static_cast<double>(mine.calls[i].bytes) / rate;
    if (from < begin || free > end) continue;
    const ProfileCollective& call = mine.collectives[static_cast<size_t>(mine.calls[i].row)];
    const bool gather = call.op == "all_gather";
    const std::string what =
        call.unit.starts_with("bucket ") ? call.unit.substr(7) : block_of(call.unit);
    lanes.sending.push_back({what, from - begin, free - begin,
                             gather ? tutorial::kGatherColour : tutorial::kReduceColour});
  }
}

// One step on a link, as the first of two ranks had it.
tutorial::StepLanes watch(const Setting& setting, int steps, double rate) {
  std::vector<Profile> ranks(2);
  run_ranks(2,
            [&](Communicator& world) {
              const Profiler profiler({.work = false});
              train(world, setting.strategy, steps);
              ranks[static_cast<size_t>(world.rank())] = profiler.profile();
            },
            {.link_bytes_per_second = rate});
  const auto [begin, end] = middle_step(ranks[0]);
  tutorial::StepLanes lanes{setting.name, {}, {}, end - begin, 0.0};
  add_computing(ranks[0], begin, end, lanes);
  add_sending(ranks, rate, begin, end, lanes);
  return lanes;
}

// The settings one below the other, all on the link that suits the last one.
void draw(const std::vector<Setting>& settings, const char* what, const std::string& folder,
          const std::string& name, int steps) {
  const Times free = measure(settings.back().strategy, steps, 0.0);
  const double rate = free.bytes / free.backward;
  char title[160];
  std::snprintf(title, sizeof title, "A step of %s, measured on a link of %.0f MB/s", what,
                1e-6 * rate);
  std::vector<tutorial::StepLanes> lanes;
  for (const Setting& setting : settings) lanes.push_back(watch(setting, steps, rate));
  draw_steps(lanes, title, folder, name);
  for (const tutorial::StepLanes& step : lanes) {
    std::printf("%-28s %8.2f MB/s  step %8.2f ms, waits %8.2f\n", step.name.c_str(), 1e-6 * rate,
                1e3 * step.seconds, 1e3 * step.waited);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Setting one_bucket = ddp("DDP, one bucket", 1 << 30, 1 << 30);
  const Setting buckets = ddp("DDP, buckets of 512 KiB", 512 << 10, 256 << 10);
  const Setting no_prefetch = fsdp("FSDP, without prefetch", 0);
  const Setting prefetch = fsdp("FSDP, with prefetch", 1);
  if (argc > 2 && std::string(argv[1]) == "--figures") {
    const int steps = argc > 3 ? std::atoi(argv[3]) : 9;
    draw({one_bucket, buckets}, "data parallelism", argv[2], "11_ddp_measured", steps);
    draw({no_prefetch, prefetch}, "FSDP", argv[2], "17_fsdp_measured", steps);
    return 0;
  }
  const Setting blocks = block_by_block("FSDP, block by block");
  const int steps = argc > 1 ? std::atoi(argv[1]) : 15;
  std::printf("%-28s %8s %9s %9s %10s %10s\n", "strategy, times in ms", "MB/s", "backward", "step",
              "on a link", "hidden");
  for (const Setting* setting : {&buckets, &one_bucket, &prefetch, &blocks, &no_prefetch}) {
    report(setting->name, setting->strategy, steps);
  }
}
