// Experts over the ranks of an axis against one process with all experts and all tokens.
#include <algorithm>
#include <string>
#include <vector>

#include "dist/parallel/experts.h"
#include "support/catch.h"

using namespace hero;
using namespace hero::test;

namespace {

// What averages the gradients of all but the experts.
enum class Rest { ddp, zero1, zero2, zero3, fsdp };

void average_rest(Rest rest, nn::Module& model, const dist::Communicator& world,
                  const std::vector<std::string>& experts) {
  switch (rest) {
    case Rest::ddp:
      dist::DDP(model, world, {.bucket_bytes = 300, .ignored_modules = experts});
      return;
    case Rest::zero1:
      dist::ZeRO(model, world, {.stage = 1, .bucket_bytes = 300, .ignored_modules = experts});
      return;
    case Rest::zero2:
      dist::ZeRO(model, world, {.stage = 2, .bucket_bytes = 300, .ignored_modules = experts});
      return;
    case Rest::zero3:
      dist::ZeRO(model, world, {.stage = 3, .ignored_modules = experts});
      return;
    case Rest::fsdp:
      dist::fully_shard(model, world,
                        {.unit = dist::each<nn::Linear>(), .ignored_modules = experts});
      return;
  }
}

// Three steps with clipping.
void train_mixture(Mixture& model, const std::function<Tensor(const Tensor&)>& own) {
  optim::SGD sgd(model.parameters(), {.lr = 0.3, .momentum = 0.9});
  for (int step = 0; step < 3; ++step) {
    mixture_loss(model, own(all_tokens(step, kFloat64))).backward();
    optim::clip_grad_norm(model.parameters(), 0.5);
    sgd.step();
    sgd.zero_grad();
  }
}

// The largest difference of a rank's parts from the parameters of a whole model.
double difference_from(Mixture& whole, Mixture& model) {
  double largest = 0.0;
  for (const auto& [name, leaf] : model.named_parameters()) {
    if (leaf.numel() == 0) continue;
    const Tensor expected(slice_of(whole.get_parameter(name).array(), leaf));
    largest = std::max(largest, amax(abs(leaf.detach() - expected)).item());
  }
  return largest;
}

}  // namespace

TEST_CASE("tokens and experts over ranks have the bits of one process", "[expert][threads]") {
  for (const nn::MoEOptions& options : {kBothLosses, kSwitch, kShared}) {
    const auto whole = make_mixture(options, kFloat32);
    const Tensor x = all_tokens(0, kFloat32).requires_grad_();
    const Tensor y = (*whole)(x);
    mixture_loss(*whole, x).backward();
    const Tensor aux = whole->moe.aux_loss();
    for (const int ranks : {1, 2, 4}) {
      CAPTURE(ranks, options.top_k);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto model = make_mixture(options, kFloat32);
        const auto paths = dist::expert_parallel(*model, world);
        expect(paths == std::vector<std::string>{"moe.experts"}, "the path of the experts");
        expect(model->moe.experts.w1.size(0) == kExperts / ranks, "this rank's experts");
        dist::DDP(*model, world, {.ignored_modules = paths});
        const Tensor own = own_tokens(x.detach(), world.rank(), ranks).clone().requires_grad_();
        const Tensor z = (*model)(own);
        expect(same(z.array(), own_tokens(y, world.rank(), ranks).contiguous().array()), "output");
        mixture_loss(*model, own).backward();
        const Tensor gx = own_tokens(x.grad(), world.rank(), ranks) * ranks;
        expect(same(own.grad().array(), gx.contiguous().array()), "gradients of tokens");
        const Array mean_aux = model->moe.aux_loss().detach().clone().array();
        world.all_reduce(mean_aux, {.op = dist::ReduceOp::mean});
        expect(allclose(Tensor(mean_aux), aux, 1e-6, 0), "the losses' mean");
        for (const auto& [name, leaf] : model->named_parameters()) {
          const Array expected = slice_of(whole->get_parameter(name).grad().array(), leaf);
          if (is_experts(name)) {
            expect(same(leaf.grad().array(), expected), "gradient of ", name);
          }
          // sums of 24 tokens, of 6 per rank in another order
          expect(allclose(leaf.grad(), Tensor(expected), 1e-4, 1e-6), "gradient of ", name);
        }
      });
    }
  }
}

