// Batch norm over the batches of all ranks, and numbers that ranks bring together.
#include <cmath>
#include <limits>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops/collectives.h>
#include <hero/dist/data_parallel/communicator_group.h>
#include <hero/dist/metrics.h>
#include <hero/dist/sync_batch_norm.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// A small network with two norms; its parent holds them by references of its own.
struct NormNet : nn::Module {
  nn::Conv2d& conv = add<nn::Conv2d>("conv", 2, 4, 3);
  nn::BatchNorm2d& norm = add<nn::BatchNorm2d>("norm", 4);
  nn::Linear& out = add<nn::Linear>("out", 4 * 3 * 3, 6);
  nn::BatchNorm1d& last = add<nn::BatchNorm1d>("last", 6, nn::BatchNormOptions{.momentum = {}});
  Tensor forward(const Tensor& x) override { return last(out(flatten(relu(norm(conv(x))), 1))); }
};

// What two steps of SGD on this rank's rows of a batch of eight end with.
nn::StateDict train_norms(const dist::Communicator& world) {
  manual_seed(5);
  NormNet net;
  expect(dist::convert_sync_batch_norm(net, world) == 2, "two norms");
  if (world.size() > 1) dist::DDP(net, world);
  optim::SGD sgd(net.parameters(), {.lr = 0.5, .momentum = 0.9});
  const int64_t rows = 8 / world.size();
  for (int step = 0; step < 2; ++step) {
    const Tensor x(noise({8, 2, 5, 5}, kFloat32, static_cast<uint64_t>(step + 1)));
    const Tensor target(noise({8, 6}, kFloat32, static_cast<uint64_t>(step + 9)));
    const auto mine = [&](const Tensor& t) {
      return t.slice(0, world.rank() * rows, (world.rank() + 1) * rows);
    };
    square(net(mine(x)) - mine(target)).mean().backward();
    sgd.step();
    sgd.zero_grad();
  }
  nn::StateDict state;
  for (const auto& [name, array] : net.state_dict()) state.push_back({name, array.clone()});
  return state;
}

// 1e-5: float32, sums of 8 to 72 terms in another order
constexpr double kNearNorm = 1e-5;

}  // namespace

TEST_CASE("a norm over ranks is the norm of one batch that has all samples", "[sync_batch_norm]") {
  const Tensor x(noise({6, 3, 4})), pull(noise({6, 3, 4}, kFloat32, 4));
  manual_seed(1);
  nn::BatchNorm1d plain(3);
  {
    const NoGrad no_grad;
    plain.weight.copy_(tensor({0.5, 2.0, -1.0}));
    plain.bias.copy_(tensor({0.1, 0.2, 0.3}));
  }
  const Tensor whole_x = x.clone().requires_grad_();
  const Tensor expected = plain(whole_x);
  sum(expected * pull).backward();
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      // shares of 3 and 3, and of 1, 2 and 3 samples
      const std::vector<int64_t> ends = ranks == 3   ? std::vector<int64_t>{0, 1, 3, 6}
                                        : ranks == 2 ? std::vector<int64_t>{0, 3, 6}
                                                     : std::vector<int64_t>{0, 6};
      const auto rank = static_cast<size_t>(world.rank());
      const auto mine = [&](const Tensor& t) { return t.slice(0, ends[rank], ends[rank + 1]); };
      dist::SyncBatchNorm norm(3, world);
      norm.load_state_dict({{"weight", plain.weight.array()}, {"bias", plain.bias.array()}},
                           {.strict = false});
      const Tensor part = mine(x).clone().requires_grad_();
      const Tensor y = norm(part);
      sum(y * mine(pull)).backward();
      const auto near = [](const Tensor& a, const Tensor& b) {
        return max(abs(a - b)).item() < kNearNorm;
      };
      expect(near(y, mine(expected)), "outputs");
      expect(near(part.grad(), mine(whole_x.grad())), "gradients");
      expect(near(norm.running_mean, plain.running_mean), "running mean");
      expect(near(norm.running_var, plain.running_var), "running variance");
      expect(norm.num_batches_tracked.item() == 1.0, "batches");
      const Tensor summed = norm.weight.grad().clone();
      world.all_reduce(summed.array());
      expect(near(summed, plain.weight.grad()), "gradient of the weight");
      norm.eval();
      nn::BatchNorm1d other(3);
      other.load_state_dict(norm.state_dict());
      other.eval();
      expect(equal(norm(part), other(part)), "evaluation");
    });
  }
}

