// What each strategy keeps and sends, against the formulas of the ZeRO paper (arXiv 1910.02054) and
// of its successors, to the byte. Where parameters are cut, psi is the elements of the units' rows,
// of which each ends at a multiple of 8 elements a rank.
#include <mutex>

#include "dist/data_parallel/strategy_bytes.h"
#include "dist/parallel/stack.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

Tensor input(int64_t width, Device device) {
  return Tensor(Array::full({3, width}, 0.5, kFloat32, device));
}

/// The rows of equal layers: under DDP and in stages 1 and 2 one bucket takes small ones.
RowOf rows_of(ShardingStrategy strategy, int64_t layers, int64_t layer, int ranks, int rank) {
  if (strategy < ShardingStrategy::zero3) return {strategy, layers * layer, ranks, rank};
  RowOf rows(strategy, layer, ranks, rank);
  for (int64_t i = 1; i < layers; ++i) rows += RowOf(strategy, layer, ranks, rank);
  return rows;
}

// float32: 4 bytes of parameter, 4 of gradient, 8 of AdamW an element, divided where they are cut.
Bytes float32_formula(ShardingStrategy strategy, const RowOf& psi) {
  const bool parameters = strategy >= ShardingStrategy::zero3,
             gradients = strategy >= ShardingStrategy::zero2;
  return {4 * (parameters ? psi.own : psi.row), 4 * (gradients ? psi.own : psi.row),
          8 * psi.stepped};
}

}  // namespace

TEST_CASE("each strategy keeps the bytes of its formula, on every rank") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const ShardingStrategy strategy :
         {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
          ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
      CAPTURE(ranks, name(strategy));
      run_ranks(ranks, [&](Communicator& world) {
        const Bytes before = live_bytes(DeviceType::cpu);
        Stack model(3, 12);
        apply_strategy(strategy, model, world);
        optim::AdamW adamw(model.parameters());
        for (int step = 0; step < 2; ++step) {
          adamw.zero_grad();
          sum(model(input(12, kCpu))).backward();
          adamw.step();
        }
        const RowOf rows = rows_of(strategy, 3, 144, ranks, world.rank());
        const Bytes expected = float32_formula(strategy, rows), got = live_bytes(DeviceType::cpu);
        expect(before == Bytes{}, "nothing is held before");
        expect(got == expected, name(strategy), " rank ", world.rank(), ": parameters ",
               got.parameters, ", gradients ", got.gradients, ", optimizer ", got.optimizer,
               "; expected ", expected.parameters, ", ", expected.gradients, ", ",
               expected.optimizer);
      });
    }
  }
}

namespace {

/// Feed-forward parts without biases: two layers of 4 width * width elements each, computed as one.
struct Parts : nn::Module {
  Parts(int64_t count, int64_t width) {
    const nn::GPTConfig config{.n_embd = width, .bias = false};
    for (int64_t i = 0; i < count; ++i) {
      part.push_back(&add<nn::FeedForward>(std::to_string(i), config));
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::FeedForward* each : part) h = (*each)(h);
    return h;
  }
  std::vector<nn::FeedForward*> part;
};

// A rank's peaks over three steps, each layer a unit; nothing gathered is left between forward,
// backward and step.
template <class Model>
void check_peaks(int64_t count, int64_t width, bool prefetch, int64_t gathered, int64_t gradients) {
  run_ranks(4, [&](Communicator& world) {
    Model model(count, width);
    fully_shard(model, world, {.unit = each<nn::Linear>(), .prefetch = prefetch});
    optim::AdamW adamw(model.parameters());
    const Ledger& ledger = current_ledger();
    for (int step = 0; step < 3; ++step) {
      adamw.zero_grad();
      const Tensor loss = sum(model(input(width, kCpu)));
      expect(ledger.live(MemoryTag::communication) == 0,
             "freed after forward: ", ledger.live(MemoryTag::communication));
      loss.backward();
      expect(ledger.live(MemoryTag::communication) == 0, "freed after backward");
      adamw.step();
    }
    expect(ledger.peak(MemoryTag::communication) == gathered,
           "gathered at the peak: ", ledger.peak(MemoryTag::communication), ", expected ",
           gathered);
    expect(ledger.peak(MemoryTag::gradient) == gradients,
           "gradients at the peak: ", ledger.peak(MemoryTag::gradient), ", expected ", gradients);
  });
}

}  // namespace

