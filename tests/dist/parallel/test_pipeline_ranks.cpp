// What the ranks of a pipeline send and hold, counted on simulated ranks too, and what goes wrong
// on one of them.
#include <stdexcept>

#include "dist/parallel/pipelines.h"
#include "support/catch.h"

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr int64_t kBorderBytes = 56 * 6 * 8 * 4;  // b s h e of the whole batch

// A step of a pipeline; on simulated ranks of a batch that is only planned.
void send_a_step(const Communicator& world, const Schedule& schedule) {
  PipeModel model = make_pipe_model(PipeSubject::gpt);
  Pipeline pipe(model.pipeline_model(), world, {.schedule = schedule, .micro_batches = 7});
  auto [x, y] = pipe_batch(PipeSubject::gpt, 0);
  if (world.backend_kind() == BackendKind::simulated) {
    x = Tensor(Array::empty(x.shape(), kInt64, kMeta));
    y = Tensor(Array::empty(y.shape(), kInt64, kMeta));
  }
  world.traffic().reset();
  pipe.step(x, y);
}

// Stage s sends activations to s + 1 and gradients to s - 1, unless it is the last or the first.
void check_bytes_sent(const Communicator& world, int chunks) {
  const int rank = world.rank(), last = world.size() - 1;
  const int64_t forward = chunks - (rank == last ? 1 : 0), back = chunks - (rank == 0 ? 1 : 0);
  const Traffic& traffic = world.traffic();
  expect(traffic.bytes_of_unit("activations") == forward * kBorderBytes, "activations");
  expect(traffic.bytes_of_unit("gradients") == back * kBorderBytes, "gradients");
  expect(traffic.bytes_of_unit("loss") == (rank == last ? 8 * last : 0), "the loss");
  const int64_t all = traffic.bytes_of_unit("activations") + traffic.bytes_of_unit("gradients") +
                      traffic.bytes_of_unit("loss");
  expect(traffic.bytes() == all, "nothing else is sent");
}

// The most bytes of activations that a simulated rank holds in a step of m micro-batches.
int64_t most_held_bytes(const Schedule& schedule, int rank, int m) {
  int64_t peak = 0;
  simulate_ranks(4,
                 [&](Communicator& world) {
                   PipeModel model = make_pipe_model(PipeSubject::layers);
                   Pipeline pipe(model.pipeline_model(), world,
                                 {.schedule = schedule, .micro_batches = m});
                   std::optional<LedgerScope> nobody(planned_ledger());
                   const Tensor x(Array::empty({8 * m, 7}, kFloat32, kMeta));
                   const Tensor y(Array::empty({8 * m, 5}, kFloat32, kMeta));
                   nobody.reset();
                   pipe.step(x, y);
                   for (const Tensor& p : pipe.parameters()) p.set_grad({});
                   current_ledger().reset_peak();
                   expect(current_ledger().live(MemoryTag::activation, DeviceType::meta) == 0,
                          "nothing is held between steps");
                   pipe.step(x, y);
                   peak = current_ledger().peak(MemoryTag::activation, DeviceType::meta);
                 },
                 {rank});
  return peak;
}

}  // namespace

TEST_CASE("messages of a pipeline meet on simulated ranks and have the bytes of the formula",
          "[pipeline]") {
  for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_f_one_b(),
                                   Schedule::interleaved(2), Schedule::zero_bubble()}) {
    CAPTURE(schedule.name());
    const auto program = [&](Communicator& world) {
      send_a_step(world, schedule);
      check_bytes_sent(world, schedule.chunks());
    };
    CHECK_NOTHROW(simulate_ranks(4, program));
    CHECK_NOTHROW(simulate_ranks(4, program, {3, 1, 2, 0}));
    CHECK_NOTHROW(run_ranks(4, program));
  }
}