TEST_CASE("a mixture of experts trains on any number of ranks and strategies as in one process",
          "[expert]") {
  for (const nn::MoEOptions& options : {kBothLosses, kSwitch}) {
    const auto whole = make_mixture(options, kFloat64);
    train_mixture(*whole, [](const Tensor& x) { return x; });
    for (const int ranks : {1, 2, 4}) {
      for (const Rest rest : {Rest::ddp, Rest::zero1, Rest::zero2, Rest::zero3, Rest::fsdp}) {
        CAPTURE(ranks, static_cast<int>(rest));
        dist::run_ranks(ranks, [&](dist::Communicator& world) {
          const auto model = make_mixture(options, kFloat64);
          average_rest(rest, *model, world, dist::expert_parallel(*model, world));
          train_mixture(*model,
                        [&](const Tensor& x) { return own_tokens(x, world.rank(), world.size()); });
          // float64, three steps
          expect(difference_from(*whole, *model) < 1e-12, difference_from(*whole, *model));
        });
      }
    }
  }
}

TEST_CASE("experts that are sharded over a data axis train as in one process", "[expert]") {
  const auto whole = make_mixture(kBothLosses, kFloat64);
  train_mixture(*whole, [](const Tensor& x) { return x; });
  for (const bool on_meta : {false, true}) {
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"data", 2}, {"expert", 2}});
      std::unique_ptr<Mixture> model;
      if (on_meta) {
        const nn::DeviceScope meta(kMeta);
        model = make_mixture(kBothLosses, kFloat64);
      } else {
        model = make_mixture(kBothLosses, kFloat64);
      }
      const auto experts = dist::expert_parallel(*model, mesh["expert"], {.loads_over = world});
      dist::fully_shard(model->get_submodule(experts.at(0)), mesh["data"]);
      dist::fully_shard(*model, world, {.unit = dist::each<nn::MoE>()});
      expect(model->moe.experts.parameter_count() == whole->moe.experts.parameter_count() / 4,
             "a fourth of the experts");
      if (on_meta) return;  // the router's values are not those of its recipe
      train_mixture(*model,
                    [&](const Tensor& x) { return own_tokens(x, world.rank(), world.size()); });
      expect(difference_from(*whole, *model) < 1e-12, difference_from(*whole, *model));
    });
  }
}

TEST_CASE("second derivatives go through experts on other ranks", "[expert]") {
  const auto second = [](Mixture& model, const Tensor& x) {
    const Tensor g = grad({sum(square(model(x)))}, {x}, {.create_graph = true})[0];
    return grad({sum(g * g * g)}, {x})[0];
  };
  const auto whole = make_mixture(kBothLosses, kFloat32);
  const Tensor x = all_tokens(0, kFloat32).requires_grad_();
  const Tensor expected = second(*whole, x);
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto model = make_mixture(kBothLosses, kFloat32);
    dist::expert_parallel(*model, world);
    const Tensor own = own_tokens(x.detach(), world.rank(), 2).clone().requires_grad_();
    const Tensor want = own_tokens(expected, world.rank(), 2);
    expect(allclose(second(*model, own), want, 1e-5, 1e-6), "second derivative");
  });
}

TEST_CASE("ranks may have no tokens and each fills capacities by itself", "[expert]") {
  nn::MoEOptions options = kBothLosses;
  options.capacity_factor = 0.75;
  const auto whole = make_mixture(options, kFloat32);
  const Tensor x = all_tokens(0, kFloat32);
  dist::run_ranks(4, [&](dist::Communicator& world) {
    const auto model = make_mixture(options, kFloat32), alone = make_mixture(options, kFloat32);
    dist::expert_parallel(*model, world);
    const Tensor own = narrow(x, 0, 0, world.rank() * 6);  // 0, 6, 12, 18 tokens
    const Tensor y = (*model)(own);
    expect(same(y.array(), (*alone)(own).array()), "output");
    expect(model->moe.statistics().dropped == alone->moe.statistics().dropped, "dropped");
    expect(world.rank() == 0 || model->moe.statistics().dropped > 0, "some are dropped");
    mean(y).backward();
    expect(model->moe.experts.w1.grad().defined(), "gradients on every rank");
  });
}