TEST_CASE("two units, one bucket and the root are gathered at most, and nothing between steps") {
  constexpr int64_t kWidth = 12, kUnit = 4 * kWidth * kWidth;
  const int64_t row = 4 * RowOf(ShardingStrategy::fsdp, kWidth * kWidth, 4, 0).row;
  CHECK(row == 4 * 160);
  for (const bool prefetch : {true, false}) {
    // one unit's whole gradients, and every shard's
    check_peaks<Stack>(6, kWidth, prefetch, (prefetch ? 3 : 2) * row, kUnit + 6 * row / 4);
  }
}

TEST_CASE("two units that are computed as one are gathered together") {
  constexpr int64_t kWidth = 12, kUnit = 4 * 4 * kWidth * kWidth;
  for (const bool prefetch : {true, false}) {
    // beside them the next one and a bucket
    check_peaks<Parts>(3, kWidth, prefetch, (prefetch ? 4 : 3) * kUnit, kUnit + 6 * kUnit / 4);
  }
}

namespace {

struct Sent {
  std::mutex mutex;
  int64_t all = 0;  // by all ranks
  int64_t rank0 = 0;
};

// Bytes of the third optimizer step, of `micro` micro-batches; the first gathers nothing in stages
// 1 and 2, the second tells the order of DDP's buckets.
void one_step(ShardingStrategy strategy, const Communicator& world, int64_t layers, int64_t width,
              int micro, bool sync_all, Device device, Sent& sent) {
  const nn::DeviceScope scope(device);
  Stack model(layers, width);
  const DataParallel parallel = apply_strategy(strategy, model, world);
  optim::SGD sgd(model.parameters(), {.lr = 0.01});
  for (int step = 0; step < 3; ++step) {
    world.traffic().reset();
    sgd.zero_grad();
    for (int m = 0; m < micro; ++m) {
      parallel.set_requires_gradient_sync(sync_all || m + 1 == micro);
      sum(model(input(width, device))).backward();
    }
    sgd.step();
  }
  const std::lock_guard<std::mutex> lock(sent.mutex);
  sent.all += world.traffic().bytes();
  if (world.rank() == 0) sent.rank0 = world.traffic().bytes();
}

struct Case {
  ShardingStrategy strategy;
  int micro;
  bool sync_all;
  int64_t gathers, reductions;  // of every row, each psi (N - 1) elements by all ranks
};

// ZeRO-3 and FSDP gather twice a micro-batch: for forward and for backward.
constexpr Case kCases[] = {
    {ShardingStrategy::ddp, 1, true, 1, 1},        {ShardingStrategy::ddp, 3, false, 1, 1},
    {ShardingStrategy::zero1, 1, true, 1, 1},      {ShardingStrategy::zero1, 3, false, 1, 1},
    {ShardingStrategy::zero2, 1, true, 1, 1},      {ShardingStrategy::zero2, 3, true, 1, 3},
    {ShardingStrategy::zero3, 1, true, 2, 1},      {ShardingStrategy::zero3, 3, true, 6, 3},
    {ShardingStrategy::fsdp, 1, true, 2, 1},       {ShardingStrategy::fsdp, 3, false, 6, 1},
    {ShardingStrategy::fsdp_kept, 1, true, 1, 1},  {ShardingStrategy::fsdp_kept, 3, true, 3, 3},
    {ShardingStrategy::fsdp_kept, 2, false, 2, 1},
};

}  // namespace

TEST_CASE(
    "each strategy sends the bytes of its formula: 2 to 8 ranks, with and without accumulation") {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (const Case& c : kCases) {
      CAPTURE(ranks, name(c.strategy), c.micro, c.sync_all);
      Sent sent;
      run_ranks(ranks, [&](Communicator& world) {
        one_step(c.strategy, world, 3, 12, c.micro, c.sync_all, kCpu, sent);
      });
      const int64_t psi = rows_of(c.strategy, 3, 144, ranks, 0).row;
      CHECK(sent.all == 4 * (c.gathers + c.reductions) * psi * (ranks - 1));
    }
  }
}

