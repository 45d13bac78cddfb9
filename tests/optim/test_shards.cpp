// What looks at all elements of a parameter gives the same bits whether it is whole or cut.
#include <cmath>
#include <limits>

#include "optim/all_optimizers.h"
#include "optim/shards.h"

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A large matrix, one smaller than most numbers of ranks, and a vector; each rank holds the last
// one whole.
std::vector<Tensor> three_params(DType dtype) {
  std::vector<Tensor> params;
  int seed = 20;
  for (const Shape& shape : {Shape{70, 30}, Shape{3}, Shape{40}}) {
    const Array values = noise(shape.numel(), seed++).array().to(dtype).reshape(shape);
    params.emplace_back(values, true);
    const Array gradient = noise(shape.numel(), seed++).array().to(dtype).reshape(shape);
    params.back().set_grad(Tensor(gradient));
  }
  return params;
}

Tensor copy_of(const Tensor& param) {
  const Tensor copy(param.array().clone(), true);
  if (param.grad().defined()) copy.set_grad(Tensor(param.grad().array().clone()));
  return copy;
}

// What one rank trains.
std::vector<Tensor> cut(const std::vector<Tensor>& whole, int rank, int size,
                        const GroupPtr& group) {
  return {shard_of_rank(whole[0], rank, size, group), shard_of_rank(whole[1], rank, size, group),
          copy_of(whole[2])};
}

// The two that are cut, as the ranks left them.
void put_both_back(const std::vector<Tensor>& mine, const std::vector<Tensor>& whole) {
  for (const size_t i : {0, 1}) put_back(mine[i], whole[i]);
}

std::vector<Tensor> copies_of(const std::vector<Tensor>& params) {
  std::vector<Tensor> copies;
  for (const Tensor& param : params) copies.push_back(copy_of(param));
  return copies;
}

}  // namespace

TEST_CASE("clipping shards gives every owner the norm of the whole, bit for bit", "[threads]") {
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) {
    const std::vector<Tensor> original = three_params(kFloat32);
    const std::vector<Tensor> whole = copies_of(original);
    const double norm = optim::clip_grad_norm(whole, 0.125, {.norm = p}).item();
    for (int size = 1; size <= 8; ++size) {
      INFO("norm " << p << ", ranks " << size);
      const std::vector<Tensor> parts = copies_of(original);
      std::vector<double> norms(static_cast<size_t>(size));
      const int64_t met = on_ranks(size, [&](int rank, const GroupPtr& group) {
        const auto mine = cut(parts, rank, size, group);
        norms[static_cast<size_t>(rank)] = optim::clip_grad_norm(mine, 0.125, {.norm = p}).item();
        check(same_bits(mine[2].grad(), whole[2].grad()), "the whole parameter's gradient differs");
        put_both_back(mine, parts);
      });
      CHECK(met == 1);  // all shards of the same group in one collective
      CHECK(norms == std::vector<double>(static_cast<size_t>(size), norm));
      CHECK(same_bits(parts[0].grad(), whole[0].grad()));
      CHECK(same_bits(parts[1].grad(), whole[1].grad()));
    }
  }
}

TEST_CASE("one owner's infinite gradient is an error for all, before anything changes") {
  for (const double p : {2.0, kInfinity}) {
    const std::vector<Tensor> whole = three_params(kFloat32);
    whole[1].grad().array().data<float>()[2] = std::nanf("");
    const std::vector<Tensor> before = copies_of(whole);
    std::vector<int> threw(4);
    on_ranks(4, [&](int rank, const GroupPtr& group) {
      const auto mine = cut(whole, rank, 4, group);
      try {
        optim::clip_grad_norm(mine, 1.0, {.norm = p, .error_if_nonfinite = true});
      } catch (const Error&) {
        threw[static_cast<size_t>(rank)] = 1;
      }
      put_both_back(mine, whole);
    });
    CHECK(threw == std::vector<int>(4, 1));
    CHECK(same_bits(whole[0].grad(), before[0].grad()));
  }
}

TEST_CASE("an owner without a gradient takes part in the norm") {
  const std::vector<Tensor> whole = three_params(kFloat32);
  const double norm = optim::grad_norm({whole[0]}).item();
  std::vector<double> norms(2);
  on_ranks(2, [&](int rank, const GroupPtr& group) {
    const Tensor all = shard_of(whole[0], 0, rank == 0 ? 2100 : 0, group);
    if (rank == 1) all.set_grad({});
    norms[static_cast<size_t>(rank)] = optim::grad_norm({all}).item();
  });
  CHECK(norms == std::vector<double>(2, norm));
}

