// Drawing text from a GPT that is cut into stages.
#include <string>
#include <vector>

#include "dist/parallel/pipelines.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/ddp.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/generate.h>
#include <hero/dist/mesh.h>

namespace {

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

Tensor prompts() { return Tensor(Array::from(std::vector<int64_t>{3, 1, 4, 1, 5, 9}, {2, 3})); }

// Longer than the block size of 6, so that positions move.
std::vector<nn::GenerateOptions> ways_to_draw() {
  return {{.max_new_tokens = 7, .temperature = 0.0},
          {.max_new_tokens = 7, .top_k = 5, .seed = 11},
          {.max_new_tokens = 0}};
}

std::vector<int64_t> drawn_alone(PipeSubject subject, const nn::GenerateOptions& options) {
  PipeModel model = make_pipe_model(subject, kCpu);
  return model.gpt->generate(prompts(), options).to_vector<int64_t>();
}

}  // namespace

TEST_CASE("stages draw the tokens of one process on every rank", "[pipeline][threads]") {
  for (const PipeSubject subject : {PipeSubject::gpt, PipeSubject::gpt_tied}) {
    for (const nn::GenerateOptions& options : ways_to_draw()) {
      const std::vector<int64_t> expected = drawn_alone(subject, options);
      REQUIRE(expected.size() == static_cast<size_t>(2 * (3 + options.max_new_tokens)));
      for (const int ranks : {1, 2, 3}) {
        for (const int chunks : {1, 2}) {
          CAPTURE(static_cast<int>(subject), ranks, chunks, options.temperature);
          dist::run_ranks(ranks, [&](dist::Communicator& world) {
            PipeModel model = make_pipe_model(subject);
            dist::Pipeline pipe(model.pipeline_model(), world,
                                {.schedule = chunks == 1 ? dist::Schedule::one_f_one_b()
                                                         : dist::Schedule::interleaved(chunks),
                                 .micro_batches = ranks});
            const Tensor drawn = pipe.generate(prompts(), options);
            expect(drawn.to_vector<int64_t>() == expected, "the same tokens");
            const Tensor one = pipe.generate(prompts()[0], options);
            expect(one.shape() == Shape{3 + options.max_new_tokens}, "of one row");
          });
        }
      }
    }
  }
}

TEST_CASE("sharded stages draw between steps what one process draws", "[pipeline]") {
  const nn::GenerateOptions options = {.max_new_tokens = 5, .seed = 3};
  const PipeRun alone = {.subject = PipeSubject::gpt, .steps = 1};
  PipeModel whole = make_pipe_model(PipeSubject::gpt, kCpu);
  const auto optimizer = make_method(alone.method, whole.module().parameters());
  std::vector<double> numbers;
  const auto [x, y] = pipe_batch(PipeSubject::gpt, 0);
  accumulate_alone(whole.pipeline_model(), x, y, alone.micro_batches);
  finish_pipe_step(whole.module().parameters(), *optimizer, numbers);
  const std::vector<int64_t> expected =
      whole.gpt->generate(prompts(), options).to_vector<int64_t>();
  dist::run_ranks(4, [&, &x = x, &y = y](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    dist::Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                        {.micro_batches = alone.micro_batches});
    dist::fully_shard(model.module(), mesh["data"], {.unit = dist::each<nn::Block>()});
    const auto own = make_method(alone.method, pipe.parameters());
    pipe.generate(prompts(), options);
    pipe.step(x, y);
    std::vector<double> found;
    finish_pipe_step(pipe.parameters(), *own, found);
    expect(pipe.generate(prompts(), options).to_vector<int64_t>() == expected, "after a step");
    expect(pipe.loss(x, y) > 0.0, "and go on");
  });
}

TEST_CASE("sharded stages whose replicas end at different steps draw what each draws alone",
          "[pipeline]") {
  const auto options_of = [](int replica) {
    return nn::GenerateOptions{.max_new_tokens = replica == 0 ? 1 : 8, .seed = 3};
  };
  for (const bool shards : {true, false}) {
    dist::run_ranks(4, [&](dist::Communicator& world) {
      const dist::Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      PipeModel model = make_pipe_model(PipeSubject::gpt);
      dist::Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
      if (shards) {
        dist::fully_shard(model.module(), mesh["data"], {.unit = dist::each<nn::Block>()});
      } else {
        dist::DDP(model.module(), mesh["data"]);
      }
      nn::GenerateOptions options = options_of(mesh.coordinate("data"));
      options.any_unfinished = dist::any_unfinished(mesh["data"]);
      const std::vector<int64_t> drawn = pipe.generate(prompts(), options).to_vector<int64_t>();
      options = options_of(mesh.coordinate("data"));
      expect(drawn == drawn_alone(PipeSubject::gpt, options), "the same tokens");
    });
  }
}

TEST_CASE("only a decoder in stages draws text", "[pipeline]") {
  const auto errors = errors_of(2, [](dist::Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::layers);
    dist::Pipeline pipe(model.pipeline_model(), world);
    pipe.generate(prompts());
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("generate() is for a decoder"));
  }
}
