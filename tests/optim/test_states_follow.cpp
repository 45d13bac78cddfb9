// An optimizer that has stepped goes on when its parameters are converted to another dtype, moved,
// or cut into shards: with the bits of an optimizer that always had such states.
#include <filesystem>

#include "optim/all_optimizers.h"
#include "optim/shards.h"

#include <hero/autograd/sharding/partition.h>
#include <hero/optim/gather_parameter.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

template <class O>
using Masters = optim::MasterWeights<O>;

// Every optimizer, those of whole matrices, averages, and what has masters.
std::vector<Maker> all_that_step() {
  using namespace optim;
  std::vector<Maker> all = all_optimizers();
  all.push_back(maker<Adafactor>("adafactor", AdafactorOptions{.lr = 0.02}));
  all.push_back(maker<EMA>("ema", EMAOptions{.decay = 0.9, .warmup = true}));
  all.push_back(maker<EMA>("swa", EMAOptions{.equal = true}));
  return all;
}

std::vector<Maker> all_with_masters() {
  using namespace optim;
  return {
      maker<Masters<SGD>>("momentum", SGDOptions{.lr = 0.1, .momentum = 0.9}),
      maker<Masters<AdamW>>("adamw", AdamWOptions{.lr = 0.01}),
      maker<Masters<RMSprop>>("rmsprop", RMSpropOptions{.momentum = 0.9, .centered = true}),
      maker<Masters<LAMB>>("lamb", LAMBOptions{.weight_decay = 0.1}),
      maker<Masters<Adafactor>>("adafactor", AdafactorOptions{.lr = 0.02}),
  };
}

Array noise_of(const Shape& shape, int seed) {
  return noise(shape.numel(), seed).array().reshape(shape);
}

// A matrix, a column, one element and no element.
std::vector<Tensor> leaves(DType dtype) {
  std::vector<Tensor> list;
  int seed = 60;
  for (const Shape& shape : {Shape{12, 10}, Shape{7}, Shape{1}, Shape{0}}) {
    list.emplace_back(noise_of(shape, ++seed).to(dtype), true);
  }
  return list;
}

std::vector<Tensor> copies_of(const std::vector<Tensor>& params) {
  std::vector<Tensor> copies;
  for (const Tensor& param : params) copies.emplace_back(param.array().clone(), true);
  return copies;
}

// The gradients of step `step`, the same numbers for leaves of all dtypes; a parameter may have
// none.
void give(const std::vector<Tensor>& params, int step) {
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].set_grad({});
    if (i == 1 && step == 1) continue;
    const Array grad = noise_of(whole_shape(params[i]), 300 + 10 * step + static_cast<int>(i));
    params[i].set_grad(Tensor(optim::own_part(params[i], grad).to(params[i].dtype())));
  }
}

void train(const std::vector<Tensor>& params, optim::Optimizer& optimizer, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    give(params, step);
    optimizer.step();
  }
}

bool all_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return false;
  }
  return true;
}

bool same_dict(const optim::StateDict& a, const optim::StateDict& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || !same_bits(Tensor(a[i].array), Tensor(b[i].array))) return false;
  }
  return true;
}

void convert(const std::vector<Tensor>& params, DType dtype) {
  for (const Tensor& param : params) param.set_data(param.array().to(dtype));
}

// What a program would load that saved, converted the file and made an optimizer anew.
optim::StateDict converted(const optim::StateDict& dict, DType dtype) {
  optim::StateDict result;
  for (const auto& [name, array] : dict) {
    const bool is_number = array.ndim() == 0;
    result.push_back({name, is_number ? array : array.to(core::state_dtype(dtype))});
  }
  return result;
}

constexpr std::pair<DType, DType> kConversions[] = {
    {kFloat32, kFloat64}, {kFloat64, kFloat32},  {kBFloat16, kFloat32}, {kFloat32, kBFloat16},
    {kFloat64, kFloat16}, {kBFloat16, kFloat64}, {kFloat16, kBFloat16}};

