#include <deque>

#include "optim/all_optimizers.h"
#include "support/temp_dir.h"

#include <hero/core/ledger.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

Tensor half_leaf(int64_t n, int seed, DType dtype) {
  return Tensor(noise(n, seed).array().to(dtype), true);
}

void give(const Tensor& param, int step) {
  param.set_grad(Tensor(noise(param.numel(), 100 + step).array().to(param.dtype())));
}

// The optimizer over masters against the same optimizer over float32 parameters.
template <class O, class Options>
void check_follows(const Options& options) {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Tensor low = half_leaf(101, 1, dtype);
    const Tensor wide = Tensor(low.array().to(kFloat32), true);
    optim::MasterWeights<O> masters({low}, options);
    O plain({wide}, options);
    for (int step = 0; step < 5; ++step) {
      give(low, step);
      wide.set_grad(Tensor(low.grad().array().to(kFloat32)));
      masters.step();
      plain.step();
      CHECK(same_bits(masters.parameters()[0], wide));
      CHECK(same_bits(low, Tensor(wide.array().to(dtype))));
    }
  }
}

}  // namespace

TEST_CASE(
    "master weights move with the bits of a float32 run and are rounded into the parameters") {
  using namespace optim;
  check_follows<SGD>(SGDOptions{.lr = 0.01, .momentum = 0.9});
  check_follows<AdamW>(AdamWOptions{.lr = 1e-3});
  check_follows<RMSprop>(RMSpropOptions{});
  check_follows<LAMB>(LAMBOptions{.weight_decay = 0.1});
  check_follows<Lion>(LionOptions{});
  check_follows<Adam>(AdamOptions{.weight_decay = 0.1, .amsgrad = true});
  check_follows<Adadelta>(AdadeltaOptions{});
  check_follows<Adagrad>(AdagradOptions{.lr_decay = 0.1});
  check_follows<Adamax>(AdamaxOptions{});
  check_follows<NAdam>(NAdamOptions{});
  check_follows<RAdam>(RAdamOptions{});
}

TEST_CASE("one pass, a gradient that is widened and one that is scaled have the same bits") {
  for (const DType dtype : {kBFloat16, kFloat16}) {
    for (const int64_t n : {1, 1023, 1025, 70001}) {  // several blocks, and several threads
      CAPTURE(dtype, n);
      std::vector<Tensor> params;
      for (int i = 0; i < 4; ++i) params.push_back(half_leaf(n, 1, dtype));
      // a parameter with gaps takes the longer way
      params[3] = Tensor(Array::zeros({n, 2}, dtype).select(1, 0), true);
      core::backend(kCpu).run(core::call::Copy{params[0].array(), params[3].array()});
      std::deque<optim::MasterWeights<optim::AdamW>> optimizers;
      for (const Tensor& param : params) optimizers.emplace_back(std::vector{param});
      for (int step = 0; step < 3; ++step) {
        for (const Tensor& param : params) give(param, step);
        params[2].set_grad(params[2].grad() * 0.5);
        optimizers[0].step();
        optimizers[1].take_gradients();
        optimizers[1].step();
        optimizers[2].step_scaled(2.0);
        optimizers[3].step();
        for (size_t i = 1; i < params.size(); ++i) {
          CAPTURE(step, i);
          CHECK(same_bits(params[i].contiguous(), params[0]));
          CHECK(same_bits(optimizers[i].parameters()[0], optimizers[0].parameters()[0]));
        }
      }
    }
  }
}

TEST_CASE("a step in one pass counts as a write to the parameter") {
  const Tensor low = half_leaf(3, 1, kBFloat16);
  optim::MasterWeights<optim::SGD> sgd({low}, {.lr = 1.0});
  const Tensor y = sum(low * low);
  give(low, 0);
  sgd.step();
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("changed in place"));
}

TEST_CASE("updates too small for bfloat16 add up in the master") {
  const Tensor low(Array::ones({1}, kBFloat16), true), bare(Array::ones({1}, kBFloat16), true);
  optim::MasterWeights<optim::SGD> masters({low}, {.lr = 1e-3});
  optim::SGD sgd({bare}, {.lr = 1e-3});
  for (int step = 0; step < 100; ++step) {
    for (const Tensor& x : {low, bare}) x.set_grad(Tensor(Array::ones({1}, kBFloat16)));
    masters.step();
    sgd.step();
  }
  CHECK(bare.item() == 1.0);  // 1 - 0.001 rounds back to 1
  CHECK(std::abs(low.item() - 0.9) <
        0x1p-8);  // half a step of bfloat16 near 0.9, and float32's sum
}

TEST_CASE("parameters that are float32 already are their own masters") {
  const Tensor low = half_leaf(3, 1, kBFloat16), wide = noise(3, 2);
  optim::MasterWeights<optim::Adam> adam({{{low}, {.lr = 0.1}}, {{wide}, {.lr = 0.2}}});
  CHECK(is_same(adam.parameters()[1], wide));
  CHECK(is_same(adam.model_parameters()[0], low));
  CHECK(adam.lr(1) == 0.2);
  give(low, 0);
  give(wide, 0);
  adam.step();
  CHECK(wide.grad().defined());
  adam.zero_grad();
  CHECK(!low.grad().defined());
  CHECK(!wide.grad().defined());
}

