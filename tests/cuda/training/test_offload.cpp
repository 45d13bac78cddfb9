// Shards whose offload target is the host's memory while their units compute on a GPU.
#include <filesystem>

#include "cuda/nccl/nccl_ranks.h"
#include "dist/data_parallel/strategies.h"
#include "dist/parallel/pipelines.h"
#include "dist/parallel/stack.h"

#include <hero/core/ledger.h>
#include <hero/core/swap_file.h>
#include <hero/dist/mesh.h>

using namespace hero;
using namespace hero::test;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr ShardingStrategy kOffloaded[] = {ShardingStrategy::zero1,     ShardingStrategy::zero2,
                                           ShardingStrategy::zero3,     ShardingStrategy::fsdp,
                                           ShardingStrategy::fsdp_kept, ShardingStrategy::hybrid};

// Three steps of every strategy with a offload target on the host or in a file, and of the same
// strategy without.
void check_offloaded(Climb c, const dist::RunOptions& options = {},
                     core::SwapFile* disk = nullptr) {
  c.steps = 3;
  c.device = kGpu;
  for (const ShardingStrategy strategy : kOffloaded) {
    if (strategy == ShardingStrategy::hybrid && c.ranks % 2 != 0) continue;
    CAPTURE(name(strategy), c.ranks, c.dtype);
    c.strategy = strategy;
    Whole without, with;
    c.offload = {};
    dist::run_ranks(
        c.ranks, [&](dist::Communicator& world) { train(c, without, &world); }, options);
    c.offload.optimizer = true;
    c.offload.disk = disk;
    dist::run_ranks(
        c.ranks, [&](dist::Communicator& world) { train(c, with, &world); }, options);
    REQUIRE(without.size() >= 4);
    CHECK(without.difference(with) == "");
  }
}

Climb of(Subject subject, Method method, int ranks, double clip = 0.0) {
  return {.subject = subject, .method = method, .ranks = ranks, .clip = clip};
}

Climb of_halves(Subject subject, int ranks) {
  Climb c = of(subject, Method::adamw, ranks);
  c.dtype = kBFloat16;
  c.masters = true;
  return c;
}

#if defined(HERO_TEST_CUSIM)
using LateDevices = Deferred;
#else
struct [[maybe_unused]] LateDevices {};
#endif

}  // namespace

TEST_CASE("offloaded strategies end with the bits of those that are not: MLP, GPT, AdamW") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2, 4}) check_offloaded(of(Subject::mlp, Method::adamw, ranks));
  check_offloaded(of(Subject::gpt_loss, Method::adamw, 2));
}

TEST_CASE("offloaded strategies end with the bits of those that are not: SGD, LAMB with clipping") {
  HERO_NEEDS_GPU();
  check_offloaded(of(Subject::odd, Method::sgd, 3, 0.5));
  check_offloaded(of(Subject::odd, Method::lamb, 2, 0.5));
  check_offloaded(of(Subject::mlp, Method::lamb, 4, 0.5));
}

TEST_CASE("offloaded strategies end with the bits of those that are not: bfloat16 with masters") {
  HERO_NEEDS_GPU();
  for (const int ranks : {1, 2, 4}) {
    check_offloaded(of_halves(Subject::mlp, ranks));
  }
  check_offloaded(of_halves(Subject::gpt_untied, 2));
}

TEST_CASE("offloaded strategies wait for all copies that they need") {
  HERO_NEEDS_GPU();
  const LateDevices devices;
  for (const int ranks : {1, 2, 4}) {
    check_offloaded(of(Subject::mlp, Method::adamw, ranks, 0.5));
    check_offloaded(of(Subject::gpt_untied, Method::sgd, ranks));
    check_offloaded(of_halves(Subject::gpt, ranks));
  }
}

TEST_CASE(
    "strategies that compute on a GPU and lie on disk end with the bits of those that do not") {
  HERO_NEEDS_GPU();
  core::SwapFile disk(std::filesystem::temp_directory_path().string(), {.bytes = int64_t{1} << 20});
  for (const int ranks : {1, 2, 4}) {
    check_offloaded(of(Subject::mlp, Method::adamw, ranks, 0.5), {}, &disk);
    check_offloaded(of_halves(Subject::gpt_loss, ranks), {}, &disk);
  }
  CHECK(disk.used() == 0);
}