// Cuts a leaf in place, as fully_shard() does; `boxes` as tensor_parallel().
void cut(const Tensor& leaf, const std::vector<Box>& boxes, int64_t begin, int64_t end,
         const GroupPtr& group) {
  const Partition* former = partition(leaf);
  Partition place = former ? *former : Partition{.whole = leaf.shape()};
  if (!boxes.empty()) place.boxes = boxes;
  place.first = begin;
  place.group = group;
  Array part;
  if (former || boxes.empty()) {
    part = piece_of(leaf.array(), begin, end).clone();
  } else {
    check(boxes.size() == 1 && begin == 0, "one whole box at a time");
    const Box& box = boxes[0];
    part = leaf.array();
    for (int d = 0; d < part.ndim(); ++d) {
      part = part.slice(d, box.offset[d], box.offset[d] + box.extent[d]);
    }
    part = part.clone();
  }
  set_part(leaf, part, std::make_shared<const Partition>(std::move(place)));
}

// Unevenly, so that some ranks have no element of small leaves.
void cut_for(const Tensor& leaf, int rank, int size, const GroupPtr& group) {
  const auto at = [&](int r) { return leaf.numel() * r * r / (int64_t{1} * size * size); };
  cut(leaf, {}, at(rank), at(rank + 1), group);
}

void expect_part_of(const std::vector<Tensor>& mine, const std::vector<Tensor>& whole) {
  for (size_t i = 0; i < mine.size(); ++i) {
    check(same_bits(mine[i], Tensor(optim::own_part(mine[i], whole[i].array()))), "parameter ", i,
          " has other bits");
  }
}

std::string folder() { return std::filesystem::temp_directory_path().string(); }

}  // namespace

TEST_CASE("states are converted as their parameters are, for every optimizer") {
  for (const Maker& maker : all_that_step()) {
    for (const auto& [from, to] : kConversions) {
      INFO(maker.name << " " << name(from) << " to " << name(to));
      const std::vector<Tensor> a = leaves(from);
      const auto used = maker.make(a);
      train(a, *used, 0, 3);
      const optim::StateDict before = used->state_dict();
      convert(a, to);
      CHECK(same_dict(used->state_dict(), converted(before, to)));
      const std::vector<Tensor> b = copies_of(a);
      const auto made = maker.make_default(b);
      made->load_state_dict(converted(before, to));
      train(a, *used, 3, 6);
      train(b, *made, 3, 6);
      CHECK(all_same(a, b));
      CHECK(same_dict(used->state_dict(), made->state_dict()));
    }
  }
}

TEST_CASE("a conversion before the first step, and one of a parameter without a state") {
  for (const Maker& maker : all_that_step()) {
    INFO(maker.name);
    const std::vector<Tensor> a = leaves(kFloat32);
    const auto used = maker.make(a);
    convert(a, kFloat64);
    const std::vector<Tensor> b = copies_of(a);
    const auto made = maker.make(b);
    train(a, *used, 0, 2);
    train(b, *made, 0, 2);
    CHECK(all_same(a, b));
  }
}

TEST_CASE("states are cut as their parameters are, for every optimizer", "[threads]") {
  std::vector<Maker> all = all_that_step();
  all.push_back(maker<optim::Muon>("muon", optim::MuonOptions{.lr = 0.02}));
  for (const Maker& maker : all) {
    const auto some = [&](std::vector<Tensor> list) {
      if (maker.name == "muon") list.resize(1);  // matrices
      return list;
    };
    const std::vector<Tensor> whole = some(leaves(kFloat32));
    const auto alone = maker.make(whole);
    train(whole, *alone, 0, 5);
    for (const int size : {1, 2, 5}) {
      INFO(maker.name << ", ranks " << size);
      on_ranks(size, [&](int rank, const GroupPtr& group) {
        const std::vector<Tensor> mine = some(leaves(kFloat32));
        const auto used = maker.make(mine);
        train(mine, *used, 0, 3);
        for (const Tensor& leaf : mine) cut_for(leaf, rank, size, group);
        train(mine, *used, 3, 5);
        expect_part_of(mine, whole);
        // and what it saves is a shard's state
        const auto resumed = maker.make_default(mine);
        resumed->load_state_dict(used->state_dict());
      });
    }
  }
}

