// Ranks played on a cluster: times by hand and by the formulas of the literature.
#include <algorithm>

#include <dist/simulation/recordings.h>
#include <nlohmann/json.hpp>
#include <support/catch.h>
#include <support/temp_dir.h>

#include <hero/core/error.h>
#include <hero/dist/mesh.h>
#include <hero/dist/parallel/messages.h>
#include <hero/dist/simulation.h>

namespace {

using namespace hero;
using namespace hero::dist;
using hero_test::HandMade;
using hero_test::plain_cluster;

constexpr double kExact = 1e-12;  // sums of a few doubles

TEST_CASE("replay: a collective takes its bytes on the port, and a latency for each other rank") {
  Cluster cluster = plain_cluster();
  cluster.inside.latency = 0.5;
  cluster.outside.latency = 2.0;
  const auto seconds = [&](int ranks) {
    HandMade made(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      made.wait(rank, made.begin(rank, Collective::all_gather, 300));
    }
    return replay(made.recording, cluster).seconds;
  };
  CHECK(seconds(4) == Approx(3 * 0.5 + 300 / 100.0).epsilon(kExact));  // one host
  CHECK(seconds(8) == Approx(7 * 2.0 + 300 / 10.0).epsilon(kExact));   // two
}

TEST_CASE("replay: a call begins when its last rank has come") {
  HandMade made(2);
  made.compute(0, 1.0);
  made.compute(1, 4.0);
  for (const int rank : {0, 1}) made.wait(rank, made.begin(rank, Collective::all_reduce, 100));
  const Simulation step = replay(made.recording, plain_cluster());
  CHECK(step.seconds == Approx(5.0).epsilon(kExact));
  CHECK(step.ranks[0].collectives == Approx(4.0).epsilon(kExact));
  CHECK(step.ranks[1].collectives == Approx(1.0).epsilon(kExact));
  CHECK(step.exposed == Approx(5.0 / 10.0).epsilon(kExact));
  CHECK(step.mfu == Approx(5.0 / 10.0).epsilon(kExact));
  CHECK(step.hfu == Approx(5.0 / 10.0).epsilon(kExact));
}

TEST_CASE("replay: what is computed again counts for the hardware's utilisation alone") {
  HandMade made(2);
  made.compute(0, 4.0, 1.0);
  made.compute(1, 2.0, 0.5);
  for (const int rank : {0, 1}) made.wait(rank, made.begin(rank, Collective::all_reduce, 100));
  const Simulation step = replay(made.recording, plain_cluster());
  CHECK(step.seconds == Approx(5.0).epsilon(kExact));
  CHECK(step.mfu == Approx((3.0 + 1.5) / 10.0).epsilon(kExact));
  CHECK(step.hfu == Approx((4.0 + 2.0) / 10.0).epsilon(kExact));
  CHECK(step.ranks[0].peak_recompute == Approx(1.0).epsilon(kExact));
  CHECK_THAT(step.table(), Catch::Matchers::ContainsSubstring("45.0 %") &&
                               Catch::Matchers::ContainsSubstring("60.0 %"));
}

TEST_CASE("replay: communication that computing hides costs nothing") {
  for (const double computing : {0.5, 3.0, 8.0}) {
    HandMade made(2);
    for (const int rank : {0, 1}) {
      const int64_t call = made.begin(rank, Collective::reduce_scatter, 300);
      made.compute(rank, computing);
      made.wait(rank, call);
    }
    const Simulation step = replay(made.recording, plain_cluster());
    CHECK(step.seconds == Approx(std::max(computing, 3.0)).epsilon(kExact));
    CHECK(step.ranks[0].collectives == Approx(std::max(0.0, 3.0 - computing)).margin(kExact));
  }
}

TEST_CASE("replay: a rank that slept is woken, which delays what it calls next and no other") {
  Cluster cluster = plain_cluster();
  cluster.wake_seconds = 0.5;
  HandMade made(2);
  for (const int rank : {0, 1}) {
    for (int i = 0; i < 3; ++i) made.wait(rank, made.begin(rank, Collective::all_gather, 100));
  }
  const Simulation chained = replay(made.recording, cluster);
  CHECK(chained.seconds == Approx(3 * 1.5).epsilon(kExact));
  CHECK(chained.exposed == Approx(1.0).epsilon(kExact));
  HandMade ahead(2);  // the port is never idle
  for (const int rank : {0, 1}) {
    std::vector<int64_t> calls(3);
    for (int64_t& call : calls) call = ahead.begin(rank, Collective::all_gather, 100);
    for (const int64_t call : calls) ahead.wait(rank, call);
  }
  CHECK(replay(ahead.recording, cluster).seconds == Approx(3.5).epsilon(kExact));
  HandMade soon(2);  // who waits for less than that does not sleep
  for (const int rank : {0, 1}) {
    const int64_t call = soon.begin(rank, Collective::all_gather, 100);
    soon.compute(rank, rank == 0 ? 0.9 : 2.0);
    soon.wait(rank, call);
  }
  const Simulation step = replay(soon.recording, cluster);
  CHECK(step.ranks[0].collectives == Approx(0.2).epsilon(1e-9));
  CHECK(step.ranks[1].collectives == 0.0);
}

TEST_CASE("replay: calls of one port go one after the other, of two ports together") {
  const auto seconds = [](bool two_ports) {
    HandMade made(8);
    const int pairs[2] = {made.group({0, 1}),
                          made.group(two_ports ? std::vector{0, 4} : std::vector{0, 1})};
    const int other = two_ports ? 4 : 1;
    const int64_t first = made.begin(0, Collective::all_reduce, 200, pairs[0]);
    const int64_t second = made.begin(0, Collective::all_reduce, 20, pairs[1]);
    made.wait(0, first);
    made.wait(0, second);
    made.wait(1, made.begin(1, Collective::all_reduce, 200, pairs[0]));
    made.wait(other, made.begin(other, Collective::all_reduce, 20, pairs[1]));
    return replay(made.recording, plain_cluster()).seconds;
  };
  CHECK(seconds(true) == Approx(2.0).epsilon(kExact));   // 2 s inside, 2 s outside
  CHECK(seconds(false) == Approx(2.2).epsilon(kExact));  // 2 s, then 0.2 s
}

// The step of rank 0, and its seconds, of one call of 800 elements by eight ranks on two hosts. Of
// a mesh's axis "data", every second of them takes part.
ReplayRank step_of_call(Collective op, DType dtype, const Cluster& cluster,
                        const std::string& axis = "world") {
  const Recording recording = record_ranks(
      8,
      [&](Communicator& world) {
        const Mesh mesh(world, {{"data", 4}, {"tensor", 2}});
        const Communicator& group = axis == "world" ? world : mesh[axis];
        begin_simulated_step();
        const Array x = Array::empty({800}, dtype, kMeta);
        if (op == Collective::all_reduce) group.all_reduce(x);
        if (op == Collective::reduce) group.reduce(x, 0);
        if (op == Collective::reduce_scatter) {
          group.reduce_scatter(Array::empty({800 / group.size()}, dtype, kMeta), x);
        }
      },
      cluster);
  const Simulation step = replay(recording, cluster);
  CHECK(step.ranks[0].collectives == step.seconds);
  CHECK(recording.ranks[0].traffic.bytes() ==
        step.ranks[0].sent_inside + step.ranks[0].sent_outside);
  return step.ranks[0];
}

TEST_CASE("replay: a reduction over hosts takes both ports at once, and the latencies of both") {
  Cluster cluster = plain_cluster();
  cluster.inside.latency = 0.5;
  cluster.outside.latency = 2.0;
  // Three other ranks on the host, and one other host: a rank adds up 200 elements of its host for
  // itself and the rank that has its index on the other host, of which 100 are its own.
  const double latencies = 3 * 0.5 + 1 * 2.0;
  const auto expect_step = [&](Collective op, DType dtype, int64_t inside, int64_t outside) {
    CAPTURE(name(op), dtype);
    const ReplayRank rank = step_of_call(op, dtype, cluster);
    CHECK(rank.sent_inside == inside);
    CHECK(rank.sent_outside == outside);
    const double bytes = std::max(static_cast<double>(inside) / cluster.inside.bytes_per_second,
                                  static_cast<double>(outside) / cluster.outside.bytes_per_second);
    CHECK(rank.collectives == Approx(bytes + latencies).epsilon(kExact));
  };
  expect_step(Collective::reduce_scatter, kFloat32, 4 * (800 - 200), 4 * 100);
  expect_step(Collective::reduce_scatter, kBFloat16, 2 * (800 - 200), 4 * 100);
  expect_step(Collective::all_reduce, kFloat32, 4 * (600 + 3 * 200), 4 * 100 + 4 * 100);
  expect_step(Collective::all_reduce, kBFloat16, 2 * (600 + 3 * 200), 4 * 100 + 2 * 100);
  // All but the root's elements leave the others: rank 4 sends what its host has added up.
  const ReplayRank root = step_of_call(Collective::reduce, kFloat32, cluster);
  CHECK(root.sent_inside == 0);
  CHECK(root.sent_outside == 0);
  CHECK(root.collectives == Approx(4 * 800 / 10.0 + latencies).epsilon(kExact));
  // The times of two of these, without a formula: outside 60 s and 24 s inside, or 40 s and 12 s.
  CHECK(step_of_call(Collective::all_reduce, kBFloat16, cluster).collectives ==
        Approx(63.5).epsilon(kExact));
  CHECK(step_of_call(Collective::reduce_scatter, kBFloat16, cluster).collectives ==
        Approx(43.5).epsilon(kExact));
  cluster.inside.bytes_per_second = 10.0;  // now the 2400 bytes within the host take longer
  CHECK(step_of_call(Collective::all_reduce, kBFloat16, cluster).collectives ==
        Approx(243.5).epsilon(kExact));
}

TEST_CASE("replay: a strided group reduces in two levels where two of its ranks share a host") {
  Cluster cluster = plain_cluster();
  cluster.inside.latency = 0.5;
  cluster.outside.latency = 2.0;
  // ranks 0, 2 | 4, 6: a rank adds up 400 elements of its host, of which 200 are its own
  const ReplayRank data = step_of_call(Collective::all_reduce, kFloat32, cluster, "data");
  CHECK(data.sent_inside == 4 * (400 + 400));
  CHECK(data.sent_outside == 4 * (200 + 200));
  CHECK(data.collectives == Approx(160.0 + 0.5 + 2.0).epsilon(kExact));
  const ReplayRank tensor = step_of_call(Collective::all_reduce, kFloat32, cluster, "tensor");
  CHECK(tensor.sent_inside == 4 * (400 + 400));
  CHECK(tensor.sent_outside == 0);
  CHECK(tensor.collectives == Approx(32.0 + 0.5).epsilon(kExact));
  cluster.per_host = 2;  // one rank of the group on each host
  const ReplayRank apart = step_of_call(Collective::all_reduce, kFloat32, cluster, "data");
  CHECK(apart.sent_inside == 0);
  CHECK(apart.sent_outside == 4 * (600 + 3 * 200));
  CHECK(apart.collectives == Approx(480.0 + 3 * 2.0).epsilon(kExact));
}

TEST_CASE("replay: the two parts of a reduction in two levels queue at their own ports") {
  HandMade made(8);
  for (int rank = 0; rank < 8; ++rank) {
    const int64_t gathered = made.begin(rank, Collective::all_gather, 300);  // 30 s outside
    const int64_t reduced = made.begin_in_levels(rank, Collective::all_reduce, 1000, 50);
    const int64_t scattered = made.begin_in_levels(rank, Collective::reduce_scatter, 3000, 20);
    made.wait(rank, gathered);
    made.wait(rank, reduced);
    made.wait(rank, scattered);
  }
  const Simulation step = replay(made.recording, plain_cluster(), true);
  CHECK(step.ranks[0].sent_inside == 4000);
  CHECK(step.ranks[0].sent_outside == 370);
  std::vector<ReplaySpan> sent;
  for (const ReplaySpan& span : step.ranks[0].spans) {
    if (span.track != ReplaySpan::Track::wait) sent.push_back(span);
  }
  using Track = ReplaySpan::Track;
  const auto expect_span = [&](size_t i, Track track, Collective op, double begin, double end) {
    CAPTURE(i);
    CHECK(sent[i].track == track);
    CHECK(sent[i].op == op);
    CHECK(sent[i].begin == Approx(begin).margin(kExact));
    CHECK(sent[i].end == Approx(end).epsilon(kExact));
  };
  REQUIRE(sent.size() == 5);
  expect_span(0, Track::outside, Collective::all_gather, 0.0, 30.0);
  expect_span(1, Track::inside, Collective::all_reduce, 0.0, 10.0);
  expect_span(2, Track::outside, Collective::all_reduce, 30.0, 35.0);
  expect_span(3, Track::inside, Collective::reduce_scatter, 10.0, 40.0);
  expect_span(4, Track::outside, Collective::reduce_scatter, 35.0, 37.0);
  CHECK(sent[1].bytes == 1000);
  CHECK(sent[2].bytes == 50);
  CHECK(step.seconds == Approx(40.0).epsilon(kExact));
}

TEST_CASE("replay: ranks recorded for other hosts are refused, since they made other calls") {
  Cluster cluster = plain_cluster();
  const auto program = [](Communicator& world) {
    begin_simulated_step();
    world.all_reduce(Array::empty({800}, kFloat32, kMeta));
  };
  const Recording recording = record_ranks(8, program, cluster);
  CHECK_NOTHROW(replay(recording, cluster));
  for (const int per_host : {2, 8}) {
    cluster.per_host = per_host;
    CHECK_THROWS_WITH(replay(recording, cluster),
                      Catch::Matchers::Equals(
                          "replay: recorded for 4 ranks per host, but the cluster has " +
                          std::to_string(per_host) + "; record the program for this cluster"));
  }
  cluster.per_host = 0;
  CHECK_THROWS_WITH(
      record_ranks(8, program, cluster),
      Catch::Matchers::Equals("simulate: 0 ranks per host; a cluster has at least one"));
}

TEST_CASE("replay: a call after another begins to move when that is complete") {
  HandMade made(2);
  for (const int rank : {0, 1}) {
    const int64_t first = made.begin(rank, Collective::reduce_scatter, 200);
    const int64_t second = made.begin(rank, Collective::all_reduce, 100, 0, -1, first);
    made.compute(rank, 1.0);
    made.wait(rank, second);
  }
  CHECK(replay(made.recording, plain_cluster()).seconds == Approx(3.0).epsilon(kExact));
}

TEST_CASE("replay: messages of a lane meet in order, on the port between their hosts") {
  HandMade made(5);
  for (const int64_t bytes : {10, 30}) made.begin(0, Collective::send, bytes, 0, 4);
  const int64_t first = made.begin(4, Collective::recv, 0, 0, 0);
  const int64_t second = made.begin(4, Collective::recv, 0, 0, 0);
  made.wait(4, first);
  made.compute(4, 0.5);
  made.wait(4, second);
  const Simulation step = replay(made.recording, plain_cluster());
  CHECK(step.seconds == Approx(4.0).epsilon(kExact));  // 1 s and 3 s outside
  CHECK(step.ranks[4].messages == Approx(1.0 + 2.5).epsilon(kExact));
  CHECK(step.ranks[0].sent_outside == 40);
}

TEST_CASE("replay: ranks that did not run come with those of their group that did") {
  HandMade made(4);
  made.recording.ranks.resize(1);
  made.compute(0, 1.0);
  made.wait(0, made.begin(0, Collective::all_gather, 100));
  CHECK(replay(made.recording, plain_cluster()).seconds == Approx(2.0).epsilon(kExact));
}

TEST_CASE("replay: ranks that wait for each other are named, with their calls") {
  HandMade made(2);
  made.wait(0, made.begin(0, Collective::all_gather, 100));
  CHECK_THROWS_WITH(replay(made.recording, plain_cluster()),
                    Catch::Matchers::ContainsSubstring(
                        "rank 0 waits for all_gather on 'world', which 1 of 2 ranks have begun"));
}

TEST_CASE("replay: calls that not all begin, and calls of two kinds, are named") {
  HandMade alone(2);
  alone.begin(1, Collective::reduce_scatter, 100);
  CHECK_THROWS_WITH(
      replay(alone.recording, plain_cluster()),
      Catch::Matchers::ContainsSubstring(
          "rank 1 has begun reduce_scatter on 'world', which 1 of 2 ranks have begun"));
  HandMade unread(2);
  unread.begin(0, Collective::send, 100, 0, 1);
  CHECK_THROWS_WITH(replay(unread.recording, plain_cluster()),
                    Catch::Matchers::ContainsSubstring("rank 0 has begun send"));
  HandMade two(2);
  two.begin(0, Collective::all_gather, 100);
  two.begin(1, Collective::all_reduce, 100);
  CHECK_THROWS_WITH(replay(two.recording, plain_cluster()),
                    Catch::Matchers::ContainsSubstring(
                        "call 1 on 'world' is all_reduce of rank 1 and all_gather of others"));
}

TEST_CASE("replay: ranks that wait in a ring of messages are all named") {
  HandMade made(3);
  for (int rank = 0; rank < 3; ++rank) {
    made.wait(rank, made.begin(rank, Collective::recv, 0, 0, (rank + 2) % 3));
    made.begin(rank, Collective::send, 10, 0, (rank + 1) % 3);
  }
  CHECK_THROWS_WITH(replay(made.recording, plain_cluster()),
                    Catch::Matchers::ContainsSubstring("rank 0 waits for recv") &&
                        Catch::Matchers::ContainsSubstring("rank 1 waits for recv") &&
                        Catch::Matchers::ContainsSubstring("rank 2 waits for recv"));
}

TEST_CASE("replay: waits are added up by unit, the longest first") {
  HandMade made(2);
  made.recording.labels = {"small", "large", "hidden"};
  for (const int rank : {0, 1}) {
    for (const int label : {0, 1, 0, 2}) {
      const int64_t call = made.begin(rank, Collective::all_gather, label == 0 ? 100 : 300);
      made.recording.ranks[static_cast<size_t>(rank)].events.back().label = label;
      if (label == 2) made.compute(rank, 4.0);
      made.wait(rank, call);
    }
  }
  const Simulation step = replay(made.recording, plain_cluster());
  REQUIRE(step.waits.size() == 2);  // nobody waited for the last one
  CHECK(step.waits[0].label == 1);
  CHECK(step.waits[0].op == Collective::all_gather);
  CHECK(step.waits[0].waits == 2);
  CHECK(step.waits[0].seconds == Approx(3.0).epsilon(kExact));
  CHECK(step.waits[1].label == 0);
  CHECK(step.waits[1].waits == 4);
  CHECK(step.waits[1].seconds == Approx(2.0).epsilon(kExact));
  const std::string table = step.table();
  CHECK(table.find("all_gather large") < table.find("all_gather small"));
  CHECK(table.find("hidden") == std::string::npos);
}

TEST_CASE("replay: the order in which ranks are listed does not matter") {
  HandMade made(3);
  for (int rank = 0; rank < 3; ++rank) {
    const int64_t call = made.begin(rank, Collective::all_gather, 70 + rank);
    made.compute(rank, 0.3 * rank);
    made.wait(rank, call);
    made.wait(rank, made.begin(rank, Collective::all_reduce, 10));
  }
  const double seconds = replay(made.recording, plain_cluster()).seconds;
  std::reverse(made.recording.ranks.begin(), made.recording.ranks.end());
  CHECK(replay(made.recording, plain_cluster()).seconds == seconds);
}

TEST_CASE("replay: of calls that meet at one time the lowest rank's comes first, however listed") {
  HandMade made(3);
  const int pairs[2] = {made.group({0, 1}), made.group({0, 2})};
  made.begin(0, Collective::send, 100, pairs[0], 1);
  made.begin(0, Collective::send, 300, pairs[1], 1);
  for (const int rank : {1, 2}) {
    made.compute(rank, 1.0);
    made.wait(rank, made.begin(rank, Collective::recv, 0, pairs[rank - 1], 0));
    made.compute(rank, rank == 1 ? 10.0 : 1.0);
  }
  for (int order = 0; order < 2; ++order) {
    CHECK(replay(made.recording, plain_cluster()).seconds == Approx(12.0).epsilon(kExact));
    std::reverse(made.recording.ranks.begin(), made.recording.ranks.end());
  }
}

// A step of a schedule whose passes all take one time, over links that cost nothing.
Simulation play_schedule(const Schedule& schedule, int p, int m, double F, double B, double W) {
  std::vector<std::vector<Action>> actions;
  for (int rank = 0; rank < p; ++rank) actions.push_back(schedule.actions(rank, p, m));
  const MessagePlan plan(actions, schedule.chunks());
  HandMade made(p);
  for (int rank = 0; rank < p; ++rank) {
    const auto receives = plan.receives(rank);
    std::vector<std::pair<Action, int64_t>> begun;
    for (size_t i = 0; i < plan.actions(rank).size(); ++i) {
      const Action& action = plan.actions(rank)[i];
      for (const Message& message : receives[i]) {
        begun.push_back({message.action, made.begin(rank, Collective::recv, 0, 0, message.from)});
      }
      for (const auto& [awaited, call] : begun) {
        if (awaited == action) made.wait(rank, call);
      }
      const double whole = schedule.splits_backward() ? B : B + W;
      made.compute(rank, action.kind == Action::Kind::forward    ? F
                         : action.kind == Action::Kind::backward ? whole
                                                                 : W);
      if (!plan.has_output(rank, action)) continue;
      const Message out = plan.output(rank, action);
      if (out.to != rank) made.begin(rank, Collective::send, 0, 0, out.to);
    }
  }
  return replay(made.recording, plain_cluster());
}

TEST_CASE("replay: bubbles are those of the formulas") {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {p, 2 * p, 4 * p}) {
      const double plain = static_cast<double>(p - 1) / (m + p - 1);
      const double cut = static_cast<double>(p - 1) / (2 * m + p - 1);
      CHECK(play_schedule(Schedule::gpipe(), p, m, 1, 1, 1).bubble == Approx(plain).margin(kExact));
      CHECK(play_schedule(Schedule::one_f_one_b(), p, m, 1, 1, 1).bubble ==
            Approx(plain).margin(kExact));
      CHECK(play_schedule(Schedule::interleaved(2), p, m, 1, 1, 1).bubble ==
            Approx(cut).margin(kExact));
      const Simulation zero = play_schedule(Schedule::zero_bubble(), p, m, 3, 4, 2);
      CHECK(zero.seconds == Approx(m * 9 + (p - 1) * 5).margin(1e-9));
    }
  }
}

