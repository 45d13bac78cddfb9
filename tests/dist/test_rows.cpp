// Where a unit's parameters lie in its row.
#include <cstdint>

#include "dist/ladder.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

namespace {

// Whether whole parameters begin at multiples of 16 bytes when a layer computes with them.
bool aligned(const nn::Linear& layer) {
  const auto is_aligned = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.array().bytes()) % 16 == 0;
  };
  return is_aligned(layer.weight) && is_aligned(layer.bias);
}

/// Parameters of 91, 13, 143, 11, 55, 5 and 1 elements.
struct OddSizes : LadderMLP {
  Tensor& scale = parameter("scale", Shape{}, nn::init::ones());
  Tensor forward(const Tensor& x) override { return LadderMLP::forward(x) * scale; }
};

}  // namespace

TEST_CASE("whole parameters of any sizes begin at multiples of 16 bytes") {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    for (const int ranks : {2, 3}) {
      for (const int stage : {1, 2, 3, 4}) {
        CAPTURE(dtype, ranks, stage);
        dist::run_ranks(ranks, [&](dist::Communicator& world) {
          OddSizes model;
          model.to(dtype);
          const auto parallel =
              stage == 4 ? dist::fully_shard(model, world)
                         : dist::DataParallel(dist::ZeRO(model, world, {.stage = stage}));
          int seen = 0;
          for (nn::Linear* layer : {&model.fc1, &model.fc2, &model.fc3}) {
            layer->register_forward_pre_hook([&, layer](nn::Module&, const nn::Tensors&) {
              expect(aligned(*layer), "weights and biases begin at multiples of 16 bytes");
              ++seen;
              return nn::Tensors{};
            });
          }
          sum(model(Tensor(noise({2, 7}, dtype)))).backward();
          expect(seen == 3, "forward was seen");
          int64_t numel = 0, rows = 0, parts = 0;
          for (const dist::UnitInfo& unit : parallel.units()) {
            numel += unit.numel;
            rows += unit.row;
            parts += static_cast<int64_t>(unit.parameters.size());
          }
          expect(numel == 91 + 13 + 143 + 11 + 55 + 5 + 1, "all elements");
          expect(rows > numel && rows < numel + 8 * parts, "gaps of fewer than 8 elements: ", rows);
        });
      }
    }
  }
}

TEST_CASE("rows of sizes that are multiples of 8 have no gaps") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    nn::GPT model({.vocab_size = 24, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
    for (const dist::UnitInfo& unit :
         dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()}).units()) {
      expect(unit.row == unit.numel, unit.name);
    }
  });
}

TEST_CASE("gaps in a row are zeros in memory and in what travels") {
  dist::run_ranks(3, [](dist::Communicator& world) {
    OddSizes model;
    const auto parallel = dist::fully_shard(model, world);
    const auto adamw = make_method(Method::adamw, model.parameters());
    for (int step = 0; step < 3; ++step) {
      sum(model(Tensor(noise({2, 7}, kFloat32)))).backward();
      finish_step(model, *adamw, 0.5);
    }
    const int64_t own = parallel.units()[0].own.count;
    int64_t held = 0;
    for (const Tensor& p : model.parameters()) held += p.numel();
    expect(current_ledger().live(MemoryTag::parameter) == 4 * own, "a third of the row");
    expect(held <= own, "and what of it are parameters");
    const nn::StateDict state = parallel.full_state_dict();
    for (const auto& entry : state) {
      for (const float v : entry.array.to_vector<float>()) expect(std::isfinite(v), entry.name);
    }
  });
}
