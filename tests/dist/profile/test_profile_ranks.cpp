// Profiles of ranks: calls with the bytes of Traffic, waits, one file for all.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/profile/profiler.h>
#include <hero/dist/dist.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using nlohmann::json;

void train(Communicator& world, ShardingStrategy strategy, int steps) {
  auto model = make_subject(Subject::mlp);
  climb(strategy, Subject::mlp, *model, world);
  const auto adamw = make_method(Method::adamw, model->parameters());
  for (int step = 0; step < steps; ++step) {
    adamw->zero_grad();
    subject_loss(Subject::mlp, *model, step, world.rank()).backward();
    adamw->step();
  }
}

double waits(const Profile& profile) {
  double seconds = 0.0;
  for (const ProfileRow& row : profile.rows) {
    seconds += row.phase == ProfilePhase::wait ? row.seconds : 0.0;
  }
  return seconds;
}

TEST_CASE("calls of a profile are those of the traffic, under every strategy", "[dist][threads]") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept,
        ShardingStrategy::hybrid}) {
    CAPTURE(name(strategy));
    run_ranks(4, [&](Communicator& world) {
      world.traffic().reset();
      Profiler profiler;
      train(world, strategy, 2);
      profiler.stop();
      const Profile p = profiler.profile();
      using Key = std::tuple<std::string, std::string, std::string>;
      std::map<Key, std::pair<int64_t, int64_t>> seen, counted;
      for (const ProfileCollective& c : p.collectives) {
        seen[{c.op, c.axis, c.unit}] = {c.calls, c.bytes};
      }
      for (const Traffic::Row& row : world.traffic().rows()) {
        counted[{dist::name(row.op), row.axis, row.unit}] = {row.calls, row.bytes};
      }
      expect(!counted.empty() && seen == counted, "rows of the traffic");
      int64_t bytes = 0;
      for (const Profile::Call& call : p.calls) bytes += call.bytes;
      expect(bytes == world.traffic().bytes(), "the bytes of all calls");
      expect(p.steps == 2, "steps");
    });
  }
}

TEST_CASE("waits of a profile lie inside its calls, and their sums agree", "[dist][threads]") {
  for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    run_ranks(2, [&](Communicator& world) {
      Profiler profiler;
      train(world, strategy, 3);
      world.barrier();
      const Profile p = profiler.profile();
      double waited = 0.0, under_way = 0.0;
      for (const ProfileCollective& c : p.collectives) {
        expect(c.waited <= c.seconds + 1e-9, "the rank waits while a call is under way");
        waited += c.waited;
        under_way += c.seconds;
      }
      expect(std::abs(waited - waits(p)) < 1e-9, "rows of waits and the calls' sums");
      double calls = 0.0;
      int waited_for = 0;
      for (const Profile::Call& call : p.calls) {
        if (call.end < 0.0) continue;
        ++waited_for;
        calls += call.end - call.begin;
      }
      expect(waited_for > 0, "calls are waited for");
      expect(std::abs(calls - under_way) < 1e-9, "calls and their sums");
    });
  }
}

TEST_CASE("what a throttled link holds up is seen as a wait for the call", "[dist][threads]") {
  run_ranks(
      2,
      [](Communicator& world) {
        Profiler profiler;
        const Array x = Array::ones({5000});
        Work work = world.all_reduce(x, {.async = true, .unit = "h.0"});
        { const ProfileScope computing("computing"); }
        work.wait();
        work.wait();
        const Profile p = profiler.profile();
        expect(p.collectives.size() == 1 && p.collectives[0].unit == "h.0", "one call");
        expect(p.collectives[0].bytes == 20000, "sent");
        expect(p.collectives[0].seconds >= 0.02, "20000 bytes leave each rank");
        expect(p.collectives[0].waited > 0.0 && p.collectives[0].waited <= p.collectives[0].seconds,
               "the wait");
        const bool there = std::any_of(p.rows.begin(), p.rows.end(), [](const ProfileRow& row) {
          return row.name == "wait all_reduce" && row.module == "h.0" && row.calls == 1;
        });
        expect(there, "the wait's row");
      },
      {.link_bytes_per_second = 1e6});
}

TEST_CASE("a call that outlives its profiler is none of the next one's", "[dist][threads]") {
  run_ranks(2, [](Communicator& world) {
    const Array x = Array::ones({4});
    Work work;
    {
      const Profiler first;
      work = world.all_reduce(x, {.async = true});
    }
    const Profiler second;
    work.wait();
    const Profile p = second.profile();
    expect(p.rows.empty() && p.calls.empty(), "nothing was begun");
  });
}

TEST_CASE("derivatives of a sharded model are found under their module", "[dist][threads]") {
  run_ranks(2, [](Communicator& world) {
    Profiler profiler;
    train(world, ShardingStrategy::fsdp, 1);
    std::set<std::string> forward, backward;
    for (const ProfileRow& row : profiler.profile().rows) {
      if (row.name == "linear" && row.phase == ProfilePhase::forward) forward.insert(row.module);
      if (row.name == "linear" && row.phase == ProfilePhase::backward) backward.insert(row.module);
    }
    const std::set<std::string> all = {"fc1", "fc2", "fc3"};
    expect(forward == all && backward == all, "linear in three modules");
  });
}

TEST_CASE("profiles of all ranks become one file, and their traffic is not counted",
          "[dist][threads]") {
  const hero_test::TempDir folder;
  run_ranks(3, [&](Communicator& world) {
    Profiler profiler;
    train(world, ShardingStrategy::ddp, 1);
    profiler.stop();
    const int64_t bytes = world.traffic().bytes();
    const std::vector<Profile> all = gather_profiles(world, profiler.profile());
    expect(static_cast<int>(all.size()) == (world.rank() == 0 ? 3 : 0), "on rank 0");
    for (size_t rank = 0; rank < all.size(); ++rank) {
      expect(all[rank].rank == static_cast<int>(rank), "in order");
      expect(all[rank].begin > 0.0 && !all[rank].events.empty(), "with what they did");
    }
    save_profiles(folder / "trace.json", world, profiler.profile());
    expect(world.traffic().bytes() == bytes, "the traffic is as it was");
  });
  const json events = json::parse(hero_test::slurp(folder / "trace.json")).at("traceEvents");
  std::set<int> processes;
  for (const json& event : events) {
    if (event.at("ph") == "X") processes.insert(event.at("pid").get<int>());
  }
  CHECK(processes == std::set<int>{0, 1, 2});
}

TEST_CASE("simulated ranks have no profile to gather", "[dist]") {
  simulate_ranks(2, [](Communicator& world) {
    bool refused = false;
    try {
      gather_profiles(world, Profile());
    } catch (const Error& error) {
      refused = std::string(error.what()).starts_with("profile: simulated ranks take no time");
    }
    expect(refused, "an error");
  });
}

}  // namespace
