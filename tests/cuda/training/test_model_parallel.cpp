// Stages, slices, shared sequences and experts with all ranks on one GPU: the bits of one process
// there.
#include <string>
#include <vector>

#include "cuda/close.h"
#include "cuda/deferred.h"
#include "cuda/gpu.h"
#include "dist/parallel/axes.h"
#include "dist/parallel/context.h"
#include "dist/parallel/experts.h"
#include "dist/parallel/tensor.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using namespace hero_test;

namespace {

#if defined(HERO_TEST_CUSIM)
constexpr double kRowsApart = 0.0;
using LateStreams = Deferred;  // a missing wait shows as wrong numbers
#else
constexpr double kRowsApart = 0x1p-20;
struct [[maybe_unused]] LateStreams {};
#endif

}  // namespace

TEST_CASE("on one GPU a pipeline ends with the bits of one process there", "[model_parallel]") {
  HERO_NEEDS_GPU();
  const LateStreams late;
  const auto check = [](PipeRun c, const std::vector<Schedule>& schedules) {
    c.device = kGpu;
    Whole expected;
    std::vector<double> numbers;
    train_pipe_alone(c, expected, numbers);
    for (const Schedule& schedule : schedules) {
      CAPTURE(static_cast<int>(c.subject), schedule.name(), c.ranks);
      c.schedule = schedule;
      CHECK(pipe_difference(c, expected, numbers) == "");
    }
  };
  check({.subject = PipeSubject::layers, .ranks = 2},
        {Schedule::gpipe(), Schedule::interleaved(2), Schedule::zero_bubble()});
  check({.subject = PipeSubject::gpt, .ranks = 3, .micro_batches = 2}, {Schedule::one_f_one_b()});
}

TEST_CASE("on one GPU stages draw the tokens of one process there", "[model_parallel]") {
  HERO_NEEDS_GPU();
  const LateStreams late;
  const nn::GenerateOptions options = {.max_new_tokens = 4, .temperature = 0.8, .seed = 3};
  PipeModel whole = make_pipe_model(PipeSubject::gpt, kCpu);
  whole.module().to(kGpu);
  const Tensor prompt(Array::from(std::vector<int64_t>{1, 5}, {1, 2}).to(kGpu));
  const Array expected = whole.gpt->generate(prompt, options).array().to(kCpu);
  run_ranks(2, [&](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    Pipeline pipe(model.pipeline_model(), world, {.device = kGpu});
    expect(same(pipe.generate(prompt, options).array().to(kCpu), expected), "the tokens");
  });
}

TEST_CASE("on one GPU slices have the same bits on any number of ranks", "[model_parallel]") {
  HERO_NEEDS_GPU();
  const LateStreams late;
  for (const bool sequence : {false, true}) {
    nn::GPTConfig config = tensor_gpt();
    config.block_size = 8;
    TensorGrid grid = {
        .data = 2, .slices = 4, .shards = true, .sequence = sequence, .device = kGpu};
    Whole expected;
    train_on(config, grid, expected, 2);
    CHECK(expected.size() > 4);
    for (const int tensor : {2, 4}) {
      CAPTURE(sequence, tensor);
      grid.tensor = tensor;
      grid.meta = tensor == 2;
      Whole got;
      train_on(config, grid, got, 2);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("on one GPU ranks that share a sequence have the same bits on any number of them",
          "[model_parallel]") {
  HERO_NEEDS_GPU();
  const LateStreams late;
  for (const ContextKind kind : {ContextKind::tied, ContextKind::rotary}) {
    Whole expected;
    std::vector<double> losses;
    train_context(kind, {.device = kGpu, .steps = 2}, expected, losses);
    CHECK(expected.size() > 4);
    for (const int ranks : {2, 4}) {
      for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::fsdp}) {
        CAPTURE(static_cast<int>(kind), ranks, name(strategy));
        Whole got;
        std::vector<double> found;
        train_context(kind, {.context = ranks, .strategy = strategy, .device = kGpu, .steps = 2},
                      got, found);
        CHECK(found == losses);
        CHECK(expected.difference(got) == "");
      }
    }
  }
}

// A rank multiplies its tokens alone, so its products have fewer rows, for which cuBLASLt takes
// other kernels, with sums in another order.
TEST_CASE("on one GPU tokens and experts over ranks are those of one process there",
          "[model_parallel]") {
  HERO_NEEDS_GPU();
  const LateStreams late;
  for (const nn::MoEOptions& options : {kBothLosses, kSwitch}) {
    const auto whole = make_mixture(options, kFloat32);
    whole->to(kGpu);
    const Tensor x = all_tokens(0, kFloat32).to(kGpu).requires_grad_();
    const Tensor y = (*whole)(x);
    mixture_loss(*whole, x).backward();
    for (const int ranks : {2, 4}) {
      CAPTURE(ranks, options.top_k);
      run_ranks(ranks, [&](Communicator& world) {
        const auto model = make_mixture(options, kFloat32);
        model->to(kGpu);
        DDP(*model, world, {.ignored_modules = expert_parallel(*model, world)});
        const Tensor own = own_tokens(x.detach(), world.rank(), ranks).clone().requires_grad_();
        const auto is_same = [](const Tensor& a, const Tensor& b) {
          return distance(a.array(), b.array()) <= kRowsApart;
        };
        const Tensor z = (*model)(own);
        expect(is_same(z, own_tokens(y, world.rank(), ranks)), "output");
        mixture_loss(*model, own).backward();
        expect(is_same(own.grad(), own_tokens(x.grad(), world.rank(), ranks) * ranks),
               "gradients of tokens");
        for (const auto& [name, leaf] : model->named_parameters()) {
          if (!is_experts(name)) continue;
          const Array all = whole->get_parameter(name).grad().array().to(kCpu);
          expect(is_same(leaf.grad(), Tensor(slice_of(all, leaf))), "gradient of ", name);
        }
      });
    }
  }
}

TEST_CASE(
    "on one GPU three axes end with the bits of one process there, and go on from a "
    "checkpoint on others",
    "[model_parallel]") {
  HERO_NEEDS_GPU();
  const LateStreams late;
  AxesOptions options = {.device = kGpu};
  Whole expected;
  std::vector<double> numbers;
  train_axes_alone(2, 2, expected, numbers, options);
  for (const Along along : {Along::ddp, Along::zero2, Along::fsdp}) {
    CAPTURE(static_cast<int>(along));
    options.along = along;
    CHECK(axes_difference({2, 2, 2}, options, 2, expected, numbers) == "");
  }
  const TempDir dir;
  train_and_save(dir / "run", {2, 2, 2}, options, 0, 1, nullptr);
  for (const Axes& axes : {Axes{1, 2, 2}, Axes{2, 2, 1}, Axes{2, 2, 2}}) {
    CAPTURE(axes.pipe, axes.data, axes.tensor);
    Whole got;
    train_and_save(dir / "run", axes, options, 1, 2, &got);
    CHECK(expected.difference(got) == "");
  }
}
