// What all optimizers promise: errors, groups, saving and resuming, shards, halves, memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>

#include "optim/all_optimizers.h"
#include "support/sanitized.h"
#include "support/temp_dir.h"

#include <hero/core/ledger.h>
#include <hero/core/swap_file.h>
#include <hero/optim/paged.h>

namespace {

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

Tensor leaf(const std::vector<float>& values) {
  return Tensor(Array::from(values, {static_cast<int64_t>(values.size())}), true);
}

}  // namespace

TEST_CASE("an optimizer resumed from a file goes on bit for bit") {
  for (const Maker& maker : all_optimizers()) {
    INFO(maker.name);
    const hero_test::TempDir dir;
    const Tensor a = noise(37, 1), b = noise(5, 2);
    const auto whole = maker.make({a, b});
    for (int step = 0; step < 4; ++step) {
      give_gradients({a, b}, step);
      whole->step();
    }
    core::save_safetensors(dir / "state.safetensors", whole->state_dict());
    const Tensor c = Tensor(a.array().clone(), true), d = Tensor(b.array().clone(), true);
    const auto resumed = maker.make_default({c, d});
    resumed->load_state_dict(core::load_safetensors(dir / "state.safetensors").arrays);
    for (int step = 4; step < 8; ++step) {
      give_gradients({a, b}, step);
      give_gradients({c, d}, step);
      whole->step();
      resumed->step();
    }
    CHECK(same_bits(a, c));
    CHECK(same_bits(b, d));
  }
}

TEST_CASE("shards stepped one by one have the bits of the whole") {
  const int64_t n = 1003;
  for (const Maker& maker : all_optimizers()) {
    if (maker.name == "lamb") continue;  // its norms need the whole; see test_shards.cpp
    INFO(maker.name);
    const Tensor whole = noise(n, 3);
    const Tensor cut = Tensor(whole.array().clone(), true);
    std::vector<Tensor> shards;
    for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 1}, {1, 18}, {18, 500}, {500, 500}, {500, 1003}}) {
      shards.push_back(Tensor(cut.array().slice(0, begin, end), true));
    }
    const auto a = maker.make({whole});
    const auto b = maker.make(shards);
    for (int step = 0; step < 5; ++step) {
      give_gradients({whole}, step);
      int64_t at = 0;
      for (const Tensor& shard : shards) {
        shard.set_grad(Tensor(whole.grad().array().slice(0, at, at + shard.numel())));
        at += shard.numel();
      }
      a->step();
      b->step();
      CHECK(same_bits(whole, cut));
    }
  }
}

TEST_CASE("steps have the same bits for any number of threads", "[threads]") {
  const int64_t n = 200'001;  // several chunks and a ragged end
  for (const Maker& maker : all_optimizers()) {
    INFO(maker.name);
    std::vector<Tensor> results;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const Tensor x = noise(n, 4);
      const auto optimizer = maker.make({x});
      for (int step = 0; step < 3; ++step) {
        give_gradients({x}, step);
        optimizer->step();
      }
      results.push_back(x);
    }
    CHECK(same_bits(results[0], results[1]));
    CHECK(same_bits(results[0], results[2]));
  }
}

TEST_CASE("a transposed parameter is stepped like its contiguous copy") {
  const Tensor base = noise(12, 5);
  const Tensor x(base.array().reshape({3, 4}).t(), true);
  const Tensor y(x.array().clone(), true);
  optim::AdamW a({x}, {.lr = 0.1}), b({y}, {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    give_gradients({y}, step);
    x.set_grad(y.grad());
    a.step();
    b.step();
  }
  CHECK(same_bits(Tensor(x.array().clone()), y));
}

TEST_CASE("halves are computed in float32 and rounded once") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const Maker& maker : all_optimizers()) {
      if (maker.name == "lamb") continue;  // its direction is rounded, too
      INFO(maker.name << " " << to_string(dtype));
      const Tensor half(noise(2600, 6).array().to(dtype), true);  // more than one block
      const Tensor same(half.array().to(kFloat32), true);
      const auto a = maker.make({half}), b = maker.make({same});
      for (int step = 0; step < 3; ++step) {
        give_gradients({same}, step);
        half.set_grad(Tensor(same.grad().array().to(dtype)));
        same.set_grad(Tensor(half.grad().array().to(kFloat32)));
        core::backend(kCpu).run(core::call::Copy{half.array(), same.array()});
        a->step();
        b->step();
        CHECK(same_bits(half, Tensor(same.array().to(dtype))));
      }
      for (const auto& entry : a->state_dict()) {
        if (entry.name.starts_with("state.0.exp_avg")) CHECK(entry.array.dtype() == kFloat32);
      }
    }
  }
}