TEST_CASE("states of a slice are cut again with it, and converted", "[threads]") {
  for (const DType to : {kFloat32, kFloat64, kBFloat16}) {
    for (const Maker& maker : all_that_step()) {
      const std::vector<Tensor> whole = {leaves(kFloat32)[0]};
      const auto alone = maker.make(whole);
      train(whole, *alone, 0, 3);
      convert(whole, to);
      train(whole, *alone, 3, 5);
      for (const bool look : {false, true}) {
        INFO(maker.name << ", to " << name(to) << (look ? ", saved between" : ""));
        on_ranks(4, [&](int rank, const GroupPtr& group) {
          const std::vector<Tensor> mine = {leaves(kFloat32)[0]};
          const auto used = maker.make(mine);
          train(mine, *used, 0, 3);
          const int64_t slice = rank / 2;  // columns 5 slice ... 5 slice + 4
          cut(mine[0], {Box{Shape{0, 5 * slice}, Shape{12, 5}}}, 0, 60, group);
          if (look) check(!used->state_dict().empty(), "no state");
          cut(mine[0], {}, rank % 2 == 0 ? 0 : 22, rank % 2 == 0 ? 22 : 60, group);
          convert(mine, to);
          train(mine, *used, 3, 5);
          expect_part_of(mine, whole);
        });
      }
    }
  }
}

TEST_CASE("elements that stay at their places are not copied") {
  const Array a = noise_of({6, 4}, 1);
  const optim::ShardLayout whole = {.shape = {6, 4}, .whole = {6, 4}};
  const optim::ShardLayout row = {.shape = {24}, .whole = {6, 4}},
                           part = {.shape = {5}, .whole = {6, 4}};
  CHECK(optim::recut(a, whole, row).storage_ref() == a.storage_ref());
  CHECK(optim::recut(a, whole, part).storage_ref() != a.storage_ref());
  CHECK_THROWS_WITH(optim::recut(optim::recut(a, whole, part), part, whole),
                    "recut: an array of shape [5] with elements 0 to 4 of a parameter of shape "
                    "[6, 4] does not have a parameter of shape [6, 4]");
}

TEST_CASE("a state's memory shrinks with its shard") {
  Meeting meeting(1);
  const auto group = std::make_shared<Together>(meeting);
  Ledger ledger;
  const LedgerScope scope(ledger);
  const std::vector<Tensor> params = {noise(1000, 1)};
  optim::AdamW adamw(params);
  train(params, adamw, 0, 1);
  CHECK(ledger.live(MemoryTag::optimizer) == 8000);
  cut(params[0], {}, 0, 250, group);
  train(params, adamw, 1, 2);
  CHECK(ledger.live(MemoryTag::optimizer) == 2000);
}

TEST_CASE("a state that cannot follow its parameter is an error that changes nothing") {
  Meeting meeting(1);
  const auto group = std::make_shared<Together>(meeting);
  const Array a = noise_of({6, 4}, 1), b = noise_of({5}, 2);
  const auto make = [&] {
    std::vector<Tensor> params = {Tensor(b.to(kFloat64), true), Tensor(a.clone(), true)};
    cut(params[1], {}, 0, 12, group);
    return params;
  };
  const std::vector<Tensor> plain = make(), moved = make();
  optim::Adam expected(plain), adam(moved);
  train(plain, expected, 0, 2);
  train(moved, adam, 0, 2);
  const Partition there = *partition(moved[1]);
  const Array first = moved[0].array(), values = moved[1].array();
  Partition elsewhere = there;
  elsewhere.first = 6;
  set_part(moved[1], values.clone(), std::make_shared<Partition>(elsewhere));
  convert({moved[0]}, kFloat32);
  give(moved, 2);
  for (const auto& use : {std::function<void()>([&] { adam.step(); }),
                          std::function<void()>([&] { adam.state_dict(); })}) {
    CHECK_THROWS_WITH(
        use(), ContainsSubstring("adam: parameter 1 has become elements 6 to 17 of a parameter of "
                                 "shape [6, 4], but its state 'exp_avg' is of elements 0 to 11 of "
                                 "a parameter of shape [6, 4]; make the optimizer after that") &&
                   ContainsSubstring("load its state from a checkpoint"));
  }
  // back at its place, it goes on as if nothing had been
  moved[0].set_data(first);
  set_part(moved[1], values, std::make_shared<Partition>(there));
  train(plain, expected, 2, 4);
  train(moved, adam, 2, 4);
  CHECK(all_same(plain, moved));
  // and where it has become another parameter, a state that was saved helps
  set_part(moved[1], noise_of({3}, 5), nullptr);
  give(moved, 4);
  CHECK_THROWS_WITH(adam.step(), ContainsSubstring("has become a parameter of shape [3], but"));
  optim::Adam other({Tensor(b.to(kFloat64), true), Tensor(noise_of({3}, 5), true)});
  train(other.parameters(), other, 0, 1);
  adam.load_state_dict(other.state_dict());
  adam.step();
}