TEST_CASE("each strategy sends the bytes of its formula: 64 and 1024 simulated ranks") {
  for (const int ranks : {64, 1024}) {
    for (const Case& c : kCases) {
      CAPTURE(ranks, name(c.strategy), c.micro, c.sync_all);
      Sent sent;
      simulate_ranks(ranks,
                     [&](Communicator& world) {
                       one_step(c.strategy, world, 3, 64, c.micro, c.sync_all, kMeta, sent);
                     },
                     {0, 1, ranks - 1});
      const int64_t psi = rows_of(c.strategy, 3, 64 * 64, ranks, 0).row;
      CHECK(sent.rank0 == 4 * (c.gathers + c.reductions) * psi * (ranks - 1) / ranks);
    }
  }
}

TEST_CASE("the root's unit is gathered once a step, and what it keeps is not gathered again") {
  // FSDP: (2 psi - psi_root) gathered, psi reduced
  run_ranks(3, [](Communicator& world) {
    auto model = make_subject(Subject::gpt);
    const DataParallel parallel = fully_shard(*model, world, {.unit = each<nn::Block>()});
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    for (int step = 0; step < 2; ++step) {
      world.traffic().reset();
      subject_loss(Subject::gpt, *model, step, world.rank()).backward();
      sgd.step();
      sgd.zero_grad();
    }
    const Array bytes = Array::from(std::vector<int64_t>{world.traffic().bytes()}, {1});
    int64_t psi = 0, root = 0;
    for (const UnitInfo& unit : parallel.units()) {
      psi += unit.flat_numel;
      if (unit.name == "root") root = unit.flat_numel;
    }
    expect(parallel.units().size() == 3 && root > 0, "a root and two blocks");
    world.all_reduce(bytes);
    expect(bytes.item<int64_t>() == 4 * (2 * psi - root + psi) * 2, "sent ", bytes.item<int64_t>());
  });
}

TEST_CASE("a hybrid sends one shard's bytes between its replicas") {
  // psi / G elements to the next replica and as many back, over the axis "replicate"
  run_ranks(4, [](Communicator& world) {
    Stack model(3, 8);
    const Mesh mesh(world, {{"replicate", 2}, {"shard", 2}});
    fully_shard(model, mesh, {.unit = each<nn::Linear>()});
    world.traffic().reset();  // ranks compared their modules
    sum(model(input(8, kCpu))).backward();
    const int64_t psi = 3 * 64;
    expect(
        world.traffic().bytes_of_axis("replicate") == 2 * (4 * psi / 2) * (2 - 1) / 2,
        "2 (psi / G) (H - 1) / H between replicas: ", world.traffic().bytes_of_axis("replicate"));
    expect(world.traffic().bytes_of_axis("shard") == 4 * 3 * psi * (2 - 1) / 2,
           "3 psi (G - 1) / G inside: ", world.traffic().bytes_of_axis("shard"));
  });
}

TEST_CASE("checkpointed units are gathered once for both recomputation and backward") {
  run_ranks(2, [](Communicator& world) {
    nn::GPTConfig config = tiny_gpt();
    config.checkpoint = true;
    manual_seed(7);
    nn::GPT model(config);
    const DataParallel parallel = fully_shard(model, world, {.unit = each<nn::Block>()});
    world.traffic().reset();  // ranks compared their modules
    subject_loss(Subject::gpt, model, 0, world.rank()).backward();
    int64_t psi = 0, root = 0;
    for (const UnitInfo& unit : parallel.units()) {
      psi += unit.flat_numel;
      if (unit.name == "root") root = unit.flat_numel;
    }
    const Array bytes = Array::from(std::vector<int64_t>{world.traffic().bytes()}, {1});
    world.all_reduce(bytes);
    expect(bytes.item<int64_t>() == 4 * (3 * psi - root),
           "3 psi, not 4 psi: ", bytes.item<int64_t>());
  });
}