TEST_CASE("states are charged to the optimizer's tag, and only when they are made") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  {
    const Tensor x = noise(1000, 7), idle = noise(500, 8);
    optim::AdamW adamw({x, idle});
    CHECK(ledger.live(MemoryTag::optimizer) == 0);
    give_gradients({x}, 0);
    adamw.step();
    CHECK(ledger.live(MemoryTag::optimizer) == 2 * 4 * 1000);
    optim::SGD sgd({x});
    sgd.step();
    CHECK(ledger.live(MemoryTag::optimizer) == 2 * 4 * 1000);
  }
  CHECK(ledger.live(MemoryTag::optimizer) == 0);
}

TEST_CASE("parameters without a gradient and zeroed gradients") {
  const Tensor x = leaf({1.0f}), idle = leaf({2.0f});
  optim::SGD sgd({x, idle}, {.lr = 1.0});
  sgd.step();
  CHECK(x.item() == 1.0);
  x.set_grad(leaf({0.5f}).detach());
  sgd.step();
  CHECK(x.item() == 0.5);
  CHECK(idle.item() == 2.0);
  sgd.zero_grad(false);
  CHECK(x.grad().item() == 0.0);
  sgd.zero_grad();
  CHECK(!x.grad().defined());
}

TEST_CASE("a step between forward and backward is detected") {
  const Tensor x = leaf({1.0f, 2.0f});
  optim::SGD sgd({x}, {.lr = 0.1});
  const Tensor y = sum(square(x));
  give_gradients({x}, 0);
  sgd.step();
  REQUIRE_THROWS_WITH(y.backward(), ContainsSubstring("square"));
}

TEST_CASE("options of groups can be read and set by name, and are checked") {
  const Tensor a = leaf({1.0f}), b = leaf({1.0f});
  optim::AdamW adamw({{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.2, .weight_decay = 0.0}}});
  CHECK(adamw.groups() == 2);
  CHECK(adamw.lr(1) == 0.2);
  CHECK(adamw.option("weight_decay", 1) == 0.0);
  CHECK(adamw.option("beta2", 0) == 0.999);
  adamw.set_option("beta1", 0.5, 1);
  CHECK(adamw.options(1).betas[0] == 0.5);
  CHECK(adamw.has_option("amsgrad"));
  CHECK(!adamw.has_option("momentum"));
  adamw.set_lr(0.3);
  CHECK(adamw.lr(0) + adamw.lr(1) == 0.6);
  REQUIRE_THROWS_WITH(adamw.set_option("momentum", 0.1), ContainsSubstring("no option momentum"));
  REQUIRE_THROWS_WITH(adamw.set_lr(-1.0), ContainsSubstring("adamw: lr must be 0 or more: -1"));
  REQUIRE_THROWS_WITH(adamw.lr(2), ContainsSubstring("no group 2 of 2"));
  CHECK(adamw.lr(0) == 0.3);
}

TEST_CASE("bad options are errors that name the optimizer and the value") {
  const Tensor x = leaf({1.0f});
  using namespace optim;
  REQUIRE_THROWS_WITH(SGD({x}, {.lr = -0.1}), ContainsSubstring("sgd: lr must be 0 or more: -0.1"));
  REQUIRE_THROWS_WITH(SGD({x}, {.lr = std::nan("")}), ContainsSubstring("sgd: lr"));
  REQUIRE_THROWS_WITH(SGD({x}, {.momentum = -1.0}), ContainsSubstring("momentum"));
  REQUIRE_THROWS_WITH(SGD({x}, {.nesterov = true}), ContainsSubstring("nesterov needs momentum"));
  REQUIRE_THROWS_WITH(Adam({x}, {.betas = {1.0, 0.9}}), ContainsSubstring("adam: beta1"));
  REQUIRE_THROWS_WITH(AdamW({x}, {.betas = {0.9, -0.1}}), ContainsSubstring("adamw: beta2"));
  REQUIRE_THROWS_WITH(Adamax({x}, {.eps = -1.0}), ContainsSubstring("adamax: eps"));
  REQUIRE_THROWS_WITH(Adadelta({x}, {.rho = 1.5}), ContainsSubstring("adadelta: rho"));
  REQUIRE_THROWS_WITH(Adagrad({x}, {.lr_decay = -1.0}), ContainsSubstring("adagrad: lr_decay"));
  REQUIRE_THROWS_WITH(RMSprop({x}, {.weight_decay = -1.0}), ContainsSubstring("weight_decay"));
  REQUIRE_THROWS_WITH(LBFGS({x}, {.history_size = 0}), ContainsSubstring("lbfgs: history_size"));
}