TEST_CASE("clipping and unscaling see the masters' float32 gradients") {
  const Tensor low(Array::zeros({1}, kFloat16), true);
  optim::MasterWeights<optim::SGD> sgd({low}, {.lr = 1.0});
  optim::GradScaler scaler({.init_scale = 1024.0});
  low.set_grad(Tensor(Array::full({1}, 2048.0, kFloat16)));
  scaler.unscale_(sgd);
  CHECK(optim::clip_grad_norm(sgd.parameters(), 1.0).item() == 2.0);
  CHECK(scaler.step(sgd));
  CHECK(std::abs(low.item() + 1.0) < 0x1p-10);  // one rounding to float16
  scaler.update();
  low.set_grad(Tensor(Array::full({1}, std::numeric_limits<double>::infinity(), kFloat16)));
  const double before = low.item();
  CHECK(!scaler.step(sgd));
  CHECK(low.item() == before);
  scaler.update();
  CHECK(scaler.get_scale() == 512.0);
}

TEST_CASE("a run with masters resumed from a file goes on bit for bit") {
  const hero_test::TempDir dir;
  const Tensor a = half_leaf(37, 1, kBFloat16);
  optim::MasterWeights<optim::AdamW> first({a}, {.lr = 1e-3});
  for (int step = 0; step < 3; ++step) {
    give(a, step);
    first.step();
  }
  core::save_safetensors(dir / "state.safetensors", first.state_dict());
  const Tensor b = half_leaf(37, 2, kBFloat16);
  optim::MasterWeights<optim::AdamW> second({b});
  const auto dict = core::load_safetensors(dir / "state.safetensors").arrays;
  second.load_state_dict(dict);
  CHECK(same_bits(a, b));
  for (int step = 3; step < 6; ++step) {
    give(a, step);
    give(b, step);
    first.step();
    second.step();
  }
  CHECK(same_bits(a, b));
  CHECK(same_bits(first.parameters()[0], second.parameters()[0]));

  auto broken = dict;
  std::erase_if(broken, [](const auto& entry) { return entry.name == "master.0"; });
  CHECK_THROWS_WITH(second.load_state_dict(broken), ContainsSubstring("missing: master.0"));
}

TEST_CASE("refresh takes over values that somebody else wrote") {
  const Tensor low = half_leaf(3, 1, kBFloat16);
  optim::MasterWeights<optim::SGD> sgd({low}, {.lr = 1.0});
  {
    const NoGrad no_grad;
    low.fill_(2.0);
  }
  sgd.refresh();
  CHECK(sgd.parameters()[0].to_vector<float>() == std::vector<float>(3, 2.0f));
}

TEST_CASE("16-bit training holds 2, 2 and 12 bytes a parameter") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const int64_t n = 1000;
  Tensor x;
  {
    const MemoryScope parameter(MemoryTag::parameter);
    x = Tensor(Array::zeros({n}, kBFloat16), true);
  }
  optim::MasterWeights<optim::AdamW> adamw({x});
  {
    const MemoryScope gradient(MemoryTag::gradient);
    x.set_grad(Tensor(Array::ones({n}, kBFloat16)));
  }
  adamw.step();
  CHECK(ledger.live(MemoryTag::parameter) == 2 * n);
  CHECK(ledger.live(MemoryTag::gradient) == 2 * n);
  CHECK(ledger.live(MemoryTag::optimizer) == 12 * n);
  CHECK(ledger.live(MemoryTag::activation) == 0);
}

TEST_CASE(
    "a step that is no single pass widens no more gradients at a time than the largest parameter "
    "has") {
  std::vector<Tensor> params;
  for (const int64_t n : {300, 1000, 500, 400, 200, 900}) {
    params.push_back(half_leaf(n, static_cast<int>(n), kBFloat16));
    give(params.back(), 1);
  }
  optim::MasterWeights<optim::AdamW> adamw(params);
  adamw.step();  // the states
  Ledger ledger;
  const LedgerScope scope(ledger);
  adamw.step();
  CHECK(ledger.peak(MemoryTag::gradient) == 0);  // in one pass
  for (int factor = 1; factor <= 2; ++factor) {
    ledger.reset_peak();
    adamw.step_scaled(1.0 / factor);
    CHECK(ledger.peak(MemoryTag::gradient) == (factor == 1 ? 0 : 4000));
  }
  optim::MasterWeights<optim::LAMB> lamb(params);
  lamb.step();
  ledger.reset_peak();
  lamb.step();
  CHECK(ledger.peak(MemoryTag::gradient) == 4000);
}

TEST_CASE("a parameter that is given twice would have two masters, and is refused") {
  const Tensor half = Tensor(Array::zeros({2}, kBFloat16), true);
  using Optimizer = optim::MasterWeights<optim::SGD>;
  CHECK_THROWS_WITH(Optimizer({half, half}), Catch::Matchers::ContainsSubstring("is given twice"));
  CHECK_THROWS_WITH(Optimizer(std::vector<Optimizer::Group>{{{half}, {}}, {{half}, {}}}),
                    Catch::Matchers::ContainsSubstring("parameter 1 of shape [2] is given twice"));
}
