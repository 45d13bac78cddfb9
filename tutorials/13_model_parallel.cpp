// Model parallelism: layers on other ranks, matrices cut in two, a pipeline and its bubble
#include "support/lessons/memory.h"
#include "support/lessons/pipeline.h"
#include "support/options/device.h"
#include "support/options/ranks.h"

#include <hero/dist/pipeline.h>
#include <hero/nn/nn.h>

using hero::Array, hero::Tensor;
using hero::dist::Communicator, hero::dist::Chunk, hero::dist::ChunkCounts;
using tutorial::device, tutorial::everywhere, tutorial::distance, tutorial::matrix,
    tutorial::RankTable, tutorial::same_bits, tutorial::say, tutorial::Schedule;
namespace nn = hero::nn;

namespace {

Chunk my_part(const Communicator& world, int64_t size) {
  return ChunkCounts::balanced(size, world.size()).chunk(world.rank());
}
Tensor cut(const Tensor& x, int64_t dim, const Chunk& part) {
  return x.slice(dim, part.begin, part.begin + part.count);
}

// [snippet: pipeline]
// Forward and backward of this rank's stage for all micro-batches: all forwards, then all
// backwards.
Schedule pipeline(const Communicator& world, nn::Module& stage, const Tensor& batch,
                  const Tensor& target, int micro_batches) {
  const int me = world.rank(), last = world.size() - 1;
  const int64_t rows = batch.size(0) / micro_batches;
  const auto micro = [&](const Tensor& x, int64_t i) {
    return x.slice(0, i * rows, (i + 1) * rows);
  };
  Schedule schedule(world);
  std::vector<Tensor> inputs, outputs;
  for (int i = 0; i < micro_batches; ++i) {
    const Tensor x = hero::empty_like(micro(batch, i));
    if (me == 0) x.copy_(micro(batch, i));
    if (me > 0) schedule.receive(x, me - 1);
    inputs.push_back(x.requires_grad_());
    outputs.push_back(stage(x));
    schedule.forward(i);
    if (me < last) schedule.send(outputs.back(), me + 1);
  }
  for (int i = 0; i < micro_batches; ++i) {
    const Tensor& y = outputs[static_cast<size_t>(i)];
    const Tensor gradient = hero::empty_like(y);
    if (me < last) schedule.receive(gradient, me + 1);
    if (me < last) y.backward(gradient);
    if (me == last) (mse_loss(y, micro(target, i)) / micro_batches).backward();
    schedule.backward(i);
    if (me > 0) schedule.send(inputs[static_cast<size_t>(i)].grad(), me - 1);
  }
  schedule.end();
  return schedule;
}
// [end]

// [snippet: stages]
struct Stage : nn::Module {
  nn::Linear& fc = add<nn::Linear>("fc", 32, 32);
  Tensor forward(const Tensor& x) override { return relu(fc(x)); }
};
struct Layers : nn::Sequential {
  explicit Layers(int count) {
    for (int i = 0; i < count; ++i) append<Stage>();
  }
};
// [end]

bool same_as_whole(const Communicator& world, nn::Module& stage, const Tensor& batch,
                   const Tensor& target, int micro_batches) {
  hero::manual_seed(1);
  Layers whole(world.size());
  const int64_t rows = batch.size(0) / micro_batches;
  for (int64_t at = 0; at < batch.size(0); at += rows) {
    const Tensor y = whole(batch.slice(0, at, at + rows));
    (mse_loss(y, target.slice(0, at, at + rows)) / micro_batches).backward();
  }
  const auto expected = whole.children()[static_cast<size_t>(world.rank())]->parameters();
  bool same = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    same = same && same_bits(stage.parameters()[i].grad(), expected[i].grad());
  }
  return same;
}