TEST_CASE("bad parameters are errors that say which") {
  const Tensor x = leaf({1.0f});
  using optim::SGD;
  REQUIRE_THROWS_WITH(SGD(std::vector<Tensor>{}), ContainsSubstring("no parameter to optimise"));
  REQUIRE_THROWS_WITH(SGD({x, x}), ContainsSubstring("parameter 1 of shape [1] is given twice"));
  REQUIRE_THROWS_WITH(SGD({x, x * 2}), ContainsSubstring("parameter 1 of shape [1] is not a leaf"));
  REQUIRE_THROWS_WITH(SGD({Tensor()}), ContainsSubstring("parameter 0 is undefined"));
  REQUIRE_THROWS_WITH(SGD({tensor({1, 2})}), ContainsSubstring("int64"));
  REQUIRE_THROWS_WITH(SGD(std::vector<SGD::Group>{{{x}, {}}, {{x}, {}}}),
                      ContainsSubstring("given twice"));
}

TEST_CASE("parameters of which several elements lie in one place are refused by every optimizer") {
  const auto what = ContainsSubstring("parameter 0 of shape [3, 2] and strides [0, 1] has several");
  const Tensor expanded = ones({1, 2}).expand({3, 2}).requires_grad_();
  for (const Maker& maker : all_optimizers()) {
    INFO(maker.name);
    CHECK_THROWS_WITH(maker.make({expanded}), what);
  }
  using namespace optim;
  CHECK_THROWS_WITH(Muon({expanded}), what);
  CHECK_THROWS_WITH(Adafactor({expanded}), what);
  CHECK_THROWS_WITH(LBFGS({expanded}), what);
  CHECK_THROWS_WITH(EMA({expanded}), what);
  CHECK_THROWS_WITH(Newton({expanded}), what);
  CHECK_THROWS_WITH(MasterWeights<SGD>({expanded}), what);
  const Tensor half = ones({1, 2}, {.dtype = kBFloat16}).expand({3, 2}).requires_grad_();
  CHECK_THROWS_WITH(MasterWeights<SGD>({half}), what);
  const Tensor windows = Tensor(Array::zeros({4}).as_strided({3, 2}, {1, 1}), true);
  CHECK_THROWS_WITH(SGD({windows}), ContainsSubstring("strides [1, 1] has several elements"));
  // one that becomes so is not stepped
  const Tensor x = Tensor(Array::zeros({3, 2}), true);
  SGD sgd({x}, {.lr = 0.1});
  x.set_data(ones({1, 2}).expand({3, 2}).array());
  x.set_grad(ones({3, 2}));
  CHECK_THROWS_WITH(sgd.step(), what);
  // every second element, and rows that are columns, are places of their own
  SGD({Tensor(Array::zeros({8}).as_strided({4}, {2}), true)});
  SGD({Tensor(Array::zeros({3, 2}).t(), true)});
}

