// A model that Hero does not have, on all axes of a mesh, from what it says of itself.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "dist/parallel/boxes.h"
#include "dist/parallel/tagger.h"
#include "support/catch.h"
#include "support/sanitized.h"

#include <hero/dist/context_parallel.h>
#include <hero/dist/trainer.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int kMicroBatches = 4, kSteps = 2;

enum class Along { ddp, zero2, fsdp };

struct OwnAxes {
  int pipe = 1, data = 1, tensor = 1;
  bool sequence = false;
  int slices = 4;
  dist::Schedule schedule = dist::Schedule::one_f_one_b();
  Along along = Along::fsdp;

  int ranks() const { return pipe * data * tensor; }
};

// In one process, whose layers are as many slices; `numbers`: the norm of each step.
void train_tagger_alone(const OwnAxes& axes, Whole& whole, std::vector<double>& numbers) {
  dist::run_ranks(1, [&](dist::Communicator& world) {
    const auto model = made_tagger();
    dist::tensor_parallel(*model, world, {.slices = axes.slices, .sequence = axes.sequence});
    model->materialize();
    const auto optimizer = make_method(Method::adamw, model->parameters());
    optim::Accumulator gradients(model->parameters());
    for (int step = 0; step < kSteps; ++step) {
      for (int replica = 0; replica < axes.data; ++replica) {
        const auto [x, y] = tagger_batch(step, replica);
        accumulate_alone(*model, x, y, kMicroBatches);
        gradients.add();
      }
      gradients.mean();
      finish_pipe_step(model->parameters(), *optimizer, numbers);
    }
    add_state(whole, *model, *optimizer);
  });
}

void train_tagger(const OwnAxes& axes, Whole& whole, const std::vector<double>& expected) {
  dist::run_ranks(axes.ranks(), [&](dist::Communicator& world) {
    const dist::Mesh mesh(world,
                          {{"pipe", axes.pipe}, {"data", axes.data}, {"tensor", axes.tensor}});
    const auto model = made_tagger();
    dist::tensor_parallel(*model, mesh["tensor"],
                          {.slices = axes.slices, .sequence = axes.sequence});
    dist::Pipeline pipe(*model, mesh["pipe"],
                        {.schedule = axes.schedule, .micro_batches = kMicroBatches});
    if (axes.along == Along::fsdp) {
      dist::fully_shard(*model, mesh["data"], {.unit = dist::each<Layer>()});
    } else if (axes.along == Along::zero2) {
      dist::ZeRO(*model, mesh["data"], {.stage = 2, .bucket_bytes = 700});
    } else {
      dist::DDP(*model, mesh["data"]);
    }
    const auto optimizer = make_method(Method::adamw, pipe.parameters());
    std::vector<double> numbers;
    for (int step = 0; step < kSteps; ++step) {
      const auto [x, y] = tagger_batch(step, mesh.coordinate("data"));
      pipe.step(x, y);
      finish_pipe_step(pipe.parameters(), *optimizer, numbers);
    }
    expect(numbers == expected, "norms of the whole model");
    add_state(whole, *model, *optimizer);
  });
}

// A layer of attention with a parameter that its form does not name.
struct Scaled : BothWays {
  Tensor& scale = parameter("scale", Shape{kHeadDim}, nn::init::ones());
};

// A block with a convolution over positions.
struct Mixing : Layer {
  nn::Conv1d& conv = add<nn::Conv1d>("conv", kWidth, kWidth, 3, {.padding = 1});
};
struct MixingTagger : Tagger {
  MixingTagger() : Tagger(0) { blocks.append<Mixing>(); }
};

// Attention that does not say that ranks can share its sequences.
struct Own : BothWays {
  nn::ParallelForm parallel_form() const override {
    nn::ParallelForm form = BothWays::parallel_form();
    form.shares_sequence = false;
    return form;
  }
};

template <class M>
std::string refused(const std::function<void(M&, dist::Communicator&)>& body) {
  return errors_of(2, [&](dist::Communicator& world) {
    M model;
    body(model, world);
  })[1];
}

}  // namespace