TEST_CASE("a rank without samples takes the statistics of the others", "[sync_batch_norm]") {
  const Tensor x(noise({5, 3, 4})), pull(noise({5, 3, 4}, kFloat32, 4));
  for (const bool flat : {false, true}) {
    const Tensor all = flat ? x.select(2, 0) : x, pulls = flat ? pull.select(2, 0) : pull;
    nn::BatchNorm1d plain(3);
    const Tensor whole_x = all.clone().requires_grad_();
    const Tensor expected = plain(whole_x);
    sum(expected * pulls).backward();
    for (const std::vector<int64_t>& ends :
         {std::vector<int64_t>{0, 0, 5}, {0, 5, 5}, {0, 2, 2, 5}, {0, 0, 0, 0, 5}}) {
      for (const bool again : {false, true}) {
        CAPTURE(flat, ends, again);
        dist::run_ranks(static_cast<int>(ends.size()) - 1, [&](dist::Communicator& world) {
          const auto rank = static_cast<size_t>(world.rank());
          const auto mine = [&](const Tensor& t) { return t.slice(0, ends[rank], ends[rank + 1]); };
          dist::SyncBatchNorm norm(3, world);
          const Tensor part = mine(all).clone().requires_grad_();
          const Tensor y = again ? checkpoint(norm, part) : norm(part);
          sum(y * mine(pulls)).backward();
          const auto near = [](const Tensor& a, const Tensor& b) {
            return a.shape() == b.shape() && (a.numel() == 0 || max(abs(a - b)).item() < kNearNorm);
          };
          expect(near(y, mine(expected)), "outputs");
          expect(near(part.grad(), mine(whole_x.grad())), "gradients");
          expect(near(norm.running_mean, plain.running_mean), "running mean");
          expect(near(norm.running_var, plain.running_var), "running variance");
          expect(norm.num_batches_tracked.item() == 1.0, "batches");
          const Array first = norm.running_mean.array().clone();
          world.broadcast(first, 0);
          expect(same(first, norm.running_mean.array()), "the same bits on all ranks");
          for (const Tensor& p : norm.parameters()) world.all_reduce(p.grad().array());
          expect(near(norm.weight.grad(), plain.weight.grad()), "gradient of the weight");
          expect(near(norm.bias.grad(), plain.bias.grad()), "gradient of the bias");
          norm.eval();
          expect(norm(part).shape() == part.shape(), "evaluation");
        });
      }
    }
  }
}

TEST_CASE("ranks that have one value per channel together, or none, are told so",
          "[sync_batch_norm]") {
  for (const int64_t with_rank_1 : {0, 1}) {
    const auto errors = errors_of(2, [&](dist::Communicator& world) {
      dist::SyncBatchNorm norm(3, world);
      norm(ones({world.rank() == 1 ? with_rank_1 : 0, 3}));
    });
    for (const std::string& error : errors) {
      CHECK_THAT(error,
                 ContainsSubstring("training needs more than one value per channel") &&
                     ContainsSubstring("and " + std::to_string(with_rank_1) + " on all ranks"));
    }
  }
}

TEST_CASE("a network with such norms trains under DDP as one process with the whole batch",
          "[sync_batch_norm]") {
  nn::StateDict alone;
  dist::run_ranks(1, [&](dist::Communicator& world) { alone = train_norms(world); });
  REQUIRE(alone.size() == 14);
  for (const int ranks : {2, 4}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const nn::StateDict found = train_norms(world);
      for (size_t i = 0; i < alone.size(); ++i) {
        const double off = max(abs(Tensor(found[i].array) - Tensor(alone[i].array))).item();
        // two steps of lr 0.5 of gradients up to 5, whose sums of 8 to 72 terms differ in order
        expect(off < 1e-4, alone[i].name, " differs by ", off);
      }
    });
  }
}

TEST_CASE("a norm over ranks alone has the same bits on any power of two", "[sync_batch_norm]") {
  const Tensor x(noise({8, 5, 3})), pull(noise({8, 5, 3}, kFloat32, 4));
  Whole alone;
  for (const int ranks : {1, 2, 4, 8}) {
    Whole found;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      dist::SyncBatchNorm norm(5, world);
      const int64_t rows = 8 / world.size(), begin = rows * world.rank();
      const Tensor part = x.slice(0, begin, begin + rows).clone().requires_grad_();
      const Tensor y = norm(part);
      sum(y * pull.slice(0, begin, begin + rows)).backward();
      Whole& into = ranks == 1 ? alone : found;
      into.add("y", x.numel(), begin * 15, y.array());
      into.add("x.grad", x.numel(), begin * 15, part.grad().array());
      for (const Tensor& p : {norm.weight, norm.bias}) world.all_reduce(p.grad().array());
      into.add("weight.grad", 5, 0, norm.weight.grad().array());
      into.add("bias.grad", 5, 0, norm.bias.grad().array());
      into.add("running_mean", 5, 0, norm.running_mean.array());
      into.add("running_var", 5, 0, norm.running_var.array());
    });
    if (ranks > 1) CHECK(alone.difference(found) == "");
  }
}