namespace {

// Steps one parameter, then adds another: both go on as in optimizers that have either alone.
template <class O, class Options>
void check_added(
    const Options& options, const Options& later,
    const std::function<std::unique_ptr<O>(const std::vector<Tensor>&, const Options&)>& make) {
  const auto leaf_of = [](int seed, DType dtype) {
    return Tensor(noise(12, seed).array().reshape({4, 3}).to(dtype), true);
  };
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const std::vector<Tensor> first = {leaf_of(1, dtype)}, second = {leaf_of(2, dtype)},
                              alone = {leaf_of(1, dtype)}, added = {leaf_of(2, dtype)};
    const auto both = make(first, options), one = make(alone, options);
    const auto train = [&](int step) {
      for (const auto* list : {&first, &second, &alone, &added}) {
        const Tensor g = noise(12, 100 + step);
        list->front().set_grad(Tensor(g.array().reshape({4, 3}).to(dtype)));
      }
    };
    for (int step = 0; step < 3; ++step) {
      train(step);
      both->step();
      one->step();
    }
    both->add_param_group({second, later});
    const auto other = make(added, later);
    CHECK(both->groups() == 2);
    CHECK(both->lr(1) == later.lr);
    for (int step = 3; step < 6; ++step) {
      train(step);
      both->step();
      one->step();
      other->step();
    }
    CHECK(same_bits(first[0], alone[0]));
    CHECK(same_bits(second[0], added[0]));
    // what is refused adds nothing
    const auto dict = both->state_dict();
    CHECK_THROWS_WITH(both->add_param_group({first, later}), ContainsSubstring("is given twice"));
    CHECK_THROWS_WITH(both->add_param_group({{leaf_of(3, dtype), Tensor()}, later}),
                      ContainsSubstring("parameter 3 is undefined"));
    Options bad = later;
    bad.lr = -1.0;
    CHECK_THROWS_WITH(both->add_param_group({{leaf_of(3, dtype)}, bad}), ContainsSubstring("lr"));
    CHECK(both->groups() == 2);
    CHECK(both->model_parameters().size() == 2);
    // a state goes into an optimizer of as many groups
    CHECK_THROWS_WITH(one->load_state_dict(dict),
                      ContainsSubstring("the state has 2 groups of parameters, and the optimizer "
                                        "has 1; make it with as many, or call add_param_group()"));
    CHECK_THROWS_WITH(both->load_state_dict(one->state_dict()),
                      ContainsSubstring("the state has 1 group of parameters, and the optimizer "
                                        "has 2; load the state before add_param_group()"));
    const std::vector<Tensor> third = {leaf_of(4, dtype)}, fourth = {leaf_of(5, dtype)};
    const auto resumed = make(third, options);
    resumed->add_param_group({fourth, later});
    resumed->load_state_dict(dict);
    CHECK(resumed->state_dict().size() == dict.size());
  }
}

template <class O, class Options>
void check_added(const Options& options, const Options& later) {
  check_added<O, Options>(options, later,
                          [](const std::vector<Tensor>& params, const Options& own) {
                            return std::make_unique<O>(params, own);
                          });
}

}  // namespace

