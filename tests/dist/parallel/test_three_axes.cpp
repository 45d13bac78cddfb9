// A pipeline of ranks that compute layers together, several times side by side: three axes of a
// mesh, with the bits of one process.
#include "dist/parallel/axes.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include "support/temp_dir.h"

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using hero_test::TempDir;

TEST_CASE("three axes together have the bits of one process", "[axes][threads]") {
  constexpr int kSteps = 3;
  for (const int replicas : hero_test::kIsSanitized ? std::vector{2} : std::vector{1, 2}) {
    Whole expected;
    std::vector<double> numbers;
    train_axes_alone(replicas, kSteps, expected, numbers);
    for (const Axes& axes :
         {Axes{1, replicas, 2}, Axes{2, replicas, 1}, Axes{2, replicas, 2}, Axes{3, replicas, 2}}) {
      for (const Along along : {Along::ddp, Along::zero2, Along::fsdp}) {
        CAPTURE(axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
        CHECK(axes_difference(axes, {.along = along}, kSteps, expected, numbers) == "");
      }
    }
  }
}

TEST_CASE("DDP beside stages of several chunks has the bits of one process", "[axes][threads]") {
  constexpr int kSteps = 3;
  Whole expected;
  std::vector<double> numbers;
  train_axes_alone(2, kSteps, expected, numbers);
  const AxesOptions options = {.along = Along::ddp, .schedule = Schedule::interleaved(2)};
  for (const Axes& axes : {Axes{1, 2, 1}, Axes{2, 2, 1}, Axes{2, 2, 2}}) {
    CAPTURE(axes.pipe, axes.data, axes.tensor);
    CHECK(axes_difference(axes, options, kSteps, expected, numbers) == "");
  }
}

TEST_CASE("a zero bubble beside tensor and data axes has the bits of one process",
          "[axes][threads]") {
  constexpr int kSteps = 2;
  for (const bool sequence : {false, true}) {
    Whole expected;
    std::vector<double> numbers;
    train_axes_alone(2, kSteps, expected, numbers, {.sequence = sequence});
    for (const Axes& axes : {Axes{1, 2, 2}, Axes{2, 2, 2}, Axes{3, 2, 1}}) {
      if (hero_test::kIsSanitized && axes.pipe != 2) continue;
      for (const Along along : {Along::ddp, Along::zero2, Along::fsdp}) {
        CAPTURE(sequence, axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
        const AxesOptions options = {
            .along = along, .sequence = sequence, .schedule = Schedule::zero_bubble()};
        CHECK(axes_difference(axes, options, kSteps, expected, numbers) == "");
      }
    }
  }
}

TEST_CASE("stages of a sequence that is cut between layers have the bits of one process",
          "[axes][threads]") {
  constexpr int kSteps = 2;
  Whole expected;
  std::vector<double> numbers;
  train_axes_alone(2, kSteps, expected, numbers, {.sequence = true});
  for (const Axes& axes : {Axes{1, 2, 2}, Axes{2, 2, 1}, Axes{2, 2, 2}, Axes{4, 2, 2}}) {
    for (const Along along : {Along::ddp, Along::fsdp}) {
      CAPTURE(axes.pipe, axes.data, axes.tensor, static_cast<int>(along));
      const AxesOptions options = {.along = along, .sequence = true};
      CHECK(axes_difference(axes, options, kSteps, expected, numbers) == "");
    }
  }
}

TEST_CASE("a checkpoint of three axes resumes on others", "[axes]") {
  const TempDir dir;
  Whole expected, got;
  std::vector<double> numbers;
  train_axes_alone(2, 4, expected, numbers);
  train_and_save(dir / "run", {2, 2, 2}, {}, 0, 1, nullptr);
  train_and_save(dir / "run", {1, 2, 1}, {}, 1, 2, nullptr);
  train_and_save(dir / "run", {3, 2, 1}, {}, 2, 3, nullptr);
  train_and_save(dir / "run", {1, 2, 2}, {}, 3, 4, &got);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("checkpoints go on from any of slices, stages and shards to any other", "[axes]") {
  // one process; TP2, TP4, TP2 x FSDP2, PP2, PP2 x TP2, 2 x 2 x 2. Replicas with the same batches,
  // whose mean is exact, so that all train the same.
  constexpr Axes kAll[] = {{1, 1, 1}, {1, 1, 2}, {1, 1, 4}, {1, 2, 2},
                           {2, 1, 1}, {2, 1, 2}, {2, 2, 2}};
  const AxesOptions options = {.slices = 4, .alike = true};
  Whole expected;
  std::vector<double> numbers;
  train_axes_alone(1, 2, expected, numbers, options);
  CHECK(expected.size() > 4);
  for (const Axes& from : kAll) {
    const TempDir dir;
    train_and_save(dir / "run", from, options, 0, 1, nullptr);
    for (const Axes& to : kAll) {
      CAPTURE(from.pipe, from.data, from.tensor, to.pipe, to.data, to.tensor);
      Whole got;
      train_and_save(dir / "run", to, options, 1, 2, &got);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("three axes count their bytes apart", "[axes]") {
  // bytes that the ranks of one pipeline send in a step, by axis and by what it is
  struct Sent {
    int64_t tensor = 0, pipe = 0, activations = 0, gradients = 0;
  };
  const auto count = [](const Axes& axes) {
    Sent sent;
    const auto program = [&](Communicator& world) {
      AxesRank rank(world, axes);
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
  CHECK(three.activations == kAxesMicroBatches * 2 * (2 * 6 * 16 * 4));
  CHECK(three.gradients == three.activations);
  CHECK(three.pipe >= three.activations + three.gradients);
}

TEST_CASE("DDP beside chunks of a single micro-batch averages once", "[axes]") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.schedule = Schedule::interleaved(2)});
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
      AxesRank rank(world, {2, 2, 1}, {.along = Along::ddp, .schedule = schedule});
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