void pipelines(const Communicator& world, const std::string& folder) {
  hero::manual_seed(2);
  const Tensor batch = hero::randn({64, 32}, {.device = device()});
  const Tensor target = hero::randn({64, 32}, {.device = device()});
  // [snippet: meta]
  hero::manual_seed(1);
  std::optional<nn::DeviceScope> meta(hero::kMeta);  // shapes, but no bytes
  Layers layers(world.size());
  meta.reset();
  nn::Module& stage = *layers.children()[static_cast<size_t>(world.rank())];
  stage.materialize(device());
  // [end]
  const int64_t held = hero::current_ledger().live(hero::MemoryTag::parameter, device().type);
  std::vector<tutorial::Bubble> bubbles;
  for (const int m : {1, 2, 4, 8, 16, 32}) {
    stage.zero_grad();
    world.traffic().reset();
    const Schedule schedule = pipeline(world, stage, batch, target, m);
    const bool same = everywhere(world, same_as_whole(world, stage, batch, target, m));
    if (m == 1 || m == 4) {
      say(world, "%s\n", m == 1 ? "layers on other ranks" : "\na pipeline of 4 micro-batches");
      schedule.print();
    }
    bubbles.push_back({m, schedule.ticks(), schedule.idle(), same});
  }
  const int neighbours = (world.rank() > 0) + (world.rank() + 1 < world.size());
  RankTable table(world);
  table.row("parameters held, bytes", held);
  table.row("sent, bytes", world.traffic().bytes_of_unit("data"));
  table.row("formula", neighbours * batch.array().nbytes());
  say(world, "\n");
  table.print("by layer");
  say(world, "\n");
  show_bubbles(world, bubbles, folder);
}

// [snippet: slides]
void slides(const Communicator& pair) {
  const Tensor a = hero::tensor<float>({{1, 2, 3}, {4, 5, 6}}, {.device = device()});
  const Tensor b = hero::tensor<float>({{1, 2}, {3, 4}, {5, 6}}, {.device = device()});

  say(pair, "\n");
  RankTable columns(pair);
  const Tensor b_column = cut(b, 1, my_part(pair, 2));
  const Tensor column = matmul(a, b_column);  // some columns of the result
  const Array gathered = Array::empty({2, 2}, hero::kFloat32, device());
  pair.all_gather(gathered, column.t().contiguous().array());  // they lie one after the other
  columns.row("A", matrix(a)).row("of B", matrix(b_column)).row("product", matrix(column));
  columns.row("all_gather", matrix(Tensor(gathered).t())).print("a product by column");

  RankTable rows(pair);
  const Chunk part = my_part(pair, 3);
  const Tensor a_column = cut(a, 1, part), b_row = cut(b, 0, part);
  const Tensor sum = matmul(a_column, b_row);  // a summand of the result
  rows.row("of A", matrix(a_column)).row("of B", matrix(b_row)).row("product", matrix(sum));
  pair.all_reduce(sum.array());
  say(pair, "\n");
  rows.row("all_reduce", matrix(sum)).print("a product by row");
}
// [end]

void by_library(const Communicator& world) {
  constexpr int kMicroBatches = 8;
  hero::manual_seed(2);
  const Tensor batch = hero::randn({64, 32}, {.device = device()});
  const Tensor target = hero::randn({64, 32}, {.device = device()});
  hero::manual_seed(1);
  Layers by_hand(world.size());
  by_hand.to(device());
  nn::Module& stage = *by_hand.children()[static_cast<size_t>(world.rank())];
  pipeline(world, stage, batch, target, kMicroBatches);
  say(world, "\ndist::Pipeline, %d micro-batches\n", kMicroBatches);
  for (const auto& schedule :
       {hero::dist::Schedule::gpipe(), hero::dist::Schedule::one_f_one_b()}) {
    // [snippet: library]
    hero::manual_seed(1);
    std::optional<nn::DeviceScope> meta(hero::kMeta);
    Layers layers(world.size());
    meta.reset();
    nn::PipelineSequential model(layers,
                                 [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); });
    hero::dist::Pipeline pipe(
        model, world, {.schedule = schedule, .micro_batches = kMicroBatches, .device = device()});
    pipe.step(batch, target);
    // [end]
    const nn::Module& mine = *layers.children()[static_cast<size_t>(world.rank())];
    bool same = true;
    for (size_t i = 0; i < stage.parameters().size(); ++i) {
      same = same && same_bits(mine.parameters()[i].grad(), stage.parameters()[i].grad());
    }
    say(world, "  %-6s gradients beside those by hand: %s\n", schedule.name().c_str(),
        everywhere(world, same) ? "the same bits" : "they differ");
  }
}