TEST_CASE("a model of one's own is cut as it says, and computes what it does whole", "[tensor]") {
  const auto [x, y] = tagger_batch(0, 0);
  const auto whole = made_tagger(kCpu);
  const Tensor expected = whole->loss_from(0, x, y);
  expected.backward();
  CHECK(expected.item() == whole->loss_of((*whole)(x), y).item());
  for (const int ranks : {2, 4}) {
    for (const bool sequence : {false, true}) {
      CAPTURE(ranks, sequence);
      dist::run_ranks(ranks, [&, x = x, y = y](dist::Communicator& world) {
        const auto model = made_tagger(kCpu);
        dist::tensor_parallel(*model, world, {.slices = 4, .sequence = sequence});
        // Of a layer: rows of q and columns of o, k and v alone where slices are as many as their
        // heads or fewer, rows of up and columns of down.
        const Layer& layer = model->blocks[0];
        expect(layer.attention.q.weight.numel() == kWidth * kWidth / ranks, "q");
        expect(layer.attention.o.weight.numel() == kWidth * kWidth / ranks, "o");
        expect(layer.up.weight.numel() == 2 * 24 * kWidth / ranks, "up");
        expect(layer.down.weight.numel() == 24 * kWidth / ranks, "down");
        const Tensor loss = model->loss_from(0, x, y);
        // sums of at most 64 products of float32 in another order
        expect(std::abs(loss.item() - expected.item()) < 1e-6, "the loss ", loss.item());
        loss.backward();
        for (const auto& [name, leaf] : model->named_parameters()) {
          const Array all = slice_of(whole->get_parameter(name).grad().array(), leaf);
          const double differs = amax(abs(Tensor(leaf.grad().array()) - Tensor(all))).item();
          expect(differs < 1e-5, name, " differs by ", differs);
        }
      });
    }
  }
}

