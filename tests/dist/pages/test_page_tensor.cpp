// The code of docs/guides/tensor_parallel.md, run.
#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;

namespace {

const nn::GPTConfig kPageConfig = {
    .vocab_size = 31, .block_size = 8, .n_layer = 2, .n_head = 4, .n_embd = 16};

Tensor page_batch(int share, int step) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 2 * kPageConfig.block_size; ++i)
    ids.push_back((i * 7 + share + step) % 31);
  return Tensor(Array::from(ids, {2, kPageConfig.block_size}));
}

double train_in_slices(dist::Communicator& world, int data, int tensor) {
  // [snippet: train]
  const dist::Mesh mesh(world, {{"data", data}, {"tensor", tensor}});
  manual_seed(1);
  nn::GPT model(kPageConfig);
  dist::tensor_parallel(model, mesh["tensor"], {.slices = 4});
  dist::fully_shard(model, mesh["data"], {.unit = dist::each<nn::Block>()});
  // [end]
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  double last = 0.0;
  for (int step = 0; step < 5; ++step) {
    const Tensor tokens = page_batch(mesh.coordinate("data"), step);  // alike along "tensor"
    const Tensor loss = model.loss(tokens, tokens);
    loss.backward();
    optim::clip_grad_norm(model.parameters(), 1.0);  // of the whole model: each element once
    adamw.step();
    adamw.zero_grad();
    last = loss.item();
  }
  return last;
}

// [snippet: own]
struct Gated : nn::Module {
  nn::Linear& gate = add<nn::Linear>("gate", 8, 32);
  nn::Linear& up = add<nn::Linear>("up", 8, 32);
  nn::Linear& down = add<nn::Linear>("down", 32, 8);
  Tensor forward(const Tensor& x) override { return down(silu(gate(x)) * up(x)); }
};

const dist::TensorPlan kGatedPlan = {
    {"*gate", dist::Cut::colwise}, {"*up", dist::Cut::colwise}, {"*down", dist::Cut::rowwise}};
// [end]

}  // namespace

TEST_CASE("the program of the page of tensor parallelism gives one loss on any mesh", "[tensor]") {
  const auto loss_on = [](int data, int tensor) {
    double loss = 0.0;
    dist::run_ranks(data * tensor, [&](dist::Communicator& world) {
      const double mine = train_in_slices(world, data, tensor);
      if (world.rank() == 0) loss = mine;
    });
    return loss;
  };
  const double expected = loss_on(2, 1);
  CHECK(expected > 0.0);
  CHECK(loss_on(2, 2) == expected);
  CHECK(loss_on(2, 4) == expected);
}

TEST_CASE("a gated layer of one's own runs by a plan", "[tensor]") {
  dist::run_ranks(4, [](dist::Communicator& world) {
    manual_seed(2);
    Gated whole;
    manual_seed(2);
    Gated mine;
    dist::tensor_parallel(mine, world, {.plan = kGatedPlan});
    const Tensor x(noise({3, 8}));
    // a sum of 32 products of float32 in another order, of values below 4
    expect(amax(abs(whole(x) - mine(x))).item() < 1e-5, "outputs");
    expect(mine.up.weight.shape() == Shape{8, 8}, "a rank's rows");
  });
}