TEST_CASE("1F1B holds the activations of as many micro-batches as ranks follow", "[pipeline]") {
  const Schedule gpipe = Schedule::gpipe(), early = Schedule::one_f_one_b();
  for (const int rank : {1, 2}) {  // the last one keeps a loss of each micro-batch
    CAPTURE(rank);
    const int64_t four = most_held_bytes(gpipe, rank, 4), eight = most_held_bytes(gpipe, rank, 8);
    CHECK(four < eight);
    CHECK(most_held_bytes(gpipe, rank, 16) - eight == 2 * (eight - four));
    CHECK(most_held_bytes(early, rank, 16) == most_held_bytes(early, rank, 8));
    CHECK(most_held_bytes(early, rank, 8) < eight);
  }
}

TEST_CASE("a zero bubble holds what the formula says, for any number of micro-batches",
          "[pipeline]") {
  // A stage is a layer norm, which saves its input and two numbers a row, and a linear layer, which
  // saves its own. Between B and W there are the linear layer's input, the gradient of its output,
  // and the gradients of the norm's two parameters.
  constexpr int64_t kRows = 8 * 13 * 4, kStatistics = 2 * 8 * 4, kNorm = 2 * 13 * 4;
  constexpr int64_t kForBackward = 2 * kRows + kStatistics, kForWeights = 2 * kRows + kNorm;
  // In B there are the gradients of the stage's output, of its input and between the two layers.
  constexpr int64_t kInBackward = 3 * kRows + kNorm;
  const int64_t eight = most_held_bytes(Schedule::gpipe(), 1, 8);
  CHECK(most_held_bytes(Schedule::gpipe(), 1, 16) - eight == 8 * kForBackward);
  for (const int rank : {1, 2}) {
    CAPTURE(rank);
    const int64_t expected = (4 - rank) * kForBackward + rank * kForWeights + kInBackward;
    for (const int m : {4, 8, 16}) {
      CHECK(most_held_bytes(Schedule::zero_bubble(), rank, m) == expected);
    }
  }
  // The first stage has no input with a gradient, and runs W after each B.
  CHECK(most_held_bytes(Schedule::zero_bubble(), 0, 16) ==
        most_held_bytes(Schedule::one_f_one_b(), 0, 16));
}

TEST_CASE("an output that nobody saved is freed when it has been sent", "[pipeline]") {
  // The first stage is two linear layers: the first one's input is the batch, the second one's the
  // first's output, and its own output is of no use to it.
  const int64_t four = most_held_bytes(Schedule::gpipe(), 0, 4);
  const int64_t eight = most_held_bytes(Schedule::gpipe(), 0, 8);
  CHECK(eight - four == 4 * 8 * 13 * 4);
}

TEST_CASE("what a pipeline cannot take is one clear line", "[pipeline]") {
  const auto [x, y] = pipe_batch(PipeSubject::layers, 0);
  const auto error = [&](int ranks, const PipelineOptions& options, const Tensor& a,
                         const Tensor& b) {
    return errors_of(ranks, [&](Communicator& world) {
      PipeModel model = make_pipe_model(PipeSubject::layers);
      Pipeline pipe(model.pipeline_model(), world, options);
      pipe.step(a, b);
    })[0];
  };
  CHECK_THAT(error(2, {.micro_batches = 3}, x, y),
             ContainsSubstring("pipeline: x has 56 rows, which are not 3 equal micro-batches; pad "
                               "the batch, or leave rows out"));
  CHECK_THAT(error(1, {.micro_batches = 8}, x, y.slice(0, 0, 4)),
             ContainsSubstring("pipeline: y has 4 rows, which are not 8 equal micro-batches"));
  CHECK_THAT(error(1, {}, Tensor(), y), ContainsSubstring("pipeline: x must be a batch of rows"));
  CHECK_THAT(errors_of(1,
                       [&, x = x, y = y](Communicator& world) {
                         PipeModel model = make_pipe_model(PipeSubject::layers);
                         Pipeline(model.pipeline_model(), world).step(x, y, {.scale = 0.0});
                       })[0],
             ContainsSubstring("pipeline: the loss's scale must be positive: 0"));
  CHECK_THAT(error(1, {.micro_batches = 0}, x, y), ContainsSubstring("0 micro-batches"));
  CHECK_THAT(error(3, {.schedule = Schedule::interleaved(3)}, x, y),
             ContainsSubstring("pipeline: 8 layers for 9 stages; take fewer ranks or chunks"));
  CHECK_THAT(error(2, {.first_layers = {0, 3, 5}}, x, y),
             ContainsSubstring("pipeline: first_layers names 3 stages, there are 2"));
  CHECK_THAT(
      error(2, {.first_layers = {1, 3}}, x, y),
      ContainsSubstring("pipeline: first_layers begins with 1; layer 0 must be in the first"));
  CHECK_THAT(error(2, {.first_layers = {0, 8}}, x, y),
             ContainsSubstring("pipeline: stage 1 would have layers 8 to 8 of 8"));
}

