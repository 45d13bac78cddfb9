// A pipeline of ranks that compute layers together, several times side by side: three axes of a
// mesh, with the bits of one process.
#include "dist/pipelines.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/mesh.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/zero.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using hero_test::TempDir;

constexpr int kWays = 2, kMicroBatches = 4;

struct Axes {
  int pipe = 1, data = 1, tensor = 1;
  int ranks() const { return pipe * data * tensor; }
};

enum class Along { ddp, zero2, fsdp };

nn::GPTConfig axes_gpt(bool tied = false) {
  return {.vocab_size = 19,
          .block_size = 6,
          .n_layer = 3,
          .n_head = 4,
          .n_embd = 16,
          .tie_weights = tied};
}

std::unique_ptr<nn::GPT> axes_model(Device device) {
  manual_seed(5);
  const nn::DeviceScope scope(device);
  return std::make_unique<nn::GPT>(axes_gpt());
}

std::pair<Tensor, Tensor> axes_batch(int step, int replica) {
  const auto ids = [&](int which) {
    std::vector<int64_t> list;
    const auto seed = static_cast<uint64_t>(100 * step + 10 * replica + which);
    for (const float v : noise({8 * 6}, kFloat32, seed).to_vector<float>()) {
      list.push_back(static_cast<int64_t>((v + 2.0f) * 0.25f * 19.0f));
    }
    return Tensor(Array::from(list, {8, 6}));
  };
  return {ids(1), ids(2)};
}

// A rank of the mesh, with what it trains.
struct AxesRank {
  Mesh mesh;
  std::unique_ptr<nn::GPT> model;
  std::optional<Pipeline> pipe;
  std::unique_ptr<optim::Optimizer> optimizer;

  AxesRank(const Communicator& world, const Axes& axes, Along along, bool sequence = false,
           const Schedule& schedule = Schedule::one_f_one_b())
      : mesh(world, {{"pipe", axes.pipe}, {"data", axes.data}, {"tensor", axes.tensor}}),
        model(axes_model(kMeta)) {
    // [snippet: axes]
    tensor_parallel(*model, mesh["tensor"], {.ways = kWays, .sequence = sequence});
    pipe.emplace(*model, mesh["pipe"],
                 PipelineOptions{.schedule = schedule, .micro_batches = kMicroBatches});
    if (along == Along::fsdp) fully_shard(*model, mesh["data"], {.unit = each<nn::Block>()});
    // [end]
    if (along == Along::ddp) DDP(*model, mesh["data"]);
    if (along == Along::zero2) ZeRO(*model, mesh["data"], {.stage = 2, .bucket_bytes = 700});
    optimizer = make_method(Method::adamw, pipe->parameters());
  }
  void step(int number, std::vector<double>& numbers) {
    const auto [x, y] = axes_batch(number, mesh.coordinate("data"));
    pipe->step(x, y);
    finish_pipe_step(pipe->parameters(), *optimizer, numbers);
  }
};

// The same in one process, whose layers are as many slices.
void train_axes_alone(int replicas, int steps, Whole& whole, std::vector<double>& numbers,
                      bool sequence = false) {
  run_ranks(1, [&](Communicator& world) {
    const auto model = axes_model(kCpu);
    tensor_parallel(*model, world, {.ways = kWays, .sequence = sequence});
    const auto parameters = model->parameters();
    const auto optimizer = make_method(Method::adamw, parameters);
    optim::Accumulator gradients(parameters);
    for (int step = 0; step < steps; ++step) {
      for (int r = 0; r < replicas; ++r) {
        const auto [x, y] = axes_batch(step, r);
        accumulate_alone(*model, x, y, kMicroBatches);
        gradients.add();
      }
      gradients.mean();
      finish_pipe_step(parameters, *optimizer, numbers);
    }
    add_state(whole, *model, *optimizer);
  });
}

