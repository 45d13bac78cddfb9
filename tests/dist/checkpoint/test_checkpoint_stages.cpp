// Checkpoints of pipelines whose ranks hold unlike things: states that are no parts of a parameter,
// and shards that each slice of a stage cuts at other places.
#include "dist/parallel/pipelines.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/mesh.h>
#include <hero/dist/tensor_parallel.h>
#include <hero/dist/zero.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using hero_test::TempDir;

void save_with(const std::string& run, const Communicator& world, nn::Module& model,
               optim::Optimizer& optimizer, int64_t step) {
  Checkpointer checkpoint(run, world);
  checkpoint.track("model", model);
  checkpoint.track("optimizer", optimizer);
  checkpoint.save(step);
}

void load_with(const std::string& run, nn::Module& model, optim::Optimizer& optimizer) {
  Checkpointer checkpoint(run, {});
  checkpoint.track("model", model);
  checkpoint.track("optimizer", optimizer);
  REQUIRE(checkpoint.resume().has_value());
}

TEST_CASE("states of a whole parameter are saved by a rank of its stage", "[checkpoint]") {
  const TempDir dir;
  run_ranks(3, [&](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    Pipeline pipe(model.pipeline_model(), world, {.micro_batches = 2});
    const auto adafactor = make_method(Method::adafactor, pipe.parameters());
    const auto [x, y] = pipe_batch(PipeSubject::gpt, 0);
    pipe.step(x, y);
    adafactor->step();
    save_with(dir / "run", world, model.module(), *adafactor, 1);
  });
  PipeModel expected = make_pipe_model(PipeSubject::gpt, kCpu);
  const auto first = make_method(Method::adafactor, expected.module().parameters());
  const auto [x, y] = pipe_batch(PipeSubject::gpt, 0);
  accumulate_alone(expected.pipeline_model(), x, y, 2);
  first->step();
  PipeModel loaded = make_pipe_model(PipeSubject::gpt, kCpu);
  const auto second = make_method(Method::adafactor, loaded.module().parameters());
  load_with(dir / "run", loaded.module(), *second);
  CHECK(same_state(loaded.module().state_dict(), expected.module().state_dict()));
  CHECK(same_state(second->state_dict(), first->state_dict()));
}

// 19 words on two ranks are 10 and 9: buckets of ZeRO end at other elements on the one than on the
// other, and both have all of what is not cut.
TEST_CASE("slices of a stage that ZeRO cuts at other places are saved once", "[checkpoint]") {
  const TempDir dir;
  const nn::GPTConfig config = {.vocab_size = 19,
                                .block_size = 8,
                                .n_layer = 3,
                                .n_head = 4,
                                .n_embd = 16,
                                .tie_weights = false};
  manual_seed(5);
  nn::GPT whole(config);
  run_ranks(8, [&](Communicator& world) {
    const Mesh mesh(world, {{"pipe", 2}, {"data", 2}, {"tensor", 2}});
    std::optional<nn::DeviceScope> meta(kMeta);
    manual_seed(5);
    nn::GPT model(config);
    meta.reset();
    tensor_parallel(model, mesh["tensor"], {.sequence = true});
    Pipeline pipe(model, mesh["pipe"], {.micro_batches = 2});
    ZeRO(model, mesh["data"], {.stage = 2, .bucket_bytes = 2000});
    const auto adamw = make_method(Method::adamw, pipe.parameters());
    save_with(dir / "run", world, model, *adamw, 1);
  });
  manual_seed(6);
  nn::GPT loaded(config);
  const auto adamw = make_method(Method::adamw, loaded.parameters());
  load_with(dir / "run", loaded, *adamw);
  CHECK(same_state(loaded.state_dict(), whole.state_dict()));
}

}  // namespace