struct Mlp {
  Tensor w1, w2;  // [hidden, in], [out, hidden]
  Tensor operator()(const Tensor& x) const { return matmul(relu(matmul(x, w1.t())), w2.t()); }
};
Tensor leaf(const Tensor& x) { return x.detach().clone().requires_grad_(); }

// [snippet: tensor]
// Forward and backward of this rank's part of an MLP; returns the output.
Tensor tensor_parallel(const Communicator& world, const Mlp& mine, const Tensor& x,
                       const Tensor& target) {
  const Tensor summand = mine(x);  // w1 is cut by row, w2 by column: no message in between
  const Tensor y = leaf(summand);
  world.all_reduce(y.array(), {.unit = "forward"});
  mse_loss(y, target).backward();  // the same on every rank
  summand.backward(y.grad());
  world.all_reduce(x.grad().array(), {.unit = "backward"});
  return y;
}
// [end]

void compare_tensor_parallel(const Communicator& world) {
  constexpr int64_t kRows = 16, kIn = 32, kHidden = 480;
  hero::manual_seed(1);
  const Mlp whole{leaf(hero::randn({kHidden, kIn}, {.device = device()})),
                  leaf(hero::randn({kIn, kHidden}, {.device = device()}))};
  const Tensor input = hero::randn({kRows, kIn}, {.device = device()});
  const Tensor target = hero::randn({kRows, kIn}, {.device = device()});
  const Tensor x = leaf(input), x_whole = leaf(input);
  const Chunk part = my_part(world, kHidden);
  const Mlp mine{leaf(cut(whole.w1, 0, part)), leaf(cut(whole.w2, 1, part))};
  world.traffic().reset();
  const Tensor y = tensor_parallel(world, mine, x, target);
  const int64_t sent = world.traffic().bytes();

  const Tensor y_whole = whole(x_whole);
  mse_loss(y_whole, target).backward();
  const double off = std::max({distance(y, y_whole), distance(x.grad(), x_whole.grad()),
                               distance(mine.w1.grad(), cut(whole.w1.grad(), 0, part)),
                               distance(mine.w2.grad(), cut(whole.w2.grad(), 1, part))});
  const int64_t n = x.array().nbytes(), own = 4 * my_part(world, x.numel()).count;
  RankTable table(world);
  table.row("parameters held, bytes", mine.w1.array().nbytes() + mine.w2.array().nbytes());
  table.row("sent, bytes", sent);
  table.row("formula", 2 * (n - own + (world.size() - 1) * own));
  say(world, "\n");
  table.print("an MLP by matrix");
  say(world, "output and gradients beside those of the whole: %s\n",
      everywhere(world, off < 1e-5)  // float32, up to 480 terms in another order
          ? "the same to 5 digits"
          : "they differ");
}

}  // namespace

int main(int argc, char** argv) {
  const char* title = "One model on several ranks: by layer, by matrix, as a pipeline.";
  return tutorial::run_ranks(argc, argv, {.title = title, .trains = false},
                             [](Communicator& world, auto& options) {
                               pipelines(world, options.out);
                               std::vector<int> ranks = {0, 1};
                               if (world.size() == 1) ranks = {0};
                               if (world.rank() > 1) ranks = {};
                               if (const Communicator pair = world.group(ranks); pair.defined())
                                 slides(pair);
                               compare_tensor_parallel(world);
                               by_library(world);
                               tutorial::draw_slices(world, options.out);
                             });
}
