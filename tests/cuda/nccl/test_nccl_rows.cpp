// What strategies ask of NCCL: its own gathers and reductions, one call a unit or bucket, for any
// sizes and any number of ranks, since parts are equal.
#include "cuda/gpu.h"

#ifdef HERO_TEST_CUSIM
#include <algorithm>
#include <string>
#include <vector>

#include "cuda/nccl/nccl_ranks.h"
#include "dist/data_parallel/strategies.h"

using namespace hero;
using namespace hero::test;
using namespace hero_test;

namespace {

/// What the ranks asked of NCCL; a call of all ranks counts once.
struct NcclCalls {
  int64_t gathers = 0, scatters = 0, sums = 0, reduces = 0, messages = 0, broadcasts = 0;
};

NcclCalls calls_in(const std::vector<std::string>& log) {
  const auto count = [&](const char* kind) {
    return std::count_if(log.begin(), log.end(), [&](const std::string& line) {
      return line.rfind(std::string(kind) + " of ", 0) == 0;
    });
  };
  return {count("all_gather"), count("reduce_scatter"), count("all_reduce"),
          count("reduce"),     count("message"),        count("broadcast")};
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
  int stage;  // 0: DDP; 1 to 3: ZeRO; 4: FSDP by layer; 5: the same in two replicas
  DType dtype = kFloat32;
  dist::Order order = dist::Order::native;
  bool halves = false;      // FSDP: gathered and reduced in bfloat16
  const char* frozen = "";  // FSDP in one unit: this parameter gets no gradient
};

dist::DataParallel put_rows(const RowsRun& run, nn::Module& model, const Communicator& world) {
  if (run.stage == 0) return dist::DDP(model, world, {.order = run.order});
  if (run.stage < 4) return dist::ZeRO(model, world, {.stage = run.stage, .order = run.order});
  dist::FSDPOptions options{.unit = dist::each<nn::Linear>(), .order = run.order};
  if (*run.frozen != 0) options.unit = {};
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
        for (auto& [name, p] : model.named_parameters()) p.requires_grad_(name != run.frozen);
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
            const bool uneven = unit.numel % run.ranks != 0;
            expect(uneven, "a size that the ranks do not divide: ", unit.numel);
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

TEST_CASE("nccl: a bucket's sums in a tree are gathered by its own collective", "[nccl_rows]") {
  const NcclDevices devices;
  for (const int ranks : {2, 3, 4}) {
    for (const DType dtype : {kFloat32, kBFloat16}) {
      CAPTURE(ranks, dtype);
      const RowsResult got =
          run_rows({.ranks = ranks, .stage = 0, .dtype = dtype, .order = dist::Order::tree});
      CHECK(got.units == 1);
      CHECK(got.calls.gathers == 2);
      CHECK(got.calls.broadcasts == 2);  // of what is left where ranks do not divide the bucket
      CHECK(got.calls.messages == 2 * ranks * (ranks - 1));
      CHECK(got.calls.sums + got.calls.scatters + got.calls.reduces == 0);
    }
  }
  const NcclCalls native = run_rows({.ranks = 3, .stage = 0}).calls;
  CHECK(native.sums == 2);
  CHECK(native.gathers + native.broadcasts + native.messages == 0);
}

TEST_CASE("nccl: a unit that lacks few gradients is reduced by its own collective", "[nccl_rows]") {
  const NcclDevices devices;
  RowsRun run{.ranks = 2, .stage = 4, .frozen = "fc3.weight"};  // 55 of 289
  const RowsResult few = run_rows(run);
  CHECK(few.units == 1);
  CHECK(few.calls.scatters == 2);
  CHECK(few.calls.reduces == 0);
  run.order = dist::Order::tree;
  CHECK(run_rows(run).hashes == few.hashes);
  run = {.ranks = 2, .stage = 4, .frozen = "fc2.weight"};  // 143 of 289
  const RowsResult many = run_rows(run);
  CHECK(many.calls.scatters == 0);
  CHECK(many.calls.reduces == 2 * 2);
  run.order = dist::Order::tree;
  CHECK(run_rows(run).hashes == many.hashes);
  CHECK(many.hashes != few.hashes);
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

TEST_CASE("nccl: what has one result in any order is one call of NCCL's") {
  const NcclDevices devices;
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat32}) {
    CAPTURE(dtype);
    cusim::take_nccl_log();
    run_ranks(
        3,
        [&](Communicator& world) {
          const Array x = Array::full({7}, 1.0, dtype, world.device());
          world.all_reduce(x, {.op = ReduceOp::max});
          world.all_reduce(x, {.order = dist::Order::ranks});
          expect(same_values(x, Array::full({7}, dtype == kBool ? 1.0 : 3.0, dtype)), "the sum");
        },
        kNccl);
    const NcclCalls calls = calls_in(cusim::take_nccl_log());
    CHECK(calls.sums == (dtype == kFloat32 ? 0 : 2));
    CHECK((calls.messages > 0) == (dtype == kFloat32));
  }
}

#endif