namespace {

struct RowsOptions {
  double lr = 0.1;
  void check_values() const {}
  static void each(auto& self, auto&& visit) { visit("lr", self.lr); }
};

// One number for each row, which no rank knows from a part of a row.
class Rows : public optim::OptimizerOf<RowsOptions> {
 public:
  explicit Rows(const std::vector<Tensor>& params) : OptimizerOf("rows", params, {}) {}

 protected:
  std::vector<const char*> array_names(int) const override { return {"row"}; }
  Shape array_shape(const char*, const Shape& param) const override { return {param[0]}; }
  void update(int, State&, const Array&) override {}
};

}  // namespace

TEST_CASE("a state in a shape of its own is converted, and not cut") {
  Meeting meeting(1);
  const std::vector<Tensor> params = {Tensor(noise_of({6, 4}, 1), true)};
  Rows rows(params);
  train(params, rows, 0, 1);
  convert(params, kFloat64);
  train(params, rows, 1, 2);
  CHECK(rows.state_dict().back().array.dtype() == kFloat64);
  cut(params[0], {}, 0, 6, std::make_shared<Together>(meeting));
  CHECK_THROWS_WITH(
      rows.state_dict(),
      ContainsSubstring("its state 'row' is of a parameter of shape [6, 4], in a shape of its own; "
                        "make the optimizer after that"));
}

TEST_CASE("states go to meta with their parameters, and have no values to come back with") {
  for (const Maker& maker : all_that_step()) {
    INFO(maker.name);
    const std::vector<Tensor> params = leaves(kFloat32);
    const auto optimizer = maker.make(params);
    train(params, *optimizer, 0, 2);
    const optim::StateDict before = optimizer->state_dict();
    const bool has_arrays = std::any_of(before.begin(), before.end(), [](const auto& entry) {
      return entry.array.ndim() > 0 && entry.array.numel() > 0;
    });
    for (const Tensor& param : params) {
      param.set_data(Array::empty(param.shape(), param.dtype(), kMeta));
      param.set_grad(Tensor(Array::empty(param.shape(), param.dtype(), kMeta)));
    }
    optimizer->step();
    for (const Tensor& param : params) {
      param.set_grad({});
      param.set_data(Array::zeros(param.shape(), param.dtype()));
    }
    give(params, 2);
    if (has_arrays) {
      CHECK_THROWS_WITH(optimizer->step(), ContainsSubstring("has got values since its state '") &&
                                               ContainsSubstring("was made on meta"));
    }
  }
}

TEST_CASE("masters keep their digits when their parameters are cut", "[threads]") {
  for (const Maker& maker : all_with_masters()) {
    for (const DType dtype : {kBFloat16, kFloat16, kFloat32}) {
      const std::vector<Tensor> whole = leaves(dtype);
      const auto alone = maker.make(whole);
      train(whole, *alone, 0, 5);
      for (const int size : {2, 5}) {
        INFO(maker.name << ", " << name(dtype) << ", ranks " << size);
        on_ranks(size, [&](int rank, const GroupPtr& group) {
          const std::vector<Tensor> mine = leaves(dtype);
          const auto used = maker.make(mine);
          train(mine, *used, 0, 3);
          for (const Tensor& leaf : mine) cut_for(leaf, rank, size, group);
          train(mine, *used, 3, 5);
          expect_part_of(mine, whole);
          expect_part_of(used->parameters(), alone->parameters());
        });
      }
    }
  }
}