TEST_CASE("what experts send is rows that leave the rank, four times a step", "[expert]") {
  for (const int ranks : {1, 2, 4}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"expert", ranks}});
      const auto model = make_mixture(kBothLosses, kFloat32);
      dist::expert_parallel(*model, mesh["expert"]);
      world.traffic().reset();
      mixture_loss(*model, own_tokens(all_tokens(0, kFloat32), world.rank(), ranks)).backward();
      const auto loads = model->moe.statistics().tokens_per_expert;
      int64_t leave = 0;
      for (int64_t e = 0; e < kExperts; ++e) {
        if (e / (kExperts / ranks) != world.rank()) leave += loads[static_cast<size_t>(e)];
      }
      // results that come back are of rows that came from others
      const Array came = Array::from(std::vector<int64_t>(loads), {kExperts});
      world.all_reduce(came);
      int64_t arrive = 0;
      const std::vector<int64_t> sums = came.to_vector<int64_t>();
      for (int64_t e = 0; e < kExperts; ++e) {
        if (e / (kExperts / ranks) != world.rank()) continue;
        arrive += sums[static_cast<size_t>(e)] - loads[static_cast<size_t>(e)];
      }
      const int64_t rows = 2 * (leave + arrive) * kMoEWidth * 4;  // forward and backward
      const int64_t counts = 8 * kExperts * (ranks - 1) / ranks;
      const int64_t sent = mesh.world().traffic().bytes_of_axis("expert");
      expect(sent == rows + 3 * counts, sent, " bytes, not ", rows + 3 * counts);
    });
  }
}

TEST_CASE("simulated ranks send what evenly spread tokens would", "[expert]") {
  constexpr int kRanks = 64;
  constexpr int64_t kMany = 256, kWide = 512, kBatch = 1024;
  dist::simulate_ranks(
      kRanks,
      [&](dist::Communicator& world) {
        const nn::DeviceScope meta(kMeta);
        nn::MoE moe(kWide, 2048, kMany);
        dist::expert_parallel(moe, world);
        expect(moe.experts.w1.shape() == Shape{kMany / kRanks, 2048, kWide}, "four experts");
        world.traffic().reset();
        const Tensor x =
            empty({kBatch, kWide}, TensorOptions{.device = kMeta, .requires_grad = true});
        const Tensor y = moe(x);
        (sum(y) + moe.aux_loss()).backward();
        const int64_t rows = kBatch * 2 * (kRanks - 1) / kRanks;
        const int64_t counts = 8 * kMany * (kRanks - 1) / kRanks;
        expect(world.traffic().bytes() == 4 * rows * kWide * 4 + 3 * counts,
               world.traffic().bytes());
      },
      {0, 1, kRanks - 1});
}

TEST_CASE("halves that go to experts on other ranks have the bits of one process", "[expert]") {
  const auto whole = make_mixture(kBothLosses, kBFloat16);
  const Tensor x = all_tokens(0, kBFloat16);
  const Tensor y = (*whole)(x);
  sum(y).backward();
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto model = make_mixture(kBothLosses, kBFloat16);
    dist::expert_parallel(*model, world);
    const Tensor z = (*model)(own_tokens(x, world.rank(), 2));
    expect(same(z.array(), own_tokens(y, world.rank(), 2).contiguous().array()), "output");
    (sum(z) * 2).backward();  // their mean is the whole's sum
    for (const auto& [name, leaf] : model->named_parameters()) {
      if (!is_experts(name)) continue;
      const Array expected = slice_of(whole->get_parameter(name).grad().array(), leaf);
      expect(same(leaf.grad().array(), expected), "gradient of ", name);
    }
  });
}

TEST_CASE("experts on other ranks compute again inside a checkpoint", "[expert]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto plain = make_mixture(kBothLosses, kFloat32);
    const auto again = make_mixture(kBothLosses, kFloat32);
    dist::expert_parallel(*plain, world);
    dist::expert_parallel(*again, world);
    const Tensor x = own_tokens(all_tokens(0, kFloat32), world.rank(), 2);
    mixture_loss(*plain, x).backward();
    const Tensor y = checkpoint([&](const Tensor& in) { return (*again)(in); }, x);
    (mean(square(y - x)) + nn::moe_aux_loss(*again)).backward();
    for (const auto& [name, leaf] : again->named_parameters()) {
      expect(same(leaf.grad().array(), plain->get_parameter(name).grad().array()), name);
    }
  });
}
