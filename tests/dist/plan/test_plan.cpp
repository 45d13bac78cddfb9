// dist::plan: what is tried, what bounds leave out, and which one wins.
#include <algorithm>
#include <iomanip>
#include <mutex>
#include <set>
#include <sstream>

#include "dist/plan/alike.h"
#include "dist/thread_modes.h"
#include "support/catch.h"

#include <hero/dist/plan.h>
#include <hero/dist/plan/program.h>
#include <hero/dist/plan/stage_recordings.h>
#include <hero/dist/simulation.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

PlanRequest small_request(int ranks, int64_t batch, DType dtype = kBFloat16) {
  PlanRequest request;
  request.model = {.vocab_size = 64, .block_size = 32, .n_layer = 4, .n_head = 4, .n_embd = 64};
  request.ranks = ranks;
  request.global_batch = batch;
  request.cluster.per_host = 2;
  request.dtype = dtype;
  return request;
}

// Everything of the stages' recordings beside those of each stage.
void compare_all(const PlanRequest& request, const Strategy& s, const StageRecordings& stages) {
  hero::test::compare_with_each_stage(
      request, s, stages, [](const ReplayRank& few, const ReplayRank& each, double seconds) {
        CHECK(few.rank == each.rank);
        CHECK(few.peak_total == each.peak_total);
        CHECK(few.flops == each.flops);
        CHECK(few.sent_inside == each.sent_inside);
        CHECK(few.sent_outside == each.sent_outside);
        CHECK(few.messages == Approx(each.messages).margin(1e-9 * seconds));
      });
}

// A time that no bound is above, and that differs from one strategy to the next.
PlanCost made_up(const PlanRequest& request, const Strategy& s) {
  const double reshard = s.reshard ? 0.01 : 0.0, checkpoint = s.checkpoint ? 0.2 : 0.0;
  const double factor = 1.1 + 0.07 * s.pipe + 0.05 * s.tensor +
                        0.03 * static_cast<int>(s.sharding) + reshard + checkpoint +
                        0.002 * static_cast<double>(s.micro_batch) +
                        0.0003 * static_cast<double>(s.schedule.name().size());
  return {.seconds = seconds_bound(request, s) * factor, .memory = memory_bound(request, s)};
}

}  // namespace

TEST_CASE("plan: the strategies of two ranks are those that can be counted by hand") {
  PlanRequest request = small_request(2, 4);
  request.max_micro_batch = 2;
  std::vector<int> one_stage, two_stages, tensor;
  int64_t of_data = 0, of_stages = 0, of_tensor = 0;
  for (const Strategy& s : strategies(request)) {
    CHECK(s.ranks() == 2);
    CHECK(s.micro_batch * s.micro_batches * s.data() == 4);
    if (s.data() == 2) ++of_data;
    if (s.pipe == 2) ++of_stages;
    if (s.tensor == 2) ++of_tensor;
  }
  // DDP, ZeRO-1, ZeRO-2, FSDP twice; micro-batches of 1 and 2; checkpointing or not
  CHECK(of_data == 5 * 2 * 2);
  // micro-batches of 1 (4 of them) and 2 (2 of them); 1F1B, zero bubble, two chunks
  CHECK(of_stages == 2 * 3 * 2);
  CHECK(of_tensor == 2 * 2);
  CHECK(strategies(request).size() == 20 + 12 + 4);
}

TEST_CASE("plan: strategies are all different, and each divides what it says") {
  const PlanRequest request = small_request(8, 16);
  std::set<std::string> texts;
  bool hybrid = false;
  for (const Strategy& s : strategies(request)) {
    CAPTURE(s.text());
    CHECK(texts.insert(s.text()).second);
    CHECK(s.ranks() == 8);
    CHECK(s.tensor <= request.cluster.per_host);
    CHECK(4 % s.pipe == 0);
    CHECK(s.micro_batches >= s.pipe);
    CHECK((s.sharding == PlanSharding::ddp) == (s.shard == 1));
    if (s.sharding == PlanSharding::hybrid) CHECK(s.tensor * s.shard == request.cluster.per_host);
    hybrid = hybrid || s.sharding == PlanSharding::hybrid;
  }
  CHECK(hybrid);
}

