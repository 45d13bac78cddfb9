// What it costs to play recorded ranks: a million events of 1024 ranks, by the size of the groups
// that their collectives have, and of pipelines whose ranks send messages.
#include <vector>

#include <benchmark/benchmark.h>

#include <hero/dist/simulation.h>

namespace {

using namespace hero::dist;
using Kind = TimelineEvent::Kind;

constexpr int kRanks = 1024;
constexpr int64_t kRounds = 250;  // of four events

TimelineEvent compute(int rank, int64_t round) {
  TimelineEvent event{.kind = Kind::compute};
  event.seconds = 1e-3 + 1e-6 * static_cast<double>((rank * 7 + round * 13) % 32);
  return event;
}

TimelineEvent begin(Collective op, int group, int peer, int64_t call) {
  TimelineEvent event{.kind = Kind::begin, .op = op};
  event.group = group;
  event.peer = peer;
  event.label = 0;
  event.call = call;
  event.bytes = op == Collective::recv ? 0 : 100'000'000;
  return event;
}

// Groups of neighbours.
Recording empty(int group_size) {
  Recording recording;
  recording.world_size = kRanks;
  recording.per_host = Cluster().per_host;
  recording.labels = {"unit"};
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank % group_size == 0) recording.groups.push_back({"data", {}});
    recording.groups.back().ranks.push_back(rank);
    recording.ranks.emplace_back().rank = rank;
  }
  return recording;
}

void play(benchmark::State& state, const Recording& recording) {
  const bool spans = state.range(1) != 0;
  int64_t events = 0;
  for (const RankTimeline& rank : recording.ranks) {
    events += static_cast<int64_t>(rank.events.size());
  }
  for (auto _ : state) benchmark::DoNotOptimize(replay(recording, Cluster(), spans).seconds);
  state.counters["events"] = static_cast<double>(events);
}

// Gathered one round ahead.
void collectives(benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  Recording recording = empty(size);
  for (RankTimeline& rank : recording.ranks) {
    for (int64_t round = 0; round < kRounds; ++round) {
      rank.events.push_back(begin(Collective::all_gather, rank.rank / size, -1, round));
      rank.events.push_back(compute(rank.rank, round));
      rank.events.push_back({.kind = Kind::wait, .call = round});
      rank.events.push_back(compute(rank.rank, round + 1));
    }
  }
  play(state, recording);
}

// Each rank receives from the one before it in its group, computes and sends to the next.
void messages(benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  Recording recording = empty(size);
  for (RankTimeline& rank : recording.ranks) {
    const int me = rank.rank % size, group = rank.rank / size;
    int64_t call = 0;
    for (int64_t round = 0; round < kRounds; ++round) {
      if (me > 0) {
        rank.events.push_back(begin(Collective::recv, group, me - 1, call));
        rank.events.push_back({.kind = Kind::wait, .call = call++});
      }
      rank.events.push_back(compute(rank.rank, round));
      if (me < size - 1) rank.events.push_back(begin(Collective::send, group, me + 1, call++));
    }
  }
  play(state, recording);
}

}  // namespace

BENCHMARK(collectives)
    ->ArgNames({"group", "spans"})
    ->ArgsProduct({{8, 64, 1024}, {0, 1}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(messages)
    ->ArgNames({"group", "spans"})
    ->ArgsProduct({{16}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

BENCHMARK_MAIN();