TEST_CASE("a model of one's own on three axes has the bits of one process", "[axes][threads]") {
  for (const bool sequence : {false, true}) {
    Whole expected;
    std::vector<double> numbers;
    train_tagger_alone({.data = 2, .sequence = sequence}, expected, numbers);
    REQUIRE(expected.size() > 10);
    for (const OwnAxes& axes :
         {OwnAxes{1, 2, 2, sequence}, OwnAxes{1, 2, 4, sequence}, OwnAxes{2, 2, 1, sequence},
          OwnAxes{2, 2, 2, sequence}, OwnAxes{3, 2, 2, sequence}}) {
      if (hero_test::kIsSanitized && axes.pipe != 2) continue;
      for (const Along along : {Along::ddp, Along::zero2, Along::fsdp}) {
        CAPTURE(sequence, axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
        OwnAxes each = axes;
        each.along = along;
        Whole got;
        train_tagger(each, got, numbers);
        CHECK(expected.difference(got) == "");
      }
    }
  }
}

TEST_CASE("a pipeline of a model of one's own has the bits of one process under each schedule",
          "[axes][threads]") {
  Whole expected;
  std::vector<double> numbers;
  train_tagger_alone({.data = 2, .sequence = true}, expected, numbers);
  for (const dist::Schedule& schedule :
       {dist::Schedule::gpipe(), dist::Schedule::one_f_one_b(), dist::Schedule::interleaved(2),
        dist::Schedule::zero_bubble()}) {
    CAPTURE(schedule.name());
    Whole got;
    train_tagger({2, 2, 2, true, 4, schedule}, got, numbers);
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("dist::Trainer trains a model of one's own on three axes", "[axes]") {
  const auto trained = [](int pipe, int tensor, Whole& whole) {
    dist::Config config;
    config.optimizer.type = "AdamW";
    config.micro_batch_size = 2;
    config.accumulation_steps = 4;
    config.pipe = pipe;
    config.tensor = tensor;
    double last = 0.0;
    dist::run_ranks(pipe * tensor, [&](dist::Communicator& world) {
      const auto model = made_tagger();
      dist::Trainer trainer(*model, world, config);
      for (int step = 0; step < kSteps; ++step) {
        const auto [x, y] = tagger_batch(step, 0);
        const double loss = trainer.train_batch(x, y);
        if (world.rank() == 0) last = loss;
      }
      add_state(whole, *model, trainer.optimizer());
    });
    return last;
  };
  for (const int tensor : {1, 2}) {
    Whole expected, got;
    const double loss = trained(1, tensor, expected);
    CHECK(trained(2, tensor, got) == loss);
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("ranks share the sequences of a model of one's own", "[context]") {
  const auto [x, y] = tagger_batch(0, 0);
  // The stem mixes neighbours: it takes whole sequences, and the blocks this rank's positions.
  const auto run = [&, x = x, y = y](int ranks, int slices) {
    std::vector<Tensor> got;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = made_tagger(kCpu);
      model->stem.requires_grad_(false);
      const dist::ContextParallel context =
          dist::context_parallel(model->blocks, world, {.slices = slices});
      const Tensor part = context.take(model->stem(x));
      const Tensor out = model->run_layers(1, model->layers(), part);
      context.mean(model->loss_of(out, context.take(y))).backward();
      std::vector<Tensor> all;
      for (const Tensor& leaf : model->blocks.parameters()) {
        world.all_reduce(leaf.grad().array());
        all.push_back(leaf.grad() / static_cast<double>(ranks));
      }
      if (world.rank() == 0) got = all;
    });
    return got;
  };
  const std::vector<Tensor> whole = run(1, 1);
  REQUIRE(whole.size() == 4 * 14);
  for (const auto& [ranks, slices] : {std::pair{2, 2}, std::pair{4, 4}, std::pair{1, 4}}) {
    CAPTURE(ranks, slices);
    const std::vector<Tensor> shared = run(ranks, slices);
    REQUIRE(shared.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      CHECK(amax(abs(shared[i] - whole[i])).item() < 1e-5);  // sums in another order
    }
  }
}

TEST_CASE("what a form does not say is an error, not a wrong gradient", "[tensor]") {
  CHECK_THAT(refused<Scaled>([](Scaled& model, dist::Communicator& world) {
               dist::tensor_parallel(model, world);
             }),
             ContainsSubstring("'scale' is not among the weights that the form of Scaled names"));
  CHECK_THAT(refused<MixingTagger>([](MixingTagger& model, dist::Communicator& world) {
               dist::tensor_parallel(model, world, {.sequence = true});
             }),
             ContainsSubstring("'blocks.0.conv.weight' would be computed with at a part"));
  CHECK_THAT(
      refused<Own>(
          [](Own& model, dist::Communicator& world) { dist::context_parallel(model, world); }),
      ContainsSubstring("Own '' is attention whose nn::ParallelForm does not say shares_sequence"));
}

namespace {

// One of two layers, with what may go wrong between them.
struct Between : nn::Module, nn::Parallelizable {
  nn::Linear& up = add<nn::Linear>("up", 8, 16);
  nn::PReLU& act = add<nn::PReLU>("act");
  nn::Linear& down = add<nn::Linear>("down", 16, 8);

  Tensor forward(const Tensor& x) override { return down(act(up(x))); }
  nn::ParallelForm parallel_form() const override {
    return {.cuts = {{"up", nn::Cut::colwise}, {"down", nn::Cut::rowwise}}, .by_position = {"act"}};
  }
};

struct ReluLinear : nn::Linear {
  using nn::Linear::Linear;
  Tensor forward(const Tensor& x) override { return relu(nn::Linear::forward(x)); }
};

struct Derived : nn::Module, nn::Parallelizable {
  nn::Linear& up = add<nn::Linear>("up", 8, 16);
  ReluLinear& down = add<ReluLinear>("down", 16, 8);

  Tensor forward(const Tensor& x) override { return down(up(x)); }
  nn::ParallelForm parallel_form() const override {
    return {.cuts = {{"up", nn::Cut::colwise}, {"down", nn::Cut::rowwise}}};
  }
};

// The error of steps of SGD on two ranks, "" without one.
template <class Model>
std::string error_of_steps(int steps) {
  try {
    dist::run_ranks(2, [steps](dist::Communicator& world) {
      manual_seed(3);
      Model model;
      dist::tensor_parallel(model, world);
      optim::SGD sgd(model.parameters(), {.lr = 0.1});
      manual_seed(4);
      const Tensor x = randn({5, 8});
      for (int step = 0; step < steps; ++step) {
        sgd.zero_grad();
        sum(model(x) * model(x)).backward();
        sgd.step();
      }
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a parameter between layers that are cut does not go on with a part of its gradient",
          "[tensor]") {
  CHECK_THAT(error_of_steps<Between>(4),
             ContainsSubstring("a parameter that is not cut is the same on all ranks, unless its "
                               "module computes with what is cut"));
  CHECK_THAT(error_of_steps<Derived>(1), ContainsSubstring("'down' is a ReluLinear, which derives "
                                                           "from Linear and may compute"));
}

TEST_CASE("a stack counts the targets that cross_entropy() takes", "[tensor]") {
  const auto model = made_tagger();
  CHECK(model->target_count(tensor<int64_t>({3, -100, 0, 2})) == 3);
  CHECK(model->target_count(zeros({4, 2})) == 4);
}
