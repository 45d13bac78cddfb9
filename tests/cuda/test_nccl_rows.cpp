// What units ask of NCCL: its own gathers and reductions, one call a unit, for any sizes and any
// number of ranks, since the parts of a row are equal.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <algorithm>
#include <string>
#include <vector>

#include "cuda/nccl_ranks.h"
#include "dist/ladder.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;

namespace {

/// What the ranks asked of NCCL; a call of all ranks counts once.
struct NcclCalls {
  int64_t gathers = 0, scatters = 0, sums = 0, reduces = 0, messages = 0;
};

NcclCalls calls_in(const std::vector<std::string>& log) {
  const auto count = [&](const char* kind) {
    return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
      return line.rfind(std::string(kind) + " of ", 0) == 0;
    });
  };
  return {count("all_gather"), count("reduce_scatter"), count("all_reduce"), count("reduce"),
          count("message")};
}

/// 91, 143 and 55 elements, 289 in all: neither 2, 3 nor 4 ranks divide any of these.
struct OddLayers : nn::Module {
  static constexpr nn::LinearOptions kBare = {.bias = false};
  nn::Linear& fc1 = add<nn::Linear>("fc1", 7, 13, kBare);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 13, 11, kBare);
  nn::Linear& fc3 = add<nn::Linear>("fc3", 11, 5, kBare);
  Tensor forward(const Tensor& x) override { return fc3(tanh(fc2(relu(fc1(x))))); }
};

/// Two steps of a module on GPUs that are ranks.
struct RowsRun {
  int ranks;
  int stage;  // 1 to 3: ZeRO; 4: FSDP by layer; 5: the same in two replicas
  DType dtype = kFloat32;
  dist::Order order = dist::Order::native;
  bool halves = false;  // FSDP: gathered and reduced in bfloat16
};

dist::DataParallel put_rows(const RowsRun& run, nn::Module& model, const Communicator& world) {
  if (run.stage < 4) return dist::ZeRO(model, world, {.stage = run.stage, .order = run.order});
  dist::FSDPOptions options{.unit = dist::each<nn::Linear>(), .order = run.order};
  if (run.halves) options.mixed_precision = {.parameters = kBFloat16, .reduce = kBFloat16};
  if (run.stage == 4) return dist::fully_shard(model, world, options);
  return dist::fully_shard(model, dist::Mesh(world, {{"replicate", 2}, {"shard", run.ranks / 2}}),
                           options);
}

struct RowsResult {
  NcclCalls calls;
  int64_t units = 0;
  std::vector<std::string> hashes;
};

RowsResult run_rows(const RowsRun& run) {
  RowsResult result;
  run_ranks(
      run.ranks,
      [&](Communicator& world) {
        manual_seed(7);
        OddLayers model;
        model.to(run.dtype);
        model.to(world.device());
        const dist::DataParallel parallel = put_rows(run, model, world);
        optim::SGD sgd(model.parameters(), {.lr = 0.1});
        const auto finished = [&] {  // what the streams have been asked for is done
          for (const Tensor& p : model.parameters()) p.array().to(kCpu);
          world.barrier();
        };
        finished();
        if (world.rank() == 0) cusim::take_nccl_log();
        world.barrier();
        for (int step = 0; step < 2; ++step) {
          subject_loss(Subject::mlp, model, step, world.rank()).backward();
          sgd.step();
          sgd.zero_grad();
        }
        finished();
        if (world.rank() == 0) {
          result.calls = calls_in(cusim::take_nccl_log());
          for (const dist::UnitInfo& unit : parallel.units()) {
            expect(unit.numel % run.ranks != 0, "a size that the ranks do not divide");
            ++result.units;
          }
        }
        world.barrier();  // nobody gathers more before that
        const nn::StateDict whole = parallel.full_state_dict();
        if (world.rank() != 0) return;
        for (const auto& entry : whole) {
          result.hashes.push_back(std::to_string(hash(entry.array.to(kCpu))));
        }
      },
      kNccl);
  return result;
}

// In two steps: stages 1 and 2 gather before the second one, stage 3 and FSDP in each forward and
// each backward.
int64_t gathers_of(const RowsRun& run, int64_t units) { return run.stage < 3 ? units : 4 * units; }

}  // namespace

TEST_CASE("nccl: units of any sizes are gathered and reduced by its own collectives",
          "[nccl_rows]") {
  const NcclDevices devices;
  for (const int ranks : {2, 3, 4}) {
    for (const int stage : {1, 2, 3, 4}) {
      for (const DType dtype : {kFloat32, kBFloat16}) {
        CAPTURE(ranks, stage, dtype);
        const RowsRun run{ranks, stage, dtype};
        const RowsResult got = run_rows(run);
        CHECK(got.units == (stage < 3 ? 1 : 3));
        CHECK(got.calls.gathers == gathers_of(run, got.units));
        CHECK(got.calls.scatters == 2 * got.units);
        CHECK(got.calls.reduces == 0);
        CHECK(got.calls.messages == 0);
      }
    }
  }
}

TEST_CASE("nccl: float32 shards travel as halves by its own collectives", "[nccl_rows]") {
  const NcclDevices devices;
  const RowsRun run{.ranks = 3, .stage = 4, .halves = true};
  const RowsResult got = run_rows(run);
  CHECK(got.calls.gathers == gathers_of(run, 3));
  CHECK(got.calls.scatters == 2 * 3);
  CHECK(got.calls.reduces + got.calls.messages == 0);
}

TEST_CASE("nccl: a hybrid's units are summed over the replicas by its own collective",
          "[nccl_rows]") {
  const NcclDevices devices;
  const RowsRun run{.ranks = 4, .stage = 5};
  const RowsResult got = run_rows(run);
  CHECK(got.calls.gathers == 2 * gathers_of(run, 3));  // in each of two groups
  CHECK(got.calls.scatters == 2 * 2 * 3);
  CHECK(got.calls.sums == 2 * 2 * 3);
  CHECK(got.calls.reduces + got.calls.messages == 0);
}

TEST_CASE("nccl: sums in a tree are exchanged and what is gathered is still one call",
          "[nccl_rows]") {
  const NcclDevices devices;
  for (const int stage : {1, 3, 4}) {
    CAPTURE(stage);
    const RowsRun run{.ranks = 3, .stage = stage, .order = dist::Order::tree};
    const RowsResult got = run_rows(run);
    CHECK(got.calls.gathers == gathers_of(run, got.units));
    CHECK(got.calls.scatters + got.calls.reduces == 0);
    CHECK(got.calls.messages == 2 * got.units * 3 * 2);  // from each rank to each other
  }
  // of a hybrid the sum over the replicas ends with a gather of equal parts, too
  const RowsRun hybrid{.ranks = 4, .stage = 5, .order = dist::Order::tree};
  CHECK(run_rows(hybrid).calls.gathers == 2 * gathers_of(hybrid, 3) + 2 * 2 * 3);
}

TEST_CASE("nccl: of two ranks its own sums and those of a tree are one", "[nccl_rows]") {
  const NcclDevices devices;
  for (const int stage : {1, 2, 3, 4}) {
    CAPTURE(stage);
    const RowsResult native = run_rows({.ranks = 2, .stage = stage});
    const RowsResult tree = run_rows({.ranks = 2, .stage = stage, .order = dist::Order::tree});
    CHECK(native.hashes == tree.hashes);
    CHECK(native.hashes.size() == 3);
  }
}

#endif
