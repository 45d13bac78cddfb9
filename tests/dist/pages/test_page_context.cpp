// The code of docs/guides/context_parallel.md, run.
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;

namespace {

const nn::GPTConfig kLongConfig = {
    .vocab_size = 31, .block_size = 32, .n_layer = 2, .n_head = 4, .n_embd = 16};

Tensor long_batch(int share, int step) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 2 * kLongConfig.block_size; ++i)
    ids.push_back((i * 7 + share + step) % 31);
  return Tensor(Array::from(ids, {2, kLongConfig.block_size}));
}

double train_long(dist::Communicator& world, int data, int context) {
  // [snippet: train]
  const dist::Mesh mesh(world, {{"data", data}, {"context", context}});
  manual_seed(1);
  nn::GPT model(kLongConfig);
  dist::context_parallel(model, mesh["context"], {.slices = 4});
  dist::fully_shard(model, mesh, {.unit = dist::each<nn::Block>()});  // over both axes
  // [end]
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  double last = 0.0;
  for (int step = 0; step < 5; ++step) {
    const Tensor tokens = long_batch(mesh.coordinate("data"), step);  // alike along "context"
    const Tensor loss = model.loss(tokens, tokens);                   // the mean over all positions
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    adamw.zero_grad();
    last = loss.item();
  }
  return last;
}

struct Reader : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 8, 16);
  nn::MultiheadAttention& attention = add<nn::MultiheadAttention>(
      "attention", 16, 4, nn::MultiheadAttentionOptions{.batch_first = true});
  nn::Linear& out = add<nn::Linear>("out", 16, 8);

  Tensor forward(const Tensor& x) override {  // [N, T, 8], T whole or this rank's part of it
    const Tensor h = in(x);
    return out(attention(h, h, h, {.need_weights = false, .is_causal = true}).output);
  }
};

// [snippet: own]
double loss_of_reader(Reader& model, dist::Communicator& world, const Tensor& x,
                      const Tensor& target) {
  const auto context = dist::context_parallel(model, world);
  const dist::DDP ddp(model, world);
  const Tensor y = model(context.take(x));  // [N, T / c, 8]
  const Tensor loss = context.mean(mse_loss(y, context.take(target)));
  loss.backward();  // gradients are averaged over the ranks
  return loss.item();
}
// [end]

}  // namespace

TEST_CASE("the program of the page of context parallelism gives one loss on any mesh",
          "[context]") {
  const auto loss_on = [](int data, int context) {
    double loss = 0.0;
    dist::run_ranks(data * context, [&](dist::Communicator& world) {
      const double mine = train_long(world, data, context);
      if (world.rank() == 0) loss = mine;
    });
    return loss;
  };
  const double expected = loss_on(2, 1);
  CHECK(expected > 0.0);
  CHECK(loss_on(2, 2) == expected);
  CHECK(loss_on(2, 4) == expected);
}

TEST_CASE("a module of one's own reads a sequence that ranks share", "[context]") {
  const auto gradients_on = [](int ranks, double& loss) {
    std::vector<Tensor> gradients;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      manual_seed(2);
      Reader model;
      const Tensor x(noise({2, 16, 8})), target(noise({2, 16, 8}, kFloat32, 3));
      const double mine = loss_of_reader(model, world, x, target);
      if (world.rank() > 0) return;
      loss = mine;
      for (const Tensor& p : model.parameters()) gradients.push_back(p.grad());
    });
    return gradients;
  };
  double expected = 0.0;
  const std::vector<Tensor> alone = gradients_on(1, expected);
  for (const int ranks : {2, 4}) {
    double loss = 0.0;
    const std::vector<Tensor> shared = gradients_on(ranks, loss);
    // sums of at most 256 terms of float32 in another order, of values below 4
    CHECK(std::abs(loss - expected) < 1e-5);
    for (size_t i = 0; i < alone.size(); ++i) {
      CHECK(amax(abs(shared[i] - alone[i])).item() < 1e-5);
    }
  }
}