TEST_CASE("plan: no bound of memory or time is above what the simulation says") {
  for (const DType dtype : {kBFloat16, kFloat32}) {
    for (const int ranks : {1, 2, 4}) {
      const PlanRequest request = small_request(ranks, 8, dtype);
      for (const Strategy& s : strategies(request)) {
        CAPTURE(name(dtype), s.text());
        const PlanCost cost = simulate_strategy(request, s);
        CHECK(memory_bound(request, s) <= cost.memory);
        CHECK(seconds_bound(request, s) <= cost.seconds * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE(
    "plan: the bound of time counts reductions over hosts in two levels, and gathers in one") {
  // Two hosts of four ranks, on links on which only the bytes of the data axes count.
  PlanRequest request = small_request(8, 8);
  request.cluster.per_host = 4;
  request.cluster.launch_seconds = 0.0;
  request.cluster.inside = {0.0, 1e6};
  request.cluster.outside = {0.0, 1e5};
  const nn::DeviceScope meta(kMeta);
  const nn::GPT model(request.model);
  double elements = 0.0, in_blocks = 0.0;
  for (const auto& [path, parameter] : model.named_parameters()) {
    elements += static_cast<double>(parameter.numel());
    if (path.find(".h.") != std::string::npos) in_blocks += static_cast<double>(parameter.numel());
  }
  // Bytes of an element that a rank sends to the other host. Of a quarter of them it sends half on
  // as a sum in float32, and takes half back as a result.
  const double reduced = 4.0 / 8, returned = 2.0 / 8, gathered = 2.0 * 7 / 8;
  const auto expect_bytes = [&](PlanSharding sharding, double bytes) {
    Strategy s{.shard = 8, .sharding = sharding};
    if (sharding == PlanSharding::ddp) std::swap(s.shard, s.replicate);
    CAPTURE(s.text());
    const double seconds = seconds_bound(request, s);
    CHECK(seconds == Approx(bytes / 1e5).epsilon(1e-12));
    const double simulated = simulate_strategy(request, s).seconds;
    CHECK(seconds <= simulated);
    CHECK(seconds >= 0.9 * simulated);
  };
  expect_bytes(PlanSharding::ddp, (reduced + returned) * elements);
  expect_bytes(PlanSharding::zero1, (reduced + gathered) * elements);
  expect_bytes(PlanSharding::zero2, (reduced + gathered) * elements);
  // the blocks are gathered in both passes
  expect_bytes(PlanSharding::fsdp, (reduced + gathered) * elements + gathered * in_blocks);
  // Where the port within the host is the slower one, its bytes count: 3/4 of two bytes, each way.
  std::swap(request.cluster.inside, request.cluster.outside);
  CHECK(seconds_bound(request, {.replicate = 8}) ==
        Approx(2 * 2.0 * 3 / 4 * elements / 1e5).epsilon(1e-12));
  // No bound is above a simulation, for any strategy.
  for (const bool swapped : {true, false}) {
    for (const DType dtype : {kBFloat16, kFloat32}) {
      request.dtype = dtype;
      for (const Strategy& s : strategies(request)) {
        CAPTURE(swapped, name(dtype), s.text());
        CHECK(seconds_bound(request, s) <= simulate_strategy(request, s).seconds * (1 + 1e-9));
      }
    }
    std::swap(request.cluster.inside, request.cluster.outside);
  }
}

TEST_CASE("plan: of a model that is not tiny the bound of memory is near") {
  PlanRequest request = small_request(2, 4);
  request.model = {.vocab_size = 512, .block_size = 256, .n_layer = 8, .n_head = 8, .n_embd = 256};
  for (const Strategy& s : strategies(request)) {
    if (s.sharding > PlanSharding::ddp) continue;  // others hold what they gather and reduce
    // and here what a block computed again is held until the turn of its weights
    if (s.checkpoint && s.schedule.splits_backward()) continue;
    CAPTURE(s.text());
    const double bound = static_cast<double>(memory_bound(request, s));
    const double held = static_cast<double>(simulate_strategy(request, s).memory);
    CHECK(bound <= held);
    CHECK(bound >= 0.7 * held);
  }
}

TEST_CASE("plan: tensor ranks beyond the heads of keys and values share a whole projection") {
  PlanRequest request = small_request(4, 4);
  request.cluster.per_host = 4;
  request.max_micro_batch = 2;
  for (const int64_t kv_heads : {1, 2}) {
    request.model.n_kv_head = kv_heads;
    std::set<int> tensor;
    for (const Strategy& s : strategies(request)) {
      CAPTURE(kv_heads, s.text());
      tensor.insert(s.tensor);
      const PlanCost cost = simulate_strategy(request, s);
      CHECK(memory_bound(request, s) <= cost.memory);
      CHECK(seconds_bound(request, s) <= cost.seconds * (1 + 1e-9));
    }
    CHECK(tensor == std::set<int>{1, 2, 4});
  }
  // Four ranks compute with a head of queries, keys and values each, as if there were four of all,
  // but have the whole projection: 64 (64 + 2 16) weights and 96 biases in place of a quarter of
  // 64 (3 64) and 192, in each of 4 blocks, with 16 bytes each.
  const Strategy four{.tensor = 4, .micro_batches = 4};
  PlanRequest as_many = request;
  as_many.model.n_kv_head = 4;
  request.model.n_kv_head = 1;
  CHECK(memory_bound(request, four) - memory_bound(as_many, four) ==
        4 * 16 * (64 * 96 + 96 - (64 * 192 + 192) / 4));
  CHECK(seconds_bound(request, four) > seconds_bound(as_many, four));
  const double tokens = 4 * 32, others = tokens * (6 * 4096 + 6 * 4 * 64 * 32);
  CHECK(model_flops(request) == others + tokens * 6 * 4 * 43'008);
  CHECK(hardware_flops(request, four) == others + tokens * 6 * 4 * 49'152);
  // Neither two nor four ranks share three heads.
  request.model = {.vocab_size = 64, .block_size = 32, .n_layer = 4, .n_head = 12, .n_embd = 96};
  request.model.n_kv_head = 3;
  for (const Strategy& s : strategies(request)) CHECK(s.tensor == 1);
  request.model.n_kv_head = 5;
  CHECK_THROWS_WITH(strategies(request), ContainsSubstring("12 heads with 5 heads of keys"));
}

TEST_CASE("plan: many micro-batches are on the line through few") {
  for (const auto& [ranks, pipe] : {std::pair{1, 1}, std::pair{2, 2}}) {
    PlanRequest request = small_request(ranks, 24);
    request.max_micro_batch = 1;
    for (const Strategy& s : strategies(request)) {
      if (s.pipe != pipe || s.tensor > 1 || s.data() > 1) continue;
      CAPTURE(s.text());
      const PlanCost line = simulate_strategy(request, s);
      const Simulation all =
          simulate(ranks,
                   [&](Communicator& world) {
                     run_strategy(request, s, world, [] { begin_simulated_step(); });
                   },
                   request.cluster, {.ranks = stage_ranks(s)});
      CHECK(line.seconds == Approx(all.seconds).epsilon(0.01));
      CHECK(line.memory >= all.peak_bytes);
      CHECK(line.memory <= all.peak_bytes + 4 * s.micro_batches);  // a loss on another rank
    }
  }
}

TEST_CASE("plan: stages that are alike, recorded once, take the time and hold the bytes of all") {
  PlanRequest request = small_request(8, 16);
  request.model.n_layer = 8;
  int64_t alike = 0;
  for (const Strategy& s : strategies(request)) {
    if (s.pipe == 1 || s.micro_batches < StageRecordings::recorded(s)) continue;
    CAPTURE(s.text());
    const StageRecordings stages(request, s);
    REQUIRE(stages.has(s.micro_batches));
    ++alike;
    compare_all(request, s, stages);
  }
  CHECK(alike > 100);
}

TEST_CASE("plan: stages of several chunks or a zero bubble that free their units are alike, too") {
  PlanRequest request = small_request(16, 64);
  request.model.n_layer = 16;
  request.max_micro_batch = 1;
  int64_t alike = 0;
  for (const Strategy& s : strategies(request)) {
    const bool frees = s.sharding >= PlanSharding::fsdp && s.reshard;
    const bool mixes = s.schedule.chunks() > 1 || s.schedule.splits_backward();
    if (!frees || !mixes || s.checkpoint || s.micro_batches < StageRecordings::recorded(s))
      continue;
    const StageRecordings stages(request, s);
    for (const int64_t micro_batches : {int64_t{2} * s.pipe, s.micro_batches}) {
      Strategy some = s;
      some.micro_batches = micro_batches;
      CAPTURE(some.text());
      REQUIRE(stages.has(micro_batches));
      ++alike;
      compare_all(request, some, stages);
    }
  }
  CHECK(alike > 20);
}

TEST_CASE("plan: stages are alike only if their ranks lie on hosts in the same way") {
  // Four ranks of a stage on two hosts of ten: of the five stages the middle one lies on both.
  PlanRequest request = small_request(20, 40);
  request.model.n_layer = 5;
  request.cluster.per_host = 10;
  request.max_micro_batch = 1;
  int64_t alike = 0;
  for (const Strategy& s : strategies(request)) {
    if (s.pipe != 5 || s.micro_batches < StageRecordings::recorded(s)) continue;
    CAPTURE(s.text());
    const StageRecordings stages(request, s);
    if (!stages.has(s.micro_batches)) continue;
    ++alike;
    compare_all(request, s, stages);
  }
  CHECK(alike >= 8);
}

TEST_CASE("plan: the best are those of a search through everything") {
  for (const double part : {1.0, 0.6}) {
    PlanRequest request = small_request(8, 16);
    request.simulate = made_up;
    request.best = 5;
    request.simulations = 1000000;
    int64_t most = 0;
    for (const Strategy& s : strategies(request)) most = std::max(most, memory_bound(request, s));
    request.cluster.memory = static_cast<int64_t>(part * static_cast<double>(most));
    std::vector<double> times;
    for (const Strategy& s : strategies(request)) {
      const PlanCost cost = made_up(request, s);
      if (cost.memory <= request.cluster.memory) times.push_back(cost.seconds);
    }
    std::sort(times.begin(), times.end());
    const Plan found = plan(request);
    REQUIRE(found.best.size() == 5);
    for (size_t i = 0; i < 5; ++i) CHECK(found.best[i].cost->seconds == times[i]);
    CHECK(found.simulated < found.strategies);
    int64_t counted = 0;
    for (const PlanGroup& g : found.groups) {
      CHECK(g.strategies == g.too_large + g.slower + g.simulated + g.not_simulated);
      CHECK(g.not_simulated == 0);
      counted += g.strategies;
    }
    CHECK(counted == found.strategies);
  }
}

TEST_CASE("plan: a real search finds the fastest simulation of all that fit") {
  PlanRequest request = small_request(2, 4);
  request.best = 3;
  request.simulations = 1000;
  std::vector<double> times;
  for (const Strategy& s : strategies(request)) {
    times.push_back(simulate_strategy(request, s).seconds);
  }
  std::sort(times.begin(), times.end());
  const Plan found = plan(request);
  REQUIRE(found.best.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(found.best[i].cost->seconds == times[i]);
}

TEST_CASE("plan: what does not fit by its simulation is not among the best") {
  PlanRequest request = small_request(2, 4);
  request.simulate = [](const PlanRequest& r, const Strategy& s) {
    PlanCost cost = made_up(r, s);
    if (s.pipe == 2) cost.memory = r.cluster.memory + 1;
    return cost;
  };
  request.simulations = 1000;
  request.best = 100;
  const Plan found = plan(request);
  CHECK(found.best.size() == 20 + 6);  // as above, and a micro-batch of 4 on two tensor ranks
  for (const PlanEntry& entry : found.best) CHECK(entry.strategy.pipe == 1);
  request.simulations = 3;
  const Plan short_of = plan(request);
  CHECK(short_of.simulated == 3);
  CHECK_THAT(table(short_of), ContainsSubstring("not simulated"));
}

TEST_CASE("plan: the MFU counts no second forward of a checkpoint, and the HFU does") {
  PlanRequest request = small_request(1, 4, kFloat32);
  Strategy plain{.micro_batch = 4}, checkpointed{.micro_batch = 4, .checkpoint = true};
  // 12 C^2 weights in each of 4 blocks and 64 C in the head, 6 flops each and token; 6 C T a block
  // and token for attention
  const double tokens = 4 * 32, model = tokens * (6 * (4 * 49'152 + 4'096) + 6 * 4 * 64 * 32);
  const double forward = tokens * (2 * 4 * 49'152 + 2 * 4 * 64 * 32);  // of the blocks
  CHECK(model == 160'432'128);
  CHECK(model_flops(request) == model);
  CHECK(hardware_flops(request, plain) == model);
  CHECK(hardware_flops(request, checkpointed) == model + forward);
  CHECK(model + forward == 212'860'928);

  request.cluster.float32_flops = 400e6;
  Plan found;
  found.request = request;
  found.best = {{.strategy = plain, .cost = PlanCost{.seconds = 0.5}},
                {.strategy = checkpointed, .cost = PlanCost{.seconds = 1.0}}};
  CHECK_THAT(table(found), ContainsSubstring("   MFU    HFU  memory"));
  CHECK_THAT(table(found), ContainsSubstring("256  80.2%  80.2%"));
  CHECK_THAT(table(found), ContainsSubstring("128  40.1%  53.2%"));

  // A causal query of a simulation has (T + 1) / 2 keys, where the formula has T / 2.
  const double more = tokens * 6 * 4 * 64;
  for (const DType dtype : {kFloat32, kBFloat16}) {
    for (const Strategy& s : {plain, checkpointed}) {
      CAPTURE(dtype, s.text());
      PlanRequest simulated = small_request(1, 4, dtype);
      const auto program = [&](Communicator& world) {
        run_strategy(simulated, s, world, [] { begin_simulated_step(); });
      };
      const Simulation step = simulate(1, program, simulated.cluster);
      const double flops = step.seconds * simulated.cluster.peak_flops(dtype);
      CHECK(step.mfu * flops == Approx(model + more).epsilon(1e-9));
      const double again = s.checkpoint ? forward + more / 3 : 0.0;
      CHECK(step.hfu * flops == Approx(model + more + again).epsilon(1e-9));
    }
  }
}

TEST_CASE("plan: where nothing fits it says by how much") {
  PlanRequest request = small_request(2, 4);
  request.cluster.memory = 1000;
  const Plan found = plan(request);
  CHECK(found.best.empty());
  CHECK(found.simulated == 0);
  CHECK_THAT(table(found), ContainsSubstring("none fits"));
  CHECK_THAT(table(found), ContainsSubstring("2 ranks, 2 per host with 1 kB each"));
  for (const PlanGroup& group : found.groups) {
    const double over = static_cast<double>(group.least_memory - request.cluster.memory) / 1e3;
    std::ostringstream amount;
    amount << std::fixed << std::setprecision(1) << over << " kB or more";
    CHECK_THAT(table(found), ContainsSubstring("too large, by " + amount.str()));
  }
}

TEST_CASE("plan: an error of a simulation is the plan's") {
  PlanRequest request = small_request(2, 4);
  request.simulate = [](const PlanRequest&, const Strategy&) -> PlanCost { fail("no such luck"); };
  CHECK_THROWS_WITH(plan(request), "no such luck");
}

TEST_CASE("plan: every simulation has the modes of the thread that plans") {
  PlanRequest request = small_request(2, 4);
  std::mutex mutex;
  std::vector<hero_test::SeenModes> seen;
  request.simulate = [&](const PlanRequest& r, const Strategy& s) {
    const hero_test::SeenModes modes = hero_test::seen_modes();
    const std::lock_guard lock(mutex);
    seen.push_back(modes);
    return made_up(r, s);
  };
  hero_test::with_all_modes([&] {
    hero_test::SeenModes mine = hero_test::seen_modes();
    (void)plan(request);
    mine.profiled = false;
    REQUIRE(seen.size() > 1);
    for (hero_test::SeenModes& each : seen) {
      each.profiled = false;
      CHECK(each == mine);
    }
  });
}

TEST_CASE("plan: the bound's states are those of the ZeRO paper's Table 1") {
  PlanRequest request;
  request.model = {.vocab_size = 1, .block_size = 1, .n_layer = 37, .n_head = 32, .n_embd = 4096};
  request.ranks = 64;
  request.global_batch = 64;
  const double psi = 37 * (12.0 * 4096 * 4096 + 13 * 4096);  // about 7.5 B
  Strategy s;
  s.shard = 64;
  const auto bytes = [&](PlanSharding sharding) {
    s.sharding = sharding;
    return static_cast<double>(memory_bound(request, s)) / psi;
  };
  // what the embedding, the last norm and one position's activations add is below a thousandth
  CHECK(bytes(PlanSharding::zero1) == Approx(4 + 12.0 / 64).epsilon(2e-3));
  CHECK(bytes(PlanSharding::zero2) == Approx(2 + 14.0 / 64).epsilon(2e-3));
  CHECK(bytes(PlanSharding::fsdp) == Approx(16.0 / 64).epsilon(2e-2));
  s.shard = 1;
  s.replicate = 64;
  CHECK(bytes(PlanSharding::ddp) == Approx(16).epsilon(1e-3));
}

TEST_CASE("plan: requests that make no sense are errors") {
  PlanRequest request = small_request(3, 4);
  CHECK_THROWS_WITH(strategies(request), ContainsSubstring("no whole number of hosts"));
  request = small_request(2, 0);
  CHECK_THROWS_WITH(strategies(request), ContainsSubstring("a global batch of 0"));
  request = small_request(2, 4, kFloat64);
  CHECK_THROWS_WITH(strategies(request), ContainsSubstring("dtype float64"));
  request = small_request(2, 4);
  request.model.n_head = 5;
  CHECK_THROWS_WITH(strategies(request), ContainsSubstring("heads divide the width"));
  request = small_request(2, 1);
  request.cluster.per_host = 1;  // no tensor ranks, and two stages want two micro-batches
  CHECK_THROWS_WITH(strategies(request), ContainsSubstring("global batch of 1"));
}
