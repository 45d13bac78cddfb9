// The tables of the ZeRO paper (arXiv 1910.02054), from the ledger of simulated ranks.
#include <array>
#include <cmath>

#include "dist/data_parallel/strategy_bytes.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;
using namespace hero::dist;

namespace {

/// Layers of 10^8 (10^9) elements each: a model of `billions` billion parameters.
struct Large : nn::Module {
  explicit Large(double billions) {
    const bool wide = billions > 100.0;
    const int64_t a = wide ? 31'250 : 10'000, b = wide ? 32'000 : 10'000;
    const auto layers = static_cast<int64_t>(billions * (wide ? 1.0 : 10.0));
    for (int64_t i = 0; i < layers; ++i) {
      layer.push_back(&add<nn::Linear>(std::to_string(i), i % 2 == 0 ? a : b, i % 2 == 0 ? b : a,
                                       nn::LinearOptions{.bias = false}));
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Linear* each : layer) h = (*each)(h);
    return h;
  }
  std::vector<nn::Linear*> layer;
};

// Bytes that one rank holds after a step of a model of bfloat16 parameters under mixed precision: 2
// bytes of parameter, 2 of gradient and K = 12 of masters and moments. The first rank holds the
// most, the last one steps the fewest elements.
double held_bytes(ShardingStrategy strategy, int ranks, double billions, int rank = 0) {
  double held = 0.0;
  simulate_ranks(
      ranks,
      [&](Communicator& world) {
        const nn::DeviceScope meta(kMeta);
        Large model(billions);
        model.to(kBFloat16);
        const DataParallel parallel = apply_strategy(strategy, model, world);
        optim::MasterWeights<optim::AdamW> adamw(model.parameters());
        sum(model(Tensor(Array::empty({1, model.layer[0]->in_features}, kBFloat16, kMeta))))
            .backward();
        adamw.step();
        const Bytes bytes = live_bytes(DeviceType::meta);
        held = static_cast<double>(bytes.parameters + bytes.gradients + bytes.optimizer);
      },
      {rank});
  return held;
}

// The same by the formula: every layer is a unit, as it fills a bucket.
double formula_bytes(ShardingStrategy strategy, int ranks, double billions, int rank) {
  const bool wide = billions > 100.0;
  const RowOf unit(strategy, wide ? 1'000'000'000 : 100'000'000, ranks, rank);
  const auto count = static_cast<int64_t>(billions * (wide ? 1.0 : 10.0));
  const int64_t parameters = strategy >= ShardingStrategy::zero3 ? unit.own : unit.row;
  const int64_t gradients = strategy >= ShardingStrategy::zero2 ? unit.own : unit.row;
  return static_cast<double>(count * (2 * (parameters + gradients) + 12 * unit.stepped));
}

constexpr ShardingStrategy kZero[] = {ShardingStrategy::zero1, ShardingStrategy::zero2,
                                      ShardingStrategy::zero3};

// One unit of the last digit that the paper prints.
double last_digit(double printed) {
  if (printed >= 200.0 || printed == std::floor(printed)) return 1.0;
  return printed * 10.0 == std::floor(printed * 10.0 + 1e-6) ? 0.1 : 0.01;
}

}  // namespace

TEST_CASE("the ZeRO paper's Table 1 comes out of the ledger: 7.5 B, 128 B and 1 T parameters") {
  struct Row {
    int ranks;
    std::array<double, 9> gigabytes;  // of each model: Pos, Pos+g, Pos+g+p
  };
  constexpr Row kTable[] = {{1, {120, 120, 120, 2048, 2048, 2048, 16000, 16000, 16000}},
                            {4, {52.5, 41.3, 30, 896, 704, 512, 7000, 5500, 4000}},
                            {16, {35.6, 21.6, 7.5, 608, 368, 128, 4750, 2875, 1000}},
                            {64, {31.4, 16.6, 1.88, 536, 284, 32, 4187, 2218, 250}},
                            {256, {30.4, 15.4, 0.47, 518, 263, 8, 4046, 2054, 62.5}},
                            {1024, {30.1, 15.1, 0.12, 513, 257, 2, 4011, 2013, 15.6}}};
  const double models[] = {7.5, 128, 1000};
  for (const Row& row : kTable) {
    for (size_t i = 0; i < 9; ++i) {
      const double psi = models[i / 3], n = row.ranks, printed = row.gigabytes[i];
      CAPTURE(row.ranks, psi, name(kZero[i % 3]), printed);
      const double formula[] = {(4 + 12 / n) * psi, (2 + 14 / n) * psi, 16 / n * psi};
      const ShardingStrategy strategy = kZero[i % 3];
      const double got = held_bytes(strategy, row.ranks, psi);
      CHECK(std::abs(got / 1e9 - printed) <= last_digit(printed));
      CHECK(got == formula_bytes(strategy, row.ranks, psi, 0));
      CHECK(held_bytes(strategy, row.ranks, psi, row.ranks - 1) ==
            formula_bytes(strategy, row.ranks, psi, row.ranks - 1));
      // of at most 1000 units each row has fewer than 8 elements a rank more than its parameters
      CHECK(std::abs(got / 1e9 - formula[i % 3]) <= 1000 * (8 * (4 * n + 12)) * 1e-9);
    }
  }
  CHECK(held_bytes(ShardingStrategy::ddp, 64, 7.5) == 120e9);
}

TEST_CASE("the ZeRO paper's Table 2: the largest models for 32 GB a GPU, 64 data-parallel ranks") {
  // billions of parameters: baseline, Pos, Pos+g, Pos+g+p for model-parallel degrees 1 to 16. The
  // paper doubles the rounded 7.6; the formula's value is printed here to its digits.
  const double paper[] = {2, 7.6, 14.4, 128};
  const ShardingStrategy strategies[] = {ShardingStrategy::ddp, ShardingStrategy::zero1,
                                         ShardingStrategy::zero2, ShardingStrategy::zero3};
  for (size_t i = 0; i < 4; ++i) {
    const double bytes = held_bytes(strategies[i], 64, 7.5) / 7.5e9;  // a parameter
    for (int degree = 1; degree <= 16; degree *= 2) {
      CAPTURE(name(strategies[i]), degree);
      const double largest = degree * 32.0 / bytes;
      CHECK(std::abs(largest - degree * paper[i]) <= 0.05 * degree);
    }
  }
}
