// The code of docs/guides/pipeline.md, run.
#include <algorithm>

#include "dist/ranks.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;

namespace {

const nn::GPTConfig kPipeConfig = {.vocab_size = 31,
                                   .block_size = 8,
                                   .n_layer = 4,
                                   .n_head = 2,
                                   .n_embd = 16,
                                   .tie_weights = false};

std::pair<Tensor, Tensor> pipe_page_batch(int replica) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 8 * kPipeConfig.block_size + 1; ++i)
    ids.push_back((i * 7 + replica) % 31);
  const Tensor all(Array::from(ids, {static_cast<int64_t>(ids.size())}));
  const Shape shape = {8, kPipeConfig.block_size};
  return {all.slice(0, 0, shape.numel()).reshape(shape),
          all.slice(0, 1, shape.numel() + 1).reshape(shape)};
}

// [snippet: train]
double train_in_stages(dist::Communicator& world) {
  const auto on_meta = [] {
    const nn::DeviceScope meta(kMeta);
    return nn::GPT(kPipeConfig);  // shapes only, the whole model on every rank
  };
  nn::GPT model = on_meta();
  const dist::Mesh mesh(world, {{"pipe", 2}, {"data", world.size() / 2}});
  dist::Pipeline pipe(model, mesh["pipe"], {.micro_batches = 4});
  dist::fully_shard(model, mesh["data"], {.unit = dist::each<nn::Block>()});
  optim::AdamW adamw(pipe.parameters(), {.lr = 1e-2});
  double last = 0.0;
  for (int step = 0; step < 10; ++step) {
    const auto [tokens, targets] = pipe_page_batch(mesh.coordinate("data"));
    last = pipe.step(tokens, targets);              // forward and backward of four micro-batches
    optim::clip_grad_norm(pipe.parameters(), 1.0);  // of the whole model, on every rank
    adamw.step();
    adamw.zero_grad();
  }
  return last;
}
// [end]

// The last loss of one process that takes the micro-batches of so many replicas; that of each.
std::vector<double> train_in_one_piece(int replicas) {
  nn::GPT model(kPipeConfig);
  optim::AdamW adamw(model.parameters(), {.lr = 1e-2});
  optim::Accumulator gradients(model.parameters());
  std::vector<double> last(static_cast<size_t>(replicas));
  for (int step = 0; step < 10; ++step) {
    for (int r = 0; r < replicas; ++r) {
      const auto [tokens, targets] = pipe_page_batch(r);
      double sum = 0.0;
      for (int i = 0; i < 4; ++i) {
        const Tensor loss =
            model.loss(tokens.slice(0, 2 * i, 2 * i + 2), targets.slice(0, 2 * i, 2 * i + 2));
        sum += loss.item();
        (loss / 4.0).backward();
      }
      gradients.add();
      last[static_cast<size_t>(r)] = sum / 4;
    }
    gradients.mean();
    optim::clip_grad_norm(model.parameters(), 1.0);
    adamw.step();
    adamw.zero_grad();
  }
  return last;
}

}  // namespace

TEST_CASE("the training program of the page of pipelines has the losses of one process",
          "[pipeline]") {
  for (const int replicas : {1, 2}) {
    manual_seed(3);
    const std::vector<double> expected = train_in_one_piece(replicas);
    CHECK(expected[0] < 3.4);  // log(31), where nothing is learned
    dist::run_ranks(2 * replicas, [&](dist::Communicator& world) {
      manual_seed(3);
      const auto replica = static_cast<size_t>(world.rank() % replicas);
      const double loss = train_in_stages(world);
      expect(loss == expected[replica], "the loss: ", loss, " and ", expected[replica]);
    });
  }
}

TEST_CASE("the layers of the page of pipelines train in stages", "[pipeline]") {
  dist::run_ranks(3, [](dist::Communicator& world) {
    manual_seed(3);
    const Tensor x(noise({12, 4})), y(noise({12, 2}, kFloat32, 2));
    // [snippet: layers]
    nn::Sequential net{nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 8), nn::Tanh(),
                       nn::Linear(8, 2)};
    nn::PipelineSequential model(
        net, [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); });
    dist::Pipeline pipe(model, world,
                        {.schedule = dist::Schedule::gpipe(),
                         .micro_batches = 3,
                         .first_layers = {0, 2, 4}});  // stages of two, two and one layer
    const double loss = pipe.step(x, y);   // the mean loss, the same number on every rank
    const double check = pipe.loss(x, y);  // the same without gradients
    const Tensor output = pipe(x);         // on the last rank
    // [end]
    expect(loss == check, "the loss");
    expect(output.defined() == (world.rank() == 2), "the output");
  });
}