TEST_CASE("masters keep their digits when their parameters become wider") {
  for (const Maker& maker : all_with_masters()) {
    for (const DType to : {kFloat32, kFloat64, kFloat16}) {
      INFO(maker.name << ", to " << name(to));
      const std::vector<Tensor> a = leaves(kBFloat16);
      const auto used = maker.make(a);
      train(a, *used, 0, 4);
      const optim::StateDict before = used->state_dict();
      convert(a, to);
      CHECK(same_dict(used->state_dict(), converted(before, to)));
      // a program that loads them: its parameters of full precision get the digits at once
      const std::vector<Tensor> b = copies_of(a);
      const auto made = maker.make_default(b);
      made->load_state_dict(converted(before, to));
      train(a, *used, 4, 6);
      train(b, *made, 4, 6);
      CHECK(all_same(a, b));
      CHECK(all_same(used->parameters(), made->parameters()));
      // and one that saved none has none
      const std::vector<Tensor> c = leaves(to);
      const auto plain = maker.make(c);
      train(c, *plain, 0, 1);
      if (to == kFloat16) continue;
      for (size_t i = 0; i < a.size(); ++i) a[i].set_data(c[i].array().clone());
      used->load_state_dict(plain->state_dict());
      train(a, *used, 1, 3);
      train(c, *plain, 1, 3);
      CHECK(all_same(a, c));
      CHECK(is_same(used->parameters()[0], a[0]));
    }
  }
}

TEST_CASE("parameters that become halves get masters") {
  for (const Maker& maker : all_with_masters()) {
    for (const bool stepped : {false, true}) {
      INFO(maker.name << (stepped ? ", stepped" : ""));
      const std::vector<Tensor> a = leaves(kFloat32);
      const auto used = maker.make(a);
      if (stepped) train(a, *used, 0, 3);
      optim::StateDict state = used->state_dict();
      convert(a, kBFloat16);
      const std::vector<Tensor> b = copies_of(a);
      const auto made = maker.make(b);
      if (stepped) {
        for (size_t i = 0; i < b.size(); ++i) {
          state.push_back({"master." + std::to_string(i), b[i].array().to(kFloat32)});
        }
        made->load_state_dict(state);
      }
      train(a, *used, 3, 9);
      train(b, *made, 3, 9);
      CHECK(all_same(a, b));
      CHECK(all_same(used->parameters(), made->parameters()));
      CHECK(used->parameters()[0].dtype() == kFloat32);
    }
  }
}

TEST_CASE("a gradient that masters have taken is converted with them") {
  const std::vector<Tensor> a = leaves(kBFloat16), b = leaves(kBFloat16);
  Masters<optim::AdamW> used(a), plain(b);
  train(a, used, 0, 2);
  train(b, plain, 0, 2);
  give(a, 2);
  used.take_gradients();
  convert(a, kFloat64);
  convert(b, kFloat64);
  give(b, 2);
  for (const Tensor& param : b) {
    param.set_grad(Tensor(param.grad().array().to(kBFloat16).to(kFloat64)));
  }
  used.step();
  plain.step();
  CHECK(all_same(a, b));
  CHECK(used.parameters()[0].dtype() == kFloat64);
}

TEST_CASE("masters that cannot follow say so, and take over the parameters' values") {
  Meeting meeting(1);
  const auto group = std::make_shared<Together>(meeting);
  const std::vector<Tensor> params = {Tensor(noise_of({6, 4}, 1).to(kBFloat16), true)};
  Masters<optim::SGD> sgd(params, {.lr = 0.1});
  cut(params[0], {}, 0, 12, group);
  train(params, sgd, 0, 2);
  Partition elsewhere = *partition(params[0]);
  elsewhere.first = 6;
  set_part(params[0], noise_of({12}, 3).to(kBFloat16), std::make_shared<Partition>(elsewhere));
  give(params, 2);
  CHECK_THROWS_WITH(
      sgd.step(),
      ContainsSubstring("sgd: parameter 0 has become elements 6 to 17 of a parameter") &&
          ContainsSubstring("but its float32 master is of elements 0 to 11") &&
          ContainsSubstring("call refresh()"));
  // a state that was saved there has what they lack
  const Tensor there(noise_of({12}, 3).to(kBFloat16), true);
  set_part(there, there.array(), std::make_shared<Partition>(elsewhere));
  Masters<optim::SGD> other({there}, {.lr = 0.1});
  train({there}, other, 0, 1);
  Masters<optim::SGD> loaded({Tensor(noise_of({6, 4}, 1).to(kBFloat16), true)}, {.lr = 0.1});
  const Tensor model = loaded.model_parameters()[0];
  cut(model, {}, 0, 12, group);
  train({model}, loaded, 0, 1);
  set_part(model, there.array().clone(), std::make_shared<Partition>(elsewhere));
  loaded.load_state_dict(other.state_dict());
  train({there}, other, 1, 3);
  train({model}, loaded, 1, 3);
  CHECK(same_bits(loaded.parameters()[0], other.parameters()[0]));

  sgd.refresh();
  const Tensor twin(params[0].array().clone(), true);
  twin.set_grad(Tensor(params[0].grad().array().clone()));
  Masters<optim::SGD>({twin}, {.lr = 0.1}).step();
  sgd.step();
  CHECK(same_bits(params[0], twin));
}