TEST_CASE("a group that is added later is stepped by itself, and others go on as they were") {
  using namespace optim;
  check_added<optim::SGD, SGDOptions>({.lr = 0.1, .momentum = 0.9}, {.lr = 0.01});
  check_added<LookThenStep, NesterovLookaheadOptions>({.lr = 0.1}, {.lr = 0.01});
  check_added<Adagrad, AdagradOptions>({.lr = 0.1}, {.lr = 0.01});
  check_added<RMSprop, RMSpropOptions>({}, {.lr = 0.1, .momentum = 0.9, .centered = true});
  check_added<Adadelta, AdadeltaOptions>({}, {.lr = 0.1});
  check_added<Adam, AdamOptions>({.lr = 0.01}, {.lr = 0.1, .weight_decay = 0.1});
  check_added<AdamW, AdamWOptions>({.lr = 0.01}, {.lr = 0.1, .amsgrad = true});
  check_added<Adamax, AdamaxOptions>({}, {.lr = 0.1});
  check_added<NAdam, NAdamOptions>({}, {.lr = 0.1});
  check_added<RAdam, RAdamOptions>({}, {.lr = 0.1});
  check_added<Rprop, RpropOptions>({}, {.lr = 0.1});
  check_added<ASGD, ASGDOptions>({}, {.lr = 0.1, .t0 = 1});
  check_added<LAMB, LAMBOptions>({}, {.lr = 0.1});
  check_added<Lion, LionOptions>({}, {.lr = 0.1});
  check_added<Muon, MuonOptions>({}, {.lr = 0.1});
  check_added<Adafactor, AdafactorOptions>({}, {.lr = 0.1});
  check_added<MasterWeights<AdamW>, AdamWOptions>({.lr = 0.01}, {.lr = 0.1});
  check_added<MasterWeights<LAMB>, LAMBOptions>({}, {.lr = 0.1});
  core::SwapFile file(std::filesystem::temp_directory_path().string(), {.bytes = 1 << 22});
  const auto paged = [&]<class O>(O*, const AdamWOptions& options, const AdamWOptions& later) {
    check_added<O, AdamWOptions>(
        options, later, [&](const std::vector<Tensor>& params, const AdamWOptions& own) {
          return std::make_unique<O>(file, params, own, PagedOptions{.window_bytes = 1});
        });
  };
  paged(static_cast<Paged<AdamW>*>(nullptr), {.lr = 0.01}, {.lr = 0.1});
  paged(static_cast<Paged<MasterWeights<AdamW>>*>(nullptr), {.lr = 0.01}, {.lr = 0.1});

  const Tensor vector = leaf({1.0f, 2.0f}), matrix = Tensor(Array::zeros({2, 2}), true);
  LBFGS lbfgs({vector});
  CHECK_THROWS_WITH(lbfgs.add_param_group({{matrix}, {}}), ContainsSubstring("one vector"));
  CHECK(lbfgs.groups() == 1);
  Muon muon({matrix});
  CHECK_THROWS_WITH(muon.add_param_group({{vector}, {}}), ContainsSubstring("no matrix"));
  CHECK(muon.parameters().size() == 1);
  EMA ema({matrix}, {.decay = 0.5});
  ema.step();
  {
    const EMA::Scope averaged(ema);
    CHECK_THROWS_WITH(ema.add_param_group({{vector}, {}}), ContainsSubstring("averages now"));
  }
  ema.add_param_group({{vector}, {}});
  ema.step();  // the average of the new one begins as it is
  const EMA::Scope averaged(ema);
  CHECK(vector.to_vector<double>() == std::vector<double>{1.0, 2.0});
}

TEST_CASE("a state that does not fit is refused whole, in one message") {
  const Tensor x = noise(4, 9);
  optim::Adam adam({x}, {.lr = 0.1});
  give_gradients({x}, 0);
  adam.step();
  auto dict = adam.state_dict();
  std::erase_if(dict, [](const auto& e) { return e.name == "state.0.exp_avg"; });
  for (auto& entry : dict) {
    if (entry.name == "state.0.exp_avg_sq") entry.array = Array::zeros({5});
    if (entry.name == "group.0.lr") entry.array = Array::full({}, 0.7, kFloat64);
  }
  dict.push_back({"state.1.step", Array::full({}, 1.0, kFloat64)});
  REQUIRE_THROWS_WITH(adam.load_state_dict(dict),
                      ContainsSubstring("missing: state.0.exp_avg;") &&
                          ContainsSubstring("unexpected: state.1.step") &&
                          ContainsSubstring("state.0.exp_avg_sq is float32 [5], not float32 [4]"));
  CHECK(adam.lr() == 0.1);
  const auto before = adam.state_dict();
  adam.load_state_dict(before);
  CHECK(adam.state_dict().size() == before.size());
}

TEST_CASE("options that an older version did not save take their defaults") {
  const Tensor x = noise(4, 9), w = noise(4, 9).reshape({2, 2});
  using optim::Muon;
  Muon muon({w.detach().requires_grad_()}, {.spectral_unclamped = true});
  auto dict = muon.state_dict();
  std::erase_if(dict, [](const auto& e) { return e.name == "group.0.spectral_unclamped"; });
  Muon resumed({w.detach().requires_grad_()}, {.lr = 0.5, .spectral_unclamped = true});
  resumed.load_state_dict(dict);
  CHECK(resumed.lr() == muon.lr());
  CHECK_FALSE(resumed.options().spectral_unclamped);
  for (const Maker& maker : all_optimizers()) {
    INFO(maker.name);
    const auto optimizer = maker.make({x}), fresh = maker.make_default({x}),
               other = maker.make({x});
    give_gradients({x}, 0);
    optimizer->step();
    const auto whole = optimizer->state_dict();
    for (const auto& entry : whole) {
      if (!entry.name.starts_with("group.0.")) continue;
      const std::string option = entry.name.substr(std::string("group.0.").size());
      auto older = whole;
      std::erase_if(older, [&](const auto& e) { return e.name == entry.name; });
      other->load_state_dict(whole);
      if (option == "lr") {
        CHECK_THROWS_WITH(other->load_state_dict(older), ContainsSubstring("missing: group.0.lr"));
        continue;
      }
      INFO(option);
      // By this option's default a state may have one array too many or too few, or the options may
      // not fit together, which is refused.
      try {
        other->load_state_dict(older);
      } catch (const Error& error) {
        CHECK_THAT(error.what(), ContainsSubstring(": state.") || ContainsSubstring("needs"));
        CHECK(other->option(option) == optimizer->option(option));
        continue;
      }
      CHECK(other->option(option) == fresh->option(option));
      CHECK(other->lr() == optimizer->lr());
    }
    auto unknown = whole;
    unknown.push_back({"group.0.of_tomorrow", Array::full({}, 1.0, kFloat64)});
    CHECK_THROWS_WITH(optimizer->load_state_dict(unknown),
                      ContainsSubstring("unexpected: group.0.of_tomorrow"));
  }
}