TEST_CASE("three axes together have the bits of one process", "[axes][threads]") {
  constexpr int kSteps = 3;
  for (const int replicas : {1, 2}) {
    Whole expected;
    std::vector<double> numbers;
    train_axes_alone(replicas, kSteps, expected, numbers);
    for (const Axes& axes :
         {Axes{1, replicas, 2}, Axes{2, replicas, 1}, Axes{2, replicas, 2}, Axes{3, replicas, 2}}) {
      for (const Along along : {Along::ddp, Along::zero2, Along::fsdp}) {
        CAPTURE(axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
        Whole got;
        run_ranks(axes.ranks(), [&](Communicator& world) {
          AxesRank rank(world, axes, along);
          std::vector<double> found;
          for (int step = 0; step < kSteps; ++step) rank.step(step, found);
          expect(found == numbers, "norms of the whole model");
          add_state(got, *rank.model, *rank.optimizer);
        });
        CHECK(expected.size() > 4);
        CHECK(expected.difference(got) == "");
      }
    }
  }
}

TEST_CASE("DDP beside stages of several chunks has the bits of one process", "[axes][threads]") {
  constexpr int kSteps = 3;
  Whole expected;
  std::vector<double> numbers;
  train_axes_alone(2, kSteps, expected, numbers);
  for (const Axes& axes : {Axes{1, 2, 1}, Axes{2, 2, 1}, Axes{2, 2, 2}}) {
    CAPTURE(axes.pipe, axes.data, axes.tensor);
    Whole got;
    run_ranks(axes.ranks(), [&](Communicator& world) {
      AxesRank rank(world, axes, Along::ddp, false, Schedule::interleaved(2));
      std::vector<double> found;
      for (int step = 0; step < kSteps; ++step) rank.step(step, found);
      expect(found == numbers, "norms of the whole model");
      add_state(got, *rank.model, *rank.optimizer);
    });
    CHECK(expected.size() > 4);
    CHECK(expected.difference(got) == "");
  }
}

TEST_CASE("a zero bubble beside tensor and data axes has the bits of one process",
          "[axes][threads]") {
  constexpr int kSteps = 2;
  for (const bool sequence : {false, true}) {
    Whole expected;
    std::vector<double> numbers;
    train_axes_alone(2, kSteps, expected, numbers, sequence);
    for (const Axes& axes : {Axes{1, 2, 2}, Axes{2, 2, 2}, Axes{3, 2, 1}}) {
      for (const Along along : {Along::ddp, Along::zero2, Along::fsdp}) {
        CAPTURE(sequence, axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
        Whole got;
        run_ranks(axes.ranks(), [&](Communicator& world) {
          AxesRank rank(world, axes, along, sequence, Schedule::zero_bubble());
          std::vector<double> found;
          for (int step = 0; step < kSteps; ++step) rank.step(step, found);
          expect(found == numbers, "norms of the whole model");
          add_state(got, *rank.model, *rank.optimizer);
        });
        CHECK(expected.size() > 4);
        CHECK(expected.difference(got) == "");
      }
    }
  }
}

TEST_CASE("stages of a sequence that is cut between layers have the bits of one process",
          "[axes][threads]") {
  constexpr int kSteps = 2;
  Whole expected;
  std::vector<double> numbers;
  train_axes_alone(2, kSteps, expected, numbers, true);
  for (const Axes& axes : {Axes{1, 2, 2}, Axes{2, 2, 1}, Axes{2, 2, 2}, Axes{4, 2, 2}}) {
    for (const Along along : {Along::ddp, Along::fsdp}) {
      CAPTURE(axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
      Whole got;
      run_ranks(axes.ranks(), [&](Communicator& world) {
        AxesRank rank(world, axes, along, true);
        std::vector<double> found;
        for (int step = 0; step < kSteps; ++step) rank.step(step, found);
        expect(found == numbers, "norms of the whole model");
        add_state(got, *rank.model, *rank.optimizer);
      });
      CHECK(expected.size() > 4);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("a checkpoint of three axes resumes on others", "[axes]") {
  const TempDir dir;
  Whole expected;
  const auto train = [&](const Axes& axes, int from, int to, Whole* whole) {
    run_ranks(axes.ranks(), [&](Communicator& world) {
      AxesRank rank(world, axes, Along::fsdp);
      Checkpointer checkpoint(dir / "run", world);
      checkpoint.track("model", *rank.model);
      checkpoint.track("optimizer", *rank.optimizer);
      expect(checkpoint.resume().value_or(0) == from, "the step");
      std::vector<double> numbers;
      for (int step = from; step < to; ++step) rank.step(step, numbers);
      checkpoint.save(to);
      if (whole) add_state(*whole, *rank.model, *rank.optimizer);
    });
  };
  std::vector<double> numbers;
  train_axes_alone(2, 4, expected, numbers);
  Whole got;
  train({2, 2, 2}, 0, 1, nullptr);
  train({1, 2, 1}, 1, 2, nullptr);
  train({3, 2, 1}, 2, 3, nullptr);
  train({1, 2, 2}, 3, 4, &got);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("three axes count their bytes apart", "[axes]") {
  // bytes that the ranks of one pipeline send in a step, by axis and by what it is
  struct Sent {
    int64_t tensor = 0, pipe = 0, activations = 0, gradients = 0;
  };
  const auto count = [](const Axes& axes) {
    Sent sent;
    const auto program = [&](Communicator& world) {
      AxesRank rank(world, axes, Along::fsdp);
      world.traffic().reset();
      const Tensor ids(Array::empty({8, 6}, kInt64, kMeta));
      rank.pipe->step(ids, ids);
      sent.tensor += world.traffic().bytes_of_axis("tensor");
      sent.pipe += world.traffic().bytes_of_axis("pipe");
      sent.activations += world.traffic().bytes_of_unit("activations");
      sent.gradients += world.traffic().bytes_of_unit("gradients");
    };
    std::vector<int> ranks;
    for (int stage = 0; stage < axes.pipe; ++stage)
      ranks.push_back(stage * axes.data * axes.tensor);
    simulate_ranks(axes.ranks(), program, ranks);
    return sent;
  };
  const Sent one = count({1, 4, 2}), three = count({3, 4, 2});
  CHECK(one.tensor > 0);
  CHECK(one.pipe == 0);
  CHECK(three.tensor == one.tensor);
  // [2, 6, 16] of float32 for each micro-batch and each of two borders, and back
  CHECK(three.activations == kMicroBatches * 2 * (2 * 6 * 16 * 4));
  CHECK(three.gradients == three.activations);
  CHECK(three.pipe >= three.activations + three.gradients);
}

TEST_CASE("DDP beside chunks of a single micro-batch averages once", "[axes]") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    Pipeline pipe(model.chain(), mesh["pipe"], {.schedule = Schedule::interleaved(2)});
    DDP(model.module(), mesh["data"]);
    int64_t elements = 0;
    for (const Tensor& p : pipe.parameters()) elements += p.numel();
    const auto [x, y] = pipe_batch(PipeSubject::gpt, 0, mesh.coordinate("data"));
    pipe.step(x, y);
    world.traffic().reset();
    pipe.step(x, y);
    expect(world.traffic().bytes_of_axis("data") == 4 * elements, "an all_reduce of 2 ranks");
  });
}

TEST_CASE("DDP beside a pipeline sends each gradient once a step", "[axes]") {
  for (const Schedule& schedule :
       {Schedule::one_f_one_b(), Schedule::interleaved(2), Schedule::zero_bubble()}) {
    CAPTURE(schedule.name());
    run_ranks(4, [&](Communicator& world) {
      AxesRank rank(world, {2, 2, 1}, Along::ddp, false, schedule);
      std::vector<double> numbers;
      for (const int step : {0, 1}) rank.step(step, numbers);  // buckets get their order
      int64_t elements = 0;
      for (const Tensor& p : rank.pipe->parameters()) elements += p.numel();
      world.traffic().reset();
      const auto [x, y] = axes_batch(2, rank.mesh.coordinate("data"));
      rank.pipe->step(x, y);
      const int64_t sent = world.traffic().bytes_of_axis("data");
      // an all_reduce of 2 ranks: half of it there, half of it back
      expect(elements > 0 && sent == 4 * elements, "sent ", sent, " for ", elements, " elements");
    });
  }
}

}  // namespace