TEST_CASE("ranks agree on an overflow though their masters are still whole", "[threads]") {
  std::vector<double> scales(3);
  std::vector<int> changed(3);
  on_ranks(3, [&](int rank, const GroupPtr& group) {
    const std::vector<Tensor> mine = {Tensor(noise_of({9}, 1).to(kFloat16), true)};
    Masters<optim::AdamW> adamw(mine);
    train(mine, adamw, 0, 2);
    cut(mine[0], {}, 3 * rank, 3 * rank + 3, group);
    const Array before = mine[0].array().clone();
    mine[0].set_grad(Tensor(Array::full({3}, rank == 1 ? HUGE_VAL : 1.0, kFloat16)));
    optim::GradScaler scaler;
    scaler.step(adamw);
    scaler.update();
    const auto at = static_cast<size_t>(rank);
    scales[at] = scaler.get_scale();
    changed[at] = same_bits(mine[0], Tensor(before)) ? 0 : 1;
  });
  CHECK(scales == std::vector<double>(3, 32768.0));
  CHECK(changed == std::vector<int>(3, 0));
}

TEST_CASE("parameters come back from their averages converted and cut", "[threads]") {
  const auto averaged = [](const std::vector<Tensor>& params, optim::EMA& ema) {
    for (int step = 0; step < 3; ++step) {
      const NoGrad no_grad;
      for (const Tensor& param : params) param.mul_(0.75);
      ema.step();
    }
  };
  for (const DType to : {kFloat32, kFloat64, kBFloat16}) {
    INFO(name(to));
    const std::vector<Tensor> whole = leaves(kFloat32);
    optim::EMA expected(whole, {.decay = 0.5});
    averaged(whole, expected);
    convert(whole, to);
    on_ranks(2, [&](int rank, const GroupPtr& group) {
      const std::vector<Tensor> mine = leaves(kFloat32);
      optim::EMA ema(mine, {.decay = 0.5});
      averaged(mine, ema);
      {
        const optim::EMA::Scope scope(ema);
        convert(mine, to);
        for (const Tensor& leaf : mine) cut_for(leaf, rank, 2, group);
        ema.load_state_dict(ema.state_dict());  // which leaves what the parameters were
      }
      expect_part_of(mine, whole);
      averaged(mine, ema);
    });
    averaged(whole, expected);
  }
}

TEST_CASE("a look-ahead ends where it began, converted and cut", "[threads]") {
  for (const DType to : {kFloat32, kFloat64, kBFloat16}) {
    INFO(name(to));
    const auto steps = [&](const std::vector<Tensor>& params, const auto& between) {
      optim::NesterovLookahead sgd(params, {.lr = 0.1});
      for (int step = 0; step < 4; ++step) {
        sgd.lookahead();
        if (step == 2) between();
        give(params, step < 3 ? step : 1);  // the second parameter without one at last
        sgd.step();
      }
    };
    const std::vector<Tensor> whole = leaves(kFloat32);
    steps(whole, [&] { convert(whole, to); });
    on_ranks(2, [&](int rank, const GroupPtr& group) {
      const std::vector<Tensor> mine = leaves(kFloat32);
      steps(mine, [&] {
        convert(mine, to);
        for (const Tensor& leaf : mine) cut_for(leaf, rank, 2, group);
      });
      expect_part_of(mine, whole);
    });
  }
}