TEST_CASE("options that fit only together are loaded together") {
  const Tensor x = noise(4, 9);
  optim::SGD plain({x}, {.momentum = 0.0}), lively({x}, {.momentum = 0.9, .nesterov = true});
  lively.load_state_dict(plain.state_dict());
  CHECK(lively.options().momentum == 0.0);
  CHECK_FALSE(lively.options().nesterov);
  optim::Rprop small({x}, {.step_sizes = {1e-6, 50.0}}), large({x}, {.step_sizes = {100.0, 200.0}});
  const auto before = large.state_dict();
  small.load_state_dict(before);
  CHECK(small.option("step_size_min") == 100.0);
  auto broken = before;
  broken.push_back({"group.0.of_tomorrow", Array::full({}, 1.0, kFloat64)});
  optim::Rprop other({x}, {.step_sizes = {1.0, 2.0}});
  CHECK_THROWS_WITH(other.load_state_dict(broken), ContainsSubstring("of_tomorrow"));
  CHECK(other.option("step_size_max") == 2.0);
}

TEST_CASE("optimizers take steps on meta without values") {
  const Tensor x(Array::empty({1000, 1000}, kFloat32, kMeta), true);
  for (const Maker& maker : all_optimizers()) {
    INFO(maker.name);
    const auto optimizer = maker.make({x});
    x.set_grad(Tensor(Array::empty({1000, 1000}, kFloat32, kMeta)));
    optimizer->step();
    CHECK(optimizer->parameters().size() == 1);
  }
}

TEST_CASE("parameters stepped together have the bits of each stepped by itself", "[threads]") {
  // Of all sizes, dtypes and layouts, and one that begins when the others have taken a step.
  const auto make = [] {
    std::vector<Tensor> params;
    int seed = 40;
    for (const int64_t n : {1, 700, 0, 40'000, 63, 70'001, 5}) {
      params.push_back(noise(n, seed++));
      params.emplace_back(noise(n, seed++).array().to(kBFloat16), true);
    }
    params.emplace_back(noise(12, seed).array().reshape({3, 4}).t(), true);
    params.emplace_back(noise(77, seed + 1).array().to(kFloat64), true);
    return params;
  };
  const auto give = [](const std::vector<Tensor>& params, size_t i, int step) {
    if (step == 0 && i == 0) return;
    const Array g = noise(params[i].numel(), 100 * step + static_cast<int>(i)).array();
    params[i].set_grad(Tensor(g.to(params[i].dtype()).reshape(params[i].shape())));
  };
  for (const Maker& maker : all_optimizers()) {
    const std::vector<Tensor> alone = make();
    for (size_t i = 0; i < alone.size(); ++i) {
      const auto optimizer = maker.make({alone[i]});
      for (int step = 0; step < 3; ++step) {
        give(alone, i, step);
        optimizer->step();
      }
    }
    for (const int threads : hero_test::kIsSanitized ? std::vector{5} : std::vector{1, 2, 5}) {
      INFO(maker.name << ", " << threads << " threads");
      const ThreadLimit limit(threads);
      const std::vector<Tensor> together = make();
      const auto optimizer = maker.make(together);
      for (int step = 0; step < 3; ++step) {
        for (size_t i = 0; i < together.size(); ++i) give(together, i, step);
        optimizer->step();
      }
      for (size_t i = 0; i < alone.size(); ++i) {
        CHECK(together[i].to_vector<double>() == alone[i].to_vector<double>());
      }
    }
  }
}