TEST_CASE("replay: a trace holds the spans of each track, which do not overlap") {
  HandMade made(2);
  for (const int rank : {0, 1}) {
    const int64_t call = made.begin(rank, Collective::all_gather, 300);
    const int64_t other = made.begin(rank, Collective::all_gather, 50);
    made.compute(rank, 1.0);
    made.wait(rank, call);
    made.compute(rank, 0.25);
    made.wait(rank, other);
  }
  const hero_test::TempDir folder;
  CHECK_THROWS_WITH(write_trace(replay(made.recording, plain_cluster()), folder / "t.json"),
                    Catch::Matchers::ContainsSubstring("kept no spans"));
  write_trace(replay(made.recording, plain_cluster(), true), folder / "t.json");
  const auto trace = nlohmann::json::parse(hero_test::slurp(folder / "t.json"));
  std::map<std::pair<int, int>, double> ends;
  int spans = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    double& end = ends[{event.at("pid"), event.at("tid")}];
    CHECK(event.at("ts").get<double>() >= end - 0.002);  // written to the nanosecond
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
    ++spans;
  }
  CHECK(spans == 2 * (2 + 2 + 2));  // computing, waiting, two calls on the port inside
}

TEST_CASE("replay: in a trace arrows lead from a message's span to what is computed with it") {
  HandMade made(3);
  for (const int64_t bytes : {100, 0, 50}) made.begin(0, Collective::send, bytes, 0, 1);
  made.begin(0, Collective::send, 10, 0, 2);
  for (const int64_t call : {0, 1, 2}) {
    made.begin(1, Collective::recv, 0, 0, 0);
    made.wait(1, call);
    made.compute(1, 0.25);
  }
  made.wait(2, made.begin(2, Collective::recv, 0, 0, 0));
  const Simulation step = replay(made.recording, plain_cluster(), true);
  REQUIRE(step.messages.size() == 3);  // of those with bytes
  const hero_test::TempDir folder;
  write_trace(step, folder / "t.json", 2);
  const auto trace = nlohmann::json::parse(hero_test::slurp(folder / "t.json"));
  std::vector<double> left, came;
  for (const auto& event : trace.at("traceEvents")) {
    CHECK(event.at("pid") < 2);  // the first two ranks, and arrows between them
    if (event.at("ph") == "s") left.push_back(event.at("ts"));
    if (event.at("ph") == "f") came.push_back(event.at("ts"));
  }
  CHECK(left == std::vector<double>{0.0, 1.5e6});  // the last one when its receiver has begun
  CHECK(came == std::vector<double>{1e6, 2e6});
}

}  // namespace
