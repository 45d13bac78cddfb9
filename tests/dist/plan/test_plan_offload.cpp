// dist::plan where hosts have memory: offload as one more way to fit.
#include <algorithm>
#include <limits>
#include <set>

#include "dist/plan/alike.h"
#include "support/catch.h"

#include <hero/dist/config.h>
#include <hero/dist/plan.h>
#include <hero/dist/plan/program.h>
#include <hero/dist/plan/stage_recordings.h>
#include <hero/dist/simulation.h>

namespace {

using namespace hero;
using namespace hero::dist;
using Catch::Matchers::ContainsSubstring;

PlanRequest with_hosts(int ranks, int64_t batch, DType dtype = kBFloat16) {
  PlanRequest request;
  request.model = {.vocab_size = 64, .block_size = 32, .n_layer = 4, .n_head = 4, .n_embd = 64};
  request.ranks = ranks;
  request.global_batch = batch;
  request.cluster.per_host = 2;
  request.cluster.host_memory = int64_t{1} << 40;
  request.dtype = dtype;
  return request;
}

bool offloads(const Strategy& s) { return s.offload != PlanOffload::none; }

}  // namespace

TEST_CASE("plan: hosts with memory add the strategies that can be counted by hand") {
  PlanRequest request = with_hosts(2, 4);
  request.max_micro_batch = 2;
  std::set<std::string> texts;
  int64_t of_data = 0, of_stages = 0, of_tensor = 0, others = 0;
  for (const Strategy& s : strategies(request)) {
    CAPTURE(s.text());
    CHECK(texts.insert(s.text()).second);
    if (!offloads(s)) {
      ++others;
      continue;
    }
    CHECK(s.sharding != PlanSharding::ddp);
    of_data += s.data() == 2;
    of_stages += s.pipe == 2;
    of_tensor += s.tensor == 2;
  }
  CHECK(others == 36);  // as without
  // ZeRO-1, ZeRO-2, FSDP twice; micro-batches of 1 and 2; checkpointing or not
  CHECK(of_data == 4 * 2 * 2);
  CHECK(of_tensor == 4 * 2 * 2);
  // of ZeRO 1F1B and zero bubble, of FSDP two chunks, too
  CHECK(of_stages == (2 * 2 + 2 * 3) * 2 * 2);
  const size_t on_hosts = strategies(request).size();
  request.cluster.disk = int64_t{1} << 40;  // as many again
  CHECK(strategies(request).size() == 2 * on_hosts - 36);
  request.cluster.device = DeviceType::cpu;  // one memory
  CHECK(strategies(request).size() == 36);
  request.cluster.device = DeviceType::cuda;
  request.cluster.host_memory = 0;
  CHECK(strategies(request).size() == 36);
}

TEST_CASE("plan: no bound of what is offloaded is above what the simulation says") {
  for (const DType dtype : {kBFloat16, kFloat32}) {
    for (const int ranks : {1, 2, 4}) {
      PlanRequest request = with_hosts(ranks, 8, dtype);
      request.cluster.disk = int64_t{1} << 40;
      for (const Strategy& s : strategies(request)) {
        if (!offloads(s)) continue;
        CAPTURE(name(dtype), s.text());
        const PlanCost cost = simulate_strategy(request, s);
        CHECK(memory_bound(request, s) <= cost.memory);
        CHECK(host_bound(request, s) <= cost.host);
        CHECK(host_bound(request, s) > 0);
        CHECK(disk_bound(request, s) <= cost.disk);
        CHECK((cost.disk > 0) == (s.offload == PlanOffload::disk));
        CHECK(seconds_bound(request, s) <= cost.seconds * (1 + 1e-9));
        Strategy twin = s;  // on the device it would hold no fewer bytes
        twin.offload = PlanOffload::none;
        CHECK(cost.memory <= simulate_strategy(request, twin).memory);
      }
    }
  }
}

TEST_CASE("plan: stages that are alike hold the bytes of all on their hosts, too") {
  PlanRequest request = with_hosts(8, 16);
  request.model.n_layer = 8;
  request.max_micro_batch = 2;
  int64_t alike = 0;
  for (const Strategy& s : strategies(request)) {
    if (!offloads(s) || s.pipe == 1 || s.micro_batches < StageRecordings::recorded(s)) continue;
    CAPTURE(s.text());
    const StageRecordings stages(request, s);
    if (!stages.has(s.micro_batches)) continue;
    ++alike;
    hero::test::compare_with_each_stage(
        request, s, stages, [](const ReplayRank& few, const ReplayRank& each, double seconds) {
          CHECK(few.peak_total == each.peak_total);
          CHECK(few.host_peak_total == each.host_peak_total);
          CHECK(few.moved == each.moved);
          CHECK(few.transfers == Approx(each.transfers).margin(1e-9 * seconds));
        });
  }
  CHECK(alike > 10);
}