namespace {

struct Failing : optim::SGD {
  using SGD::SGD;
  Tensor wrong;

 protected:
  void update(int group, State& state, const Array& grad) override {
    check(!is_same(state.param, wrong), "this one is wrong");
    SGD::update(group, state, grad);
  }
};

}  // namespace

TEST_CASE("an error in the middle of a step leaves the parameters before it stepped") {
  const Tensor a = leaf({1.0f}), wrong = leaf({1.0f}), b = leaf({1.0f});
  Failing sgd({a, wrong, b}, {.lr = 1.0, .momentum = 0.5});
  for (const Tensor& x : {a, wrong, b}) x.set_grad(Tensor(Array::ones({1})));
  sgd.step();
  sgd.wrong = wrong;
  CHECK_THROWS_WITH(sgd.step(), ContainsSubstring("this one is wrong"));
  CHECK(a.item() == -1.5);
  CHECK(b.item() == 0.0);
  sgd.wrong = {};
  sgd.step();
  CHECK(a.item() == -3.25);
  CHECK(b.item() == -1.5);
}

TEST_CASE("centered RMSprop stays finite where gradients do not vary") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    for (const double alpha : {0.99, 0.9}) {
      for (const double momentum : {0.0, 0.9}) {
        INFO(dtype << ", alpha " << alpha << ", momentum " << momentum);
        const Tensor g = rand({200}, {.dtype = dtype});
        const Tensor p = zeros({200}, {.dtype = dtype}).requires_grad_();
        optim::RMSprop rmsprop(
            {p}, {.lr = 1e-12, .alpha = alpha, .momentum = momentum, .centered = true});
        for (int step = 0; step < 3000; ++step) {
          p.set_grad(g);
          rmsprop.step();
        }
        CHECK(all(isfinite(p)).item<bool>());
        CHECK(all(p <= 0.0).item<bool>());  // nothing went up along a positive gradient
      }
    }
  }
  // Squares beyond the dtype stop an element, as they do without the mean, and NaN stays NaN.
  const float g = 3e38f, nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool centered : {true, false}) {
    const Tensor p = leaf({1.0f, 1.0f, 1.0f});
    optim::RMSprop rmsprop({p}, {.centered = centered});
    for (int step = 0; step < 3; ++step) {
      p.set_grad(tensor({g, -g, nan}));
      rmsprop.step();
    }
    CHECK(p[0].item() == 1.0);
    CHECK(p[1].item() == 1.0);
    CHECK(std::isnan(p[2].item()));
  }
}

TEST_CASE("one gradient whose square leaves the range does not stop an element for ever") {
  // (1 - beta2) g^2 is in range up to 5.8e20 for float32, as in PyTorch.
  const auto moves = [](const auto& make, double g, DType dtype) {
    const Tensor p = zeros({1}, {.dtype = dtype}).requires_grad_();
    const auto optimizer = make(p);
    p.set_grad(full({1}, g, {.dtype = dtype}));
    optimizer->step();
    const double before = p.item();
    for (int step = 0; step < 100; ++step) {
      p.set_grad(full({1}, g / 10.0, {.dtype = dtype}));
      optimizer->step();
    }
    return std::isfinite(p.item()) && p.item() < before;
  };
  const auto adam = [](const Tensor& p) {
    return std::make_shared<optim::Adam>(std::vector<Tensor>{p});
  };
  const auto adamw = [](const Tensor& p) {
    return std::make_shared<optim::AdamW>(std::vector<Tensor>{p});
  };
  const auto rmsprop = [](const Tensor& p) {
    return std::make_shared<optim::RMSprop>(std::vector<Tensor>{p});
  };
  for (const double g : {1e18, 2e19, 1e20}) {
    CHECK(moves(adam, g, kFloat32));
    CHECK(moves(adamw, g, kFloat32));
    CHECK(moves(rmsprop, g, kFloat32));
  }
  CHECK(moves(adam, 2e154, kFloat64));
  CHECK_FALSE(moves(adam, 1e21, kFloat32));  // here v itself is infinite
}