// Stages beside ZeRO, whose leaves have their offload target on the host; what other stages have is
// empty.
TEST_CASE("offloaded stages end with the bits and the norms of those that are not") {
  HERO_NEEDS_GPU();
  const auto run = [](int stage, bool offloaded, Whole& whole, std::vector<double>& numbers) {
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      PipeModel model = make_pipe_model(PipeSubject::layers);
      dist::Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                          {.micro_batches = 4, .device = kGpu});
      if (stage == 3) {
        dist::fully_shard(model.module(), mesh["data"],
                          {.unit = dist::each<nn::Linear>(), .offload = {.parameters = offloaded}});
      } else {
        dist::ZeRO(model.module(), mesh["data"],
                   {.stage = stage, .offload = {.optimizer = offloaded}});
      }
      const auto optimizer = make_method(Method::adamw, pipe.parameters());
      std::vector<double> found;
      for (int step = 0; step < 2; ++step) {
        const auto [x, y] = pipe_batch(PipeSubject::layers, step, mesh.coordinate("data"), kGpu);
        pipe.step(x, y);
        finish_pipe_step(pipe.parameters(), *optimizer, found);
      }
      add_state(whole, model.module(), *optimizer);
      if (world.rank() == 0) numbers = found;
      world.barrier();
      expect(found == numbers, "norms of the whole model");
    });
  };
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    Whole without, with;
    std::vector<double> norms, same_norms;
    run(stage, false, without, norms);
    run(stage, true, with, same_norms);
    CHECK(norms == same_norms);
    CHECK(without.size() > 4);
    CHECK(without.difference(with) == "");
  }
}

TEST_CASE("nccl: offloaded strategies end with the bits of those that are not") {
  HERO_NEEDS_NCCL();
  for (const int ranks : nccl_worlds()) {
    check_offloaded(of(Subject::mlp, Method::adamw, ranks, 0.5), kNccl);
    check_offloaded(of_halves(Subject::gpt_untied, ranks), kNccl);
  }
}

namespace {

constexpr int kLayers = 4;
constexpr int64_t kWidth = 16, kPsi = kLayers * kWidth * kWidth;  // 2 and 4 ranks divide it

struct Moved {
  int64_t up, down;
};

Moved moved(const dist::Traffic& traffic) {
  return {traffic.moved(dist::Transfer::to_device), traffic.moved(dist::Transfer::to_host)};
}

// A second step's copies, and what lies where after it.
void check_step(int ranks, const std::function<void(Stack&, const dist::Communicator&)>& shard,
                const Moved& expected, int64_t on_device, DType input = kFloat32) {
  dist::run_ranks(ranks, [&](dist::Communicator& world) {
    Stack model(kLayers, kWidth);
    model.to(kGpu);
    shard(model, world);
    optim::AdamW adamw(model.parameters());
    const Tensor x(Array::full({3, kWidth}, 0.5, input, kGpu));
    const auto step = [&] {
      adamw.zero_grad();
      sum(model(x)).backward();
      adamw.step();
    };
    step();
    const Moved before = moved(world.traffic());
    step();
    const Ledger& ledger = current_ledger();
    const Moved after = moved(world.traffic());
    const int64_t own = kPsi / ranks;
    expect(after.up - before.up == expected.up, "up ", after.up - before.up, " of ", expected.up);
    expect(after.down - before.down == expected.down, "down ", after.down - before.down, " of ",
           expected.down);
    const auto here = [&](MemoryTag tag) { return ledger.live(tag, DeviceType::cpu); };
    const auto there = [&](MemoryTag tag) { return ledger.live(tag, DeviceType::cuda); };
    expect(here(MemoryTag::parameter) == 4 * own, "parameters ", here(MemoryTag::parameter));
    expect(here(MemoryTag::gradient) == 4 * own, "gradients ", here(MemoryTag::gradient));
    expect(here(MemoryTag::optimizer) == 8 * own, "states ", here(MemoryTag::optimizer));
    expect(there(MemoryTag::parameter) == on_device, "on the device ", there(MemoryTag::parameter));
    expect(there(MemoryTag::gradient) == 0, "gradients there ", there(MemoryTag::gradient));
    expect(there(MemoryTag::optimizer) == 0, "states there ", there(MemoryTag::optimizer));
    expect(there(MemoryTag::communication) == 0, "gathered ", there(MemoryTag::communication));
  });
}

}  // namespace