TEST_CASE("the history of lbfgs is converted") {
  for (const auto& [from, to] : kConversions) {
    INFO(name(from) << " to " << name(to));
    const auto step = [](const std::vector<Tensor>& params, optim::LBFGS& lbfgs) {
      lbfgs.step([&] {
        lbfgs.zero_grad();
        const Tensor target(noise_of({12, 10}, 9).to(params[0].dtype()));
        Tensor loss = mean(square(square(params[0] - target)) + square(params[0] - target));
        loss.backward();
        return loss;
      });
    };
    const std::vector<Tensor> a = {leaves(from)[0]};
    const optim::LBFGSOptions options = {.lr = 0.5, .max_iter = 3};
    optim::LBFGS used(a, options);
    step(a, used);
    const optim::StateDict before = used.state_dict();
    convert(a, to);
    optim::StateDict wide = converted(before, to);
    for (size_t i = 0; i < wide.size(); ++i) {
      if (wide[i].name == "lbfgs.inverses") wide[i].array = before[i].array;
    }
    CHECK(same_dict(used.state_dict(), wide));
    const std::vector<Tensor> b = copies_of(a);
    optim::LBFGS made(b, options);
    made.load_state_dict(wide);
    step(a, used);
    step(b, made);
    CHECK(all_same(a, b));
    CHECK(!same_dict(used.state_dict(), wide));
  }
}

TEST_CASE("states in a file follow their parameters", "[paged][threads]") {
  const auto check_paged = [](auto maker_of, DType from, DType to) {
    for (const int64_t window : {int64_t{1}, int64_t{700}, int64_t{1} << 40}) {
      INFO(name(from) << " to " << name(to) << ", " << window << " bytes a window");
      const std::vector<Tensor> whole = leaves(from);
      const auto alone = maker_of(whole, nullptr, window);
      train(whole, *alone, 0, 3);
      convert(whole, to);
      train(whole, *alone, 3, 6);
      core::SwapFile file(folder(), {.bytes = int64_t{1} << 20});
      const std::vector<Tensor> mine = leaves(from);
      Ledger ledger;
      {
        const LedgerScope scope(ledger);
        const auto paged = maker_of(mine, &file, window);
        train(mine, *paged, 0, 3);
        convert(mine, to);
        CHECK(paged->state_dict().size() == alone->state_dict().size());
        CHECK(ledger.live(MemoryTag::optimizer) == 0);
        train(mine, *paged, 3, 6);
        CHECK(ledger.live(MemoryTag::optimizer) == 0);
        CHECK(all_same(mine, whole));
        CHECK(same_dict(paged->state_dict(), alone->state_dict()));
      }
      CHECK(file.used() == 0);
      on_ranks(2, [&](int rank, const GroupPtr& group) {
        core::SwapFile own(folder(), {.bytes = int64_t{1} << 20});
        const std::vector<Tensor> shards = leaves(from);
        const auto paged = maker_of(shards, &own, window);
        train(shards, *paged, 0, 3);
        convert(shards, to);
        for (const Tensor& leaf : shards) cut_for(leaf, rank, 2, group);
        train(shards, *paged, 3, 6);
        expect_part_of(shards, whole);
      });
    }
  };
  const auto maker_for = []<class O>(const auto& options) {
    return [options](const std::vector<Tensor>& params, core::SwapFile* file, int64_t window) {
      std::unique_ptr<optim::Optimizer> made;
      if (file == nullptr) {
        made = std::make_unique<O>(params, options);
      } else {
        made = std::make_unique<optim::Paged<O>>(*file, params, options,
                                                 optim::PagedOptions{.window_bytes = window});
      }
      return made;
    };
  };
  using optim::AdamW, optim::AdamWOptions, optim::SGD, optim::SGDOptions;
  const auto adamw = maker_for.operator()<AdamW>(AdamWOptions{.lr = 0.01});
  check_paged(adamw, kFloat32, kFloat64);
  check_paged(adamw, kBFloat16, kFloat32);
  const auto masters = maker_for.operator()<Masters<AdamW>>(AdamWOptions{.lr = 0.01});
  check_paged(masters, kBFloat16, kFloat32);
  check_paged(masters, kFloat32, kBFloat16);
  check_paged(masters, kBFloat16, kFloat64);
  check_paged(maker_for.operator()<Masters<SGD>>(SGDOptions{.lr = 0.1, .momentum = 0.9}), kFloat64,
              kFloat16);
}