TEST_CASE("every optimizer trains shards, empty ones too, with the bits of the whole",
          "[threads]") {
  for (const Maker& maker : all_optimizers()) {
    const std::vector<Tensor> original = three_params(kFloat32);
    const std::vector<Tensor> whole = copies_of(original);
    const auto optimizer = maker.make(whole);
    for (int step = 0; step < 4; ++step) {
      give_gradients(whole, step);
      optimizer->step();
    }
    for (const int size : {1, 2, 7}) {
      INFO(maker.name << ", ranks " << size);
      const std::vector<Tensor> parts = copies_of(original);
      on_ranks(size, [&](int rank, const GroupPtr& group) {
        const auto mine = cut(parts, rank, size, group);
        auto part = maker.make(mine);
        for (int step = 0; step < 4; ++step) {
          const std::vector<Tensor> gradients = copies_of(original);
          give_gradients(gradients, step);
          const auto pieces = cut(gradients, rank, size, group);
          for (size_t i = 0; i < mine.size(); ++i) mine[i].set_grad(pieces[i].grad());
          part->step();
          if (step != 1) continue;
          auto resumed = maker.make_default(mine);  // in the middle, from a state dict
          resumed->load_state_dict(part->state_dict());
          part = std::move(resumed);
        }
        check(same_bits(mine[2], whole[2]), "the whole parameter differs");
        put_both_back(mine, parts);
      });
      CHECK(same_bits(parts[0], whole[0]));
      CHECK(same_bits(parts[1], whole[1]));
    }
  }
}

TEST_CASE("masters of shards are shards: LAMB over them has the bits of the whole") {
  const std::vector<Tensor> original = three_params(kBFloat16);
  using Masters = optim::MasterWeights<optim::LAMB>;
  const optim::LAMBOptions options = {.lr = 0.01, .weight_decay = 0.1};
  const std::vector<Tensor> whole = copies_of(original), parts = copies_of(original);
  Masters lamb(whole, options);
  const double norm = optim::grad_norm(whole).item();
  for (int step = 0; step < 3; ++step) lamb.step();
  on_ranks(3, [&](int rank, const GroupPtr& group) {
    const auto mine = cut(parts, rank, 3, group);
    Masters part(mine, options);
    check(partition(part.parameters()[0])->whole == Shape{70, 30}, "the master is no shard");
    check(!partition(part.parameters()[2]), "the whole parameter's master is a shard");
    for (int step = 0; step < 3; ++step) part.step();
    part.take_gradients();
    check(optim::grad_norm(part.parameters()).item() == norm, "the masters' norm differs");
    put_both_back(mine, parts);
  });
  CHECK(same_bits(parts[0], whole[0]));
  CHECK(same_bits(parts[1], whole[1]));
}

TEST_CASE("a step of LAMB over shards is one collective, however many parameters there are") {
  const std::vector<Tensor> whole = three_params(kFloat32);
  const int64_t met = on_ranks(3, [&](int rank, const GroupPtr& group) {
    const auto mine = cut(whole, rank, 3, group);
    optim::LAMB lamb({{{mine[0], mine[2]}, {.lr = 0.01}}, {{mine[1]}, {.lr = 0.1}}});
    for (int step = 0; step < 4; ++step) lamb.step();
  });
  CHECK(met == 4);
}

TEST_CASE("an overflow in one owner's shard makes all leave the step out") {
  for (const bool unscale : {false, true}) {
    const std::vector<Tensor> whole = three_params(kFloat32);
    whole[1].grad().array().data<float>()[2] = std::numeric_limits<float>::infinity();
    const std::vector<Tensor> before = copies_of(whole);
    std::vector<double> scales(3);
    on_ranks(3, [&](int rank, const GroupPtr& group) {
      const auto mine = cut(whole, rank, 3, group);
      optim::SGD sgd(mine, {.lr = 1.0});
      optim::GradScaler scaler;
      if (unscale) scaler.unscale_(sgd);
      check(!scaler.step(sgd), "stepped");
      scaler.update();
      scales[static_cast<size_t>(rank)] = scaler.get_scale();
      put_both_back(mine, whole);
    });
    CHECK(scales == std::vector<double>(3, 32768.0));
    CHECK(same_bits(whole[0], before[0]));
  }
}

TEST_CASE("optimizers that need whole parameters refuse shards and say what to do") {
  const Tensor whole = three_params(kFloat64)[1];
  Meeting meeting(1);
  const Tensor shard = shard_of(whole, 0, 2, std::make_shared<Together>(meeting));
  optim::LBFGS lbfgs({shard});
  optim::Newton newton({shard});
  const auto loss = [&] { return sum(square(shard)); };
  for (const auto& step : {std::function<void()>([&] { lbfgs.step(loss); }),
                           std::function<void()>([&] { newton.step(loss); })}) {
    CHECK_THROWS_WITH(step(), ContainsSubstring(": parameter 0 is a shard of [3]") &&
                                  ContainsSubstring("gather them"));
  }
}