TEST_CASE("ranks that make different pipelines are an error on all", "[pipeline]") {
  const auto errors = errors_of(3, [](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::layers);
    Pipeline pipe(model.pipeline_model(), world, {.micro_batches = world.rank() == 1 ? 8 : 4});
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("pipeline: ranks make different ones: 1f1b of 4 "
                                        "micro-batches, layers 0 3 6 8"));
    CHECK_THAT(error, ContainsSubstring("(ranks 0, 2)"));
    CHECK_THAT(error, ContainsSubstring("1f1b of 8 micro-batches"));
    CHECK_THAT(error, ContainsSubstring("(rank 1)"));
  }
  const auto schedules = errors_of(2, [](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::layers);
    const Schedule mine = world.rank() == 0 ? Schedule::gpipe() : Schedule::one_f_one_b();
    Pipeline pipe(model.pipeline_model(), world, {.schedule = mine});
  });
  for (const std::string& error : schedules) CHECK_THAT(error, ContainsSubstring("gpipe of 1"));
  const auto bubbles = errors_of(3, [](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::layers);
    const Schedule mine = world.rank() == 2 ? Schedule::zero_bubble() : Schedule::one_f_one_b();
    Pipeline pipe(model.pipeline_model(), world, {.schedule = mine});
  });
  for (const std::string& error : bubbles) {
    CHECK_THAT(error, ContainsSubstring("pipeline: ranks make different ones: 1f1b of 1 "));
    CHECK_THAT(error, ContainsSubstring("zero_bubble of 1 micro-batches"));
    CHECK_THAT(error, ContainsSubstring("(rank 2)"));
  }
}

TEST_CASE("a stage that throws is named on all ranks", "[pipeline]") {
  struct Faulty : nn::Module {
    int64_t calls = 0;
    Tensor forward(const Tensor& x) override {
      if (x.device() != kMeta && ++calls == 3) throw Error("the third call went wrong");
      return x * 2.0;
    }
  };
  const Tensor x(noise({8, 4})), y(noise({8, 4}, kFloat32, 2));
  for (const int where : {0, 1, 2, 3}) {
    const auto errors = errors_of(4, [&](Communicator& world) {
      nn::Sequential net;
      for (int i = 0; i < 4; ++i) {
        net.append<nn::Linear>(4, 4);
        if (i == where) net.append<Faulty>();
        if (i != where) net.append<nn::Tanh>();
      }
      nn::PipelineSequential model(net,
                                   [](const Tensor& a, const Tensor& b) { return mse_loss(a, b); });
      Pipeline pipe(model, world, {.micro_batches = 4});
      pipe.step(x, y);
    });
    CAPTURE(where);
    for (const std::string& error : errors) {
      CHECK_THAT(error, ContainsSubstring("the third call went wrong"));
    }
  }
}

TEST_CASE("a model whose shapes do not follow from the input's is an error", "[pipeline]") {
  struct Cropped : nn::Module {
    Tensor forward(const Tensor& x) override { return x.device() == kMeta ? x : x.slice(1, 0, 2); }
  };
  const Tensor x(noise({8, 4}));
  const auto errors = errors_of(2, [&](Communicator& world) {
    nn::Sequential net;
    net.append<Cropped>();
    net.append<nn::Linear>(4, 4);
    nn::PipelineSequential model(net, [](const Tensor& a, const Tensor&) { return sum(a); });
    Pipeline pipe(model, world, {.micro_batches = 2});
    pipe.step(x, x);
  });
  CHECK_THAT(errors[0], ContainsSubstring("pipeline: stage 0 gives float32 [4, 2], and on meta it "
                                          "gave float32 [4, 4]"));
}