TEST_CASE("plan: what fits without offload is not offloaded") {
  PlanRequest request = with_hosts(2, 4);
  request.simulations = 1000;
  request.best = 1;
  request.cluster.launch_seconds = 0.0;  // the host's steps take their bytes' time alone
  const Plan found = plan(request);
  REQUIRE(found.best.size() == 1);
  CHECK_FALSE(offloads(found.best.front().strategy));
  double least = std::numeric_limits<double>::infinity();
  for (const Strategy& s : strategies(request)) {
    least = std::min(least, simulate_strategy(request, s).seconds);
  }
  CHECK(found.best.front().cost->seconds == least);
  request.best = 40;
  request.cluster.disk = int64_t{1} << 40;
  const Plan many = plan(request);
  int64_t needless = 0, others = 0;
  for (const Strategy& s : strategies(request)) others += !offloads(s);
  CHECK(static_cast<int64_t>(many.best.size()) == others);
  for (const PlanEntry& entry : many.best) CHECK_FALSE(offloads(entry.strategy));
  for (const PlanGroup& g : many.groups) {
    needless += g.needless;
    CHECK(g.strategies == g.simulated + g.needless);
  }
  CHECK(needless == many.strategies - others);
  CHECK_THAT(table(many), ContainsSubstring(" fit with less offload"));
}

TEST_CASE("plan: what fits no device is offloaded, where the hosts have room") {
  PlanRequest request = with_hosts(2, 4);
  request.simulations = 1000;
  int64_t least = std::numeric_limits<int64_t>::max(), least_offloaded = least;
  for (const Strategy& s : strategies(request)) {
    int64_t& mine = offloads(s) ? least_offloaded : least;
    mine = std::min(mine, simulate_strategy(request, s).memory);
  }
  REQUIRE(least_offloaded < least);
  request.cluster.memory = least - 1;
  const Plan found = plan(request);
  REQUIRE_FALSE(found.best.empty());
  for (const PlanEntry& entry : found.best) {
    CHECK(offloads(entry.strategy));
    CHECK(entry.cost->memory <= request.cluster.memory);
    CHECK(entry.cost->host >= entry.host_bound);
  }
  CHECK_THAT(table(found),
             ContainsSubstring(", offload\n") && ContainsSubstring("550 GB of the hosts' memory"));
  const Config config = Config::parse(config_text(request, found.best.front().strategy));
  CHECK(config.zero.offload_optimizer);
  CHECK(config.zero.offload_parameters == (config.zero.stage == 3));
  PlanRequest small = request;
  small.cluster.host_memory = 1000;
  const Plan none = plan(small);
  CHECK(none.best.empty());
  CHECK_THAT(table(none), ContainsSubstring("too large for the hosts, by ") &&
                              ContainsSubstring(" MB per rank or more"));
  for (const PlanGroup& g : none.groups) CHECK(g.strategies == g.too_large + g.host_too_large);
  small = request;  // states on disk need less of the hosts' memory
  int64_t on_disk = std::numeric_limits<int64_t>::max(), on_host = on_disk;
  small.cluster.disk = int64_t{1} << 40;
  for (const Strategy& s : strategies(small)) {
    if (!offloads(s)) continue;
    int64_t& mine = s.offload == PlanOffload::disk ? on_disk : on_host;
    mine = std::min(mine, simulate_strategy(small, s).host);
  }
  REQUIRE(on_disk < on_host);
  small.cluster.host_memory = 2 * on_disk;  // of two ranks
  const Plan files = plan(small);
  REQUIRE_FALSE(files.best.empty());
  for (const PlanEntry& entry : files.best) {
    CHECK(entry.strategy.offload == PlanOffload::disk);
  }
  CHECK_THAT(table(files), ContainsSubstring(", offload to disk\n"));
  small.cluster.disk = 1;
  CHECK(plan(small).best.empty());
  small.cluster.host_memory = 0;
  CHECK(plan(small).best.empty());
  CHECK_THAT(table(plan(small)), !ContainsSubstring("the hosts"));
}