TEST_CASE("offload moves and keeps the bytes of its formulas") {
  HERO_NEEDS_GPU();
  const auto linear = dist::each<nn::Linear>();
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const int64_t own = 4 * kPsi / ranks;
    for (const int stage : {1, 2}) {
      const auto shard = [&](Stack& model, const dist::Communicator& world) {
        dist::ZeRO(model, world, {.stage = stage, .offload = {.optimizer = true}});
      };
      check_step(ranks, shard, {.up = own, .down = own}, 4 * kPsi);
    }
    const auto sharded = [](const dist::FSDPOptions& options) {
      return [&options](Stack& model, const dist::Communicator& world) {
        dist::fully_shard(model, world, options);
      };
    };
    const dist::FSDPOptions freed = {.unit = linear, .offload = {.parameters = true}};
    check_step(ranks, sharded(freed), {.up = 2 * own, .down = own}, 0);
    const dist::FSDPOptions kept = {
        .unit = linear, .reshard_after_forward = false, .offload = {.parameters = true}};
    check_step(ranks, sharded(kept), {.up = own, .down = own}, 0);
    // gathered and reduced in 16 bits: half of it each way
    const dist::FSDPOptions halves = {
        .unit = linear,
        .mixed_precision = {.parameters = kBFloat16, .reduce = kBFloat16},
        .offload = {.parameters = true}};
    check_step(ranks, sharded(halves), {.up = own, .down = own / 2}, 0);
  }
}

TEST_CASE("offloaded parameters are summoned, written, converted and read whole") {
  HERO_NEEDS_GPU();
  dist::run_ranks(2, [&](dist::Communicator& world) {
    manual_seed(3);
    Stack model(2, 6), plain(2, 6);
    for (size_t i = 0; i < 2; ++i) {
      const NoGrad no_grad;
      plain.layer[i]->weight.copy_(model.layer[i]->weight);
    }
    model.to(kGpu);
    const dist::DataParallel parallel = dist::fully_shard(
        model, world, {.unit = dist::each<nn::Linear>(), .offload = {.parameters = true}});
    expect(same_state(parallel.full_state_dict(), plain.state_dict()), "the values made");
    const Tensor x(Array::full({3, 6}, 0.5, kFloat32, kGpu));
    model(x);
    {
      const auto full = parallel.summon_full_parameters();
      const NoGrad no_grad;
      for (Stack* each : {&model, &plain}) each->layer[0]->weight.fill_(0.25);
    }
    expect(same_state(parallel.full_state_dict(), plain.state_dict()), "the values written");
    plain.to(kGpu);
    const Tensor y = model(x), wanted = plain(x);
    expect(y.device() == kGpu, "computed on the device");
    expect(hash(y.array().to(kCpu)) == hash(wanted.array().to(kCpu)), "computed with");
    plain.to(kCpu);
    model.to(kBFloat16);
    plain.to(kBFloat16);
    expect(same_state(parallel.full_state_dict(), plain.state_dict()), "the values converted");
    std::string error;
    try {
      model.to(kCpu);
    } catch (const Error& e) {
      error = e.what();
    }
    expect(
        error.find("are offloaded from cuda:0, where they are computed with") != std::string::npos,
        error);
  });
}

TEST_CASE(
    "gradients of several backwards add up at offload target, and those of a failed one are "
    "dropped") {
  HERO_NEEDS_GPU();
  const LateDevices devices;
  std::vector<std::string> hashes;
  std::mutex mutex;
  for (const bool offloaded : {false, true}) {
    dist::run_ranks(2, [&](dist::Communicator& world) {
      manual_seed(3);
      Stack model(3, 5);
      model.to(kGpu);
      dist::fully_shard(model, world,
                        {.unit = dist::each<nn::Linear>(), .offload = {.parameters = offloaded}});
      const Tensor x(noise({4, 5}, kFloat32, 11 + static_cast<uint64_t>(world.rank())).to(kGpu));
      sum(model(x)).backward();
      sum(model(x * 2.0)).backward();
      bool threw = false;
      Tensor h = relu(x);
      h = model(h);
      h.register_hook([](const Tensor&) -> Tensor { fail("on purpose"); });
      try {
        sum(h).backward();
      } catch (const Error&) {
        threw = true;
      }
      expect(threw, "the third backward fails");
      sum(model(x)).backward();
      std::string all;
      for (const Tensor& p : model.parameters()) {
        all += " " + std::to_string(hash(p.grad().array().to(kCpu)));
      }
      const std::lock_guard<std::mutex> lock(mutex);
      hashes.push_back(std::to_string(world.rank()) + all);
    });
  }
  std::sort(hashes.begin(), hashes.end());
  REQUIRE(hashes.size() == 4);
  CHECK(hashes[0] == hashes[1]);
  CHECK(hashes[2] == hashes[3]);
}

TEST_CASE("offload that a strategy does not have is refused") {
  SmallMLP model;
  CHECK_THROWS_WITH(dist::run_ranks(1,
                                    [&](dist::Communicator& world) {
                                      dist::ZeRO(model, world,
                                                 {.stage = 2, .offload = {.parameters = true}});
                                    }),
                    ContainsSubstring("zero: stage 2 keeps whole parameters on the device"));
}