TEST_CASE("a checkpoint counts a batch of all ranks once, and a single value has no variance",
          "[sync_batch_norm]") {
  const auto train = [](bool again) {
    nn::StateDict state;
    dist::run_ranks(2, [&](dist::Communicator& world) {
      manual_seed(6);
      NormNet net;
      dist::convert_sync_batch_norm(net, world);
      const dist::DDP ddp(net, world);
      for (int step = 0; step < 2; ++step) {
        const Tensor x(
            noise({3, 2, 5, 5}, kFloat32, static_cast<uint64_t>(2 * step + world.rank())));
        square(again ? checkpoint(net, x) : net(x)).sum().backward();
      }
      if (world.rank() == 0) state = net.state_dict();
    });
    return state;
  };
  CHECK(same_state(train(true), train(false)));
  const auto errors = errors_of(1, [](dist::Communicator& world) {
    dist::SyncBatchNorm norm(3, world);
    norm(ones({1, 3}));
  });
  CHECK_THAT(errors[0],
             ContainsSubstring("training needs more than one value per channel: [1, 3]"));
}

TEST_CASE("second derivatives go through a norm over ranks", "[sync_batch_norm]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    dist::SyncBatchNorm norm(2, world, {.track_running_stats = false});
    norm.to(kFloat64);
    const auto group = std::make_shared<dist::CommunicatorGroup>(world);
    // what all ranks compute together of what all have
    const auto run = [&](const std::vector<Tensor>& in) {
      const Tensor mine = collectives::split(in[0], 0, group);
      return collectives::gather(norm(mine), 0, group);
    };
    const Tensor x = Tensor(noise({4, 2, 3}, kFloat64)).requires_grad_();
    gradcheck(TensorFunction(run), {x});
    gradgradcheck(TensorFunction(run), {x});
  });
}

TEST_CASE("converting keeps tensors, options and modes", "[sync_batch_norm]") {
  dist::run_ranks(1, [](dist::Communicator& world) {
    NormNet net;
    net.eval();
    const Tensor weight = net.norm.weight, mean = net.last.running_mean;
    dist::convert_sync_batch_norm(net, world);
    auto& last = dynamic_cast<dist::SyncBatchNorm&>(net.get_submodule("last"));
    expect(is_same(net.get_parameter("norm.weight"), weight), "the same weight");
    expect(is_same(last.running_mean, mean), "the same buffer");
    expect(!last.options().momentum.has_value() && !last.training(), "options and mode");
    expect(dist::convert_sync_batch_norm(net, world) == 0, "nothing is left");
  });
  const auto errors = errors_of(1, [](dist::Communicator& world) {
    nn::BatchNorm1d norm(3);
    dist::convert_sync_batch_norm(norm, world);
  });
  CHECK_THAT(errors[0], ContainsSubstring("the module is a BatchNorm1d itself"));
}

TEST_CASE("numbers of all ranks are brought together, with weights", "[metrics]") {
  dist::run_ranks(3, [](dist::Communicator& world) {
    const double r = world.rank();
    const auto got = dist::gather_metrics(world, {{"loss", 1.0 + r}, {"hits", 10.0 * r}},
                                          {.weight = r == 2 ? 2.0 : 1.0});
    expect(got.size() == 2 && got[0].name == "loss" && got[1].name == "hits", "names");
    expect(got[0].values == std::vector<double>{1.0, 2.0, 3.0}, "values");
    expect(got[0].mean == (1.0 + 2.0 + 2.0 * 3.0) / 4.0, "the weighted mean");
    expect(got[1].sum == 30.0 && got[1].min == 0.0 && got[1].max == 20.0, "sum and range");
    const std::vector<nn::Metric> one = {{"loss", r == 0 ? std::nan("") : 4.0}};
    expect(dist::mean_metrics(world, one, {.weight = r == 0 ? 0.0 : 1.0})[0].value == 4.0,
           "who has no samples has no say");
  });
  const auto errors = errors_of(2, [](dist::Communicator& world) {
    dist::gather_metrics(world, {{world.rank() == 0 ? "loss" : "lass", 1.0}});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("gather_metrics: rank 0 has loss, rank 1 has lass"));
  }
  const auto weightless = errors_of(2, [](dist::Communicator& world) {
    dist::gather_metrics(world, {{"loss", 1.0}}, {.weight = 0.0});
  });
  CHECK_THAT(weightless[0], ContainsSubstring("weight is 0 on all ranks"));
}
