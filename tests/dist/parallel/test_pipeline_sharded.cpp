// Pipelines along one axis of a mesh and FSDP along the other; checkpoints of pipelines.
#include <map>
#include <mutex>
#include <set>

#include "dist/parallel/pipelines.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/dist/checkpoint.h>
#include <hero/dist/ddp.h>
#include <hero/dist/fsdp.h>
#include <hero/dist/mesh.h>
#include <hero/dist/zero.h>

namespace {

using namespace hero;
using namespace hero::dist;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

constexpr int kReplicas = 2;

// Each data-parallel rank's micro-batches one after the other, then the mean over the ranks.
void train_replicas_alone(const PipeRun& c, Whole& whole, std::vector<double>& numbers) {
  PipeModel model = make_pipe_model(c.subject, kCpu);
  const auto parameters = model.module().parameters();
  const auto optimizer = make_method(c.method, parameters);
  optim::Accumulator gradients(parameters);
  for (int step = 0; step < c.steps; ++step) {
    for (int r = 0; r < kReplicas; ++r) {
      const auto [x, y] = pipe_batch(c.subject, step, r);
      accumulate_alone(model.pipeline_model(), x, y, c.micro_batches);
      gradients.add();
    }
    gradients.mean();
    finish_pipe_step(parameters, *optimizer, numbers);
  }
  add_state(whole, model.module(), *optimizer);
}

// What the ranks of a pipeline do along the data axis.
using ShardPipe = std::function<void(nn::Module&, const Communicator&)>;

void train_sharded(const PipeRun& c, const Mesh& mesh, const ShardPipe& shard, Whole& whole,
                   std::vector<double>& numbers) {
  PipeModel model = make_pipe_model(c.subject);
  Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                {.schedule = c.schedule, .micro_batches = c.micro_batches});
  shard(model.module(), mesh["data"]);
  const auto optimizer = make_method(c.method, pipe.parameters());
  for (int step = 0; step < c.steps; ++step) {
    const auto [x, y] = pipe_batch(c.subject, step, mesh.coordinate("data"));
    pipe.step(x, y);
    finish_pipe_step(pipe.parameters(), *optimizer, numbers);
  }
  add_state(whole, model.module(), *optimizer);
}

void check_sharded(PipeRun c, const std::vector<Schedule>& schedules, const ShardPipe& shard) {
  Whole expected;
  std::vector<double> numbers;
  train_replicas_alone(c, expected, numbers);
  for (const Schedule& schedule : schedules) {
    CAPTURE(schedule.name(), c.ranks, c.micro_batches);
    c.schedule = schedule;
    Whole got;
    run_ranks(c.ranks * kReplicas, [&](Communicator& world) {
      const Mesh mesh(world, {{"pipe", c.ranks}, {"data", kReplicas}});
      std::vector<double> found;
      train_sharded(c, mesh, shard, got, found);
      expect(found == numbers, "norms of the whole model");
    });
    CHECK(expected.size() > 4);
    CHECK(expected.difference(got) == "");
  }
}

UnitPolicy pipe_units(PipeSubject subject) {
  return subject == PipeSubject::gpt ? each<nn::Block>() : each_child();
}

// A rank of a pipeline that saves and loads.
struct PipeRunner {
  PipeModel model;
  std::optional<Pipeline> pipe;
  std::unique_ptr<optim::Optimizer> optimizer;
  const Communicator& world;

  PipeRunner(PipeSubject subject, const Communicator& w)
      : model(make_pipe_model(subject, w.defined() ? kMeta : kCpu)), world(w) {
    if (world.defined())
      pipe.emplace(model.pipeline_model(), world, PipelineOptions{.micro_batches = 4});
    optimizer = make_method(Method::adamw, model.module().parameters());
  }
  void step(PipeSubject subject, int number) {
    const auto [x, y] = pipe_batch(subject, number);
    if (pipe) {
      pipe->step(x, y);
    } else {
      accumulate_alone(model.pipeline_model(), x, y, 4);
    }
    optimizer->step();
    optimizer->zero_grad();
  }
  Checkpointer checkpointer(const std::string& run) {
    Checkpointer checkpoint(run, world);
    checkpoint.track("model", model.module());
    checkpoint.track("optimizer", *optimizer);
    return checkpoint;
  }
};

// 1: one process without a pipeline.
void on_pipe_ranks(PipeSubject subject, int ranks, const std::function<void(PipeRunner&)>& body) {
  if (ranks == 1) {
    const Communicator alone;
    PipeRunner runner(subject, alone);
    return body(runner);
  }
  run_ranks(ranks, [&](Communicator& world) {
    PipeRunner runner(subject, world);
    body(runner);
  });
}

}  // namespace

TEST_CASE("a pipeline whose stages are sharded ends with the bits of one process",
          "[pipeline][threads]") {
  for (const PipeSubject subject : {PipeSubject::layers, PipeSubject::gpt}) {
    for (const bool reshard : {true, false}) {
      CAPTURE(static_cast<int>(subject), reshard);
      check_sharded({.subject = subject, .ranks = 2, .micro_batches = 4},
                    {Schedule::gpipe(), Schedule::one_f_one_b(), Schedule::interleaved(2),
                     Schedule::zero_bubble()},
                    [&](nn::Module& module, const Communicator& data) {
                      fully_shard(module, data,
                                  {.unit = pipe_units(subject), .reshard_after_forward = reshard});
                    });
    }
  }
}

TEST_CASE("a pipeline with ZeRO along the data axis ends with the bits of one process",
          "[pipeline]") {
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    check_sharded({.subject = PipeSubject::layers, .ranks = 2, .micro_batches = 4},
                  {Schedule::gpipe(), Schedule::one_f_one_b(), Schedule::zero_bubble()},
                  [&](nn::Module& module, const Communicator& data) {
                    ZeRO(module, data, {.stage = stage, .bucket_bytes = 700});
                  });
  }
}

TEST_CASE("what a checkpoint computes again in a pipeline with ZeRO is whole, and gathered once",
          "[pipeline]") {
  const auto after_two_steps = [](bool checkpoint, int stage, const Schedule& schedule) {
    std::vector<double> losses;
    run_ranks(4, [&](Communicator& world) {
      const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      manual_seed(5);
      nn::GPT model({.vocab_size = 24,
                     .block_size = 8,
                     .n_layer = 4,
                     .n_head = 2,
                     .n_embd = 16,
                     .checkpoint = checkpoint,
                     .tie_weights = false});
      Pipeline pipe(model, mesh["pipe"], {.schedule = schedule, .micro_batches = 4});
      if (stage > 0) ZeRO(model, mesh["data"], {.stage = stage, .bucket_bytes = 4000});
      optim::AdamW adamw(pipe.parameters(), {.lr = 1e-2});
      const Tensor tokens = randint(0, 24, {4, 8});
      for (int step = 0; step < 2; ++step) {
        world.traffic().reset();
        const double loss = pipe.step(tokens, tokens);
        if (world.rank() == 0) losses.push_back(loss);
        adamw.step();
        adamw.zero_grad();
      }
      int64_t gathered = 0, cut = 0;
      for (const auto& row : world.traffic().rows()) {
        gathered += row.op == Collective::all_gather ? row.bytes : 0;
        cut += row.op == Collective::reduce_scatter ? row.bytes : 0;
      }
      if (stage == 2) expect(gathered == cut, "gathered ", gathered, ", averaged ", cut);
    });
    return losses;
  };
  for (const Schedule& schedule :
       {Schedule::gpipe(), Schedule::one_f_one_b(), Schedule::zero_bubble()}) {
    const std::vector<double> plain = after_two_steps(false, 2, schedule);
    CHECK(plain.front() != plain.back());
    for (const int stage : {1, 2, 3}) {
      CAPTURE(schedule.name(), stage);
      CHECK(after_two_steps(true, stage, schedule) == plain);
    }
  }
}

TEST_CASE("each unit of a sharded stage is averaged once a step", "[pipeline]") {
  for (const Schedule& schedule :
       {Schedule::one_f_one_b(), Schedule::interleaved(2), Schedule::zero_bubble()}) {
    run_ranks(4, [&](Communicator& world) {
      const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      PipeModel model = make_pipe_model(PipeSubject::gpt);
      Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                    {.schedule = schedule, .micro_batches = 4});
      DataParallel sharded = fully_shard(model.module(), mesh["data"], {.unit = each<nn::Block>()});
      std::map<std::string, int> reduced;
      sharded.on_event([&](const Event& event) {
        if (event.kind == Event::Kind::reduce) ++reduced[event.unit];
      });
      const auto [x, y] = pipe_batch(PipeSubject::gpt, 0, mesh.coordinate("data"));
      pipe.step(x, y);
      expect(reduced.size() == 4 && sharded.units().size() == 4,
             "three blocks and the root: ", reduced.size());
      for (const auto& [unit, times] : reduced) expect(times == 1, unit, " was averaged ", times);
      sharded.set_requires_gradient_sync(false);
      reduced.clear();
      pipe.step(x, y);
      expect(reduced.empty(), "nothing is averaged where the program says so");
      sharded.set_requires_gradient_sync(true);
      pipe.step(x, y);
      expect(reduced.size() == 4, "the next step averages");
    });
  }
}

TEST_CASE("units that are not freed after forward are gathered once for all micro-batches",
          "[pipeline]") {
  for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_f_one_b(),
                                   Schedule::interleaved(2), Schedule::zero_bubble()}) {
    run_ranks(4, [&](Communicator& world) {
      const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      const auto gathered = [&](int m, bool reshard) {
        PipeModel model = make_pipe_model(PipeSubject::gpt);
        Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                      {.schedule = schedule, .micro_batches = m});
        const DataParallel sharded =
            fully_shard(model.module(), mesh["data"],
                        {.unit = each<nn::Block>(), .reshard_after_forward = reshard});
        const auto [x, y] = pipe_batch(PipeSubject::gpt, 0, mesh.coordinate("data"));
        std::map<std::string, int> times;
        sharded.on_event([&](const Event& event) {
          if (event.kind == Event::Kind::gather) ++times[event.unit];
        });
        pipe.step(x, y);
        expect(times.size() == sharded.units().size(), "each unit is gathered");
        int most = 0;
        for (const auto& [unit, count] : times) most = std::max(most, count);
        sharded.reshard("");
        for (const Tensor& p : pipe.parameters()) {
          expect(partition(p) != nullptr, "shards between two steps");
        }
        expect(current_ledger().live(MemoryTag::communication) == 0, "nothing stays gathered");
        return most;
      };
      expect(gathered(4, false) == 1, "once a step");
      expect(gathered(4, true) > 4, "for each forward and backward");
    });
  }
}

TEST_CASE("gradients of weights gather no unit again", "[pipeline]") {
  std::map<std::string, std::vector<std::string>> seen;  // of rank 2, by schedule
  for (const Schedule& schedule : {Schedule::one_f_one_b(), Schedule::zero_bubble()}) {
    run_ranks(4, [&](Communicator& world) {
      const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      PipeModel model = make_pipe_model(PipeSubject::gpt);
      Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                    {.schedule = schedule, .micro_batches = 4});
      const DataParallel sharded =
          fully_shard(model.module(), mesh["data"], {.unit = each<nn::Block>()});
      std::vector<std::string> events;
      int gathered = 0, most = 0;
      sharded.on_event([&](const Event& event) {
        if (event.kind == Event::Kind::gather) events.push_back(event.unit);
        gathered += event.kind == Event::Kind::gather ? 1
                    : event.kind == Event::Kind::free ? -1
                                                      : 0;
        most = std::max(most, gathered);
      });
      const auto [x, y] = pipe_batch(PipeSubject::gpt, 0, mesh.coordinate("data"));
      pipe.step(x, y);
      expect(gathered == 0 && most <= 3, "the root and two blocks are gathered at most: ", most);
      std::sort(events.begin(), events.end());
      if (world.rank() == 2) seen[schedule.name()] = events;
    });
  }
  CHECK(seen["1f1b"].size() > 4);
  CHECK(seen["1f1b"] == seen["zero_bubble"]);
}

TEST_CASE("a sharded pipeline in bfloat16 computes in bfloat16", "[pipeline]") {
  run_ranks(4, [](Communicator& world) {
    const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
    PipeModel model = make_pipe_model(PipeSubject::gpt);
    Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 4});
    fully_shard(model.module(), mesh["data"],
                {.unit = each<nn::Block>(), .mixed_precision = {.parameters = kBFloat16}});
    optim::AdamW adamw(pipe.parameters(), {.lr = 1e-2});
    double first = 0.0, last = 0.0;
    const auto [x, y] = pipe_batch(PipeSubject::gpt, 0, mesh.coordinate("data"));
    world.traffic().reset();
    for (int step = 0; step < 10; ++step) {
      last = pipe.step(x, y);
      if (step == 0) first = last;
      adamw.step();
      adamw.zero_grad();
    }
    expect(last < first, "the loss falls: ", first, " to ", last);
    const std::string sent = mesh.coordinate("pipe") == 0 ? "activations" : "gradients";
    expect(world.traffic().bytes_of_unit(sent) == 10 * 56 * 6 * 8 * 2, "borders in bfloat16");
  });
}

TEST_CASE("checkpoints of pipelines go on in one process and in longer pipelines",
          "[pipeline][checkpoint]") {
  for (const PipeSubject subject : {PipeSubject::layers, PipeSubject::gpt}) {
    const TempDir folder;
    const std::vector<int> ranks = {2, 1, 4, 3, 1};
    std::vector<Whole> at_save(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      CAPTURE(static_cast<int>(subject), i);
      Whole loaded;
      on_pipe_ranks(subject, ranks[i], [&](PipeRunner& runner) {
        Checkpointer checkpoint = runner.checkpointer(folder / "run");
        const auto found = checkpoint.resume();
        expect(found.value_or(0) == static_cast<int64_t>(2 * i), "the last checkpoint");
        if (i > 0) add_state(loaded, runner.model.module(), *runner.optimizer);
        for (int step = 0; step < 2; ++step) {
          runner.step(subject, static_cast<int>(2 * i) + step);
        }
        checkpoint.save(static_cast<int64_t>(2 * i + 2));
        add_state(at_save[i], runner.model.module(), *runner.optimizer);
      });
      if (i > 0) CHECK(at_save[i - 1].difference(loaded) == "");
    }
    Whole expected;
    on_pipe_ranks(subject, 1, [&](PipeRunner& runner) {
      for (int step = 0; step < 10; ++step) runner.step(subject, step);
      add_state(expected, runner.model.module(), *runner.optimizer);
    });
    CHECK(expected.difference(at_save.back()) == "");
  }
}

TEST_CASE("a whole model is read into a pipeline and written by one", "[pipeline][checkpoint]") {
  const TempDir folder;
  PipeModel whole = make_pipe_model(PipeSubject::gpt_tied, kCpu);
  {
    const NoGrad no_grad;
    for (const Tensor& p : whole.module().parameters()) p.add_(0.25);
  }
  whole.module().save(folder / "whole.safetensors");
  run_ranks(3, [&](Communicator& world) {
    PipeModel model = make_pipe_model(PipeSubject::gpt_tied);
    Pipeline pipe(model.pipeline_model(), world, {.micro_batches = 2});
    load_full(folder / "whole.safetensors", world, model.module());
    save_full(folder / "saved", world, model.module());
  });
  PipeModel again = make_pipe_model(PipeSubject::gpt_tied, kCpu);
  load_full(folder / "saved", Communicator(), again.module());
  CHECK(same_state(whole.module().state_dict(), again.module().state_dict()));
}

TEST_CASE("a tied weight's gradients that wait under no_sync() are averaged once",
          "[pipeline][threads]") {
  // Before the second step nothing is cleared: it adds to a mean, and then to what waits.
  const std::vector<std::vector<bool>> cases = {{false, true}, {true, false, false, true}};
  for (const std::vector<bool>& averages : cases) {
    PipeModel whole = make_pipe_model(PipeSubject::gpt_tied, kCpu);
    for (size_t i = 0; i < averages.size(); ++i) {
      for (int r = 0; r < kReplicas; ++r) {
        const auto [x, y] = pipe_batch(PipeSubject::gpt_tied, static_cast<int>(i), r);
        accumulate_alone(*whole.gpt, x, y, 2);
      }
    }
    const auto wanted = whole.module().parameters();
    for (const Tensor& p : wanted) p.grad().mul_(1.0 / kReplicas);
    for (const Schedule& schedule : {Schedule::one_f_one_b(), Schedule::interleaved(2)}) {
      std::vector<uint64_t> hashes(6);
      run_ranks(6, [&](Communicator& world) {
        const Mesh mesh(world, {{"pipe", 3}, {"data", kReplicas}});
        PipeModel model = make_pipe_model(PipeSubject::gpt_tied);
        Pipeline pipe(model.pipeline_model(), mesh["pipe"],
                      {.schedule = schedule, .micro_batches = 2});
        DDP ddp(model.module(), mesh["data"]);
        for (size_t i = 0; i < averages.size(); ++i) {
          ddp.set_requires_gradient_sync(averages[i]);
          const auto [x, y] =
              pipe_batch(PipeSubject::gpt_tied, static_cast<int>(i), mesh.coordinate("data"));
          pipe.step(x, y);
        }
        const auto got = pipe.parameters();
        for (size_t i = 0; i < got.size(); ++i) {
          if (got[i].numel() == 0) continue;
          // float32, added up in another order
          const double off = (got[i].grad() - wanted[i].grad()).abs().max().item();
          expect(off < 2e-6, "gradient ", i, " differs by ", off);
        }
        const Tensor tied = model.gpt->lm_head.weight;
        hashes[static_cast<size_t>(world.rank())] = hash(tied.grad().array());
        expect((mesh.coordinate("pipe") == 1) == (tied.numel() == 0), "the stage without it");
      });
      std::set<uint64_t> copies(hashes.begin(), hashes.end());
      CHECK(copies.size() == 2);  // those of the stages that have it, and nothing
    }
  }
}

TEST_CASE("what a sharded pipeline refuses is named", "[pipeline]") {
  const auto program = [](const std::function<void(PipeModel&, const Mesh&)>& body) {
    return errors_of(4, [&](Communicator& world) {
      const Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      PipeModel model = make_pipe_model(PipeSubject::gpt_tied);
      body(model, mesh);
    })[0];
  };
  const auto [x, y] = pipe_batch(PipeSubject::gpt, 0);
  CHECK_THAT(
      program([&, x = x, y = y](PipeModel& model, const Mesh& mesh) {
        Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
        fully_shard(model.module(), mesh["data"]);
        pipe.step(x, y);
      }),
      ContainsSubstring("pipeline: 'transformer.wte.weight' is tied over stages and sharded"));
  const auto frozen_first = [&, x = x, y = y](bool trained) {
    return [=](PipeModel& model, const Mesh& mesh) {
      const Tensor tied = model.gpt->lm_head.weight;
      tied.requires_grad_(false);
      Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
      fully_shard(model.module(), mesh["data"]);
      model.gpt->lm_head.weight.requires_grad_(trained);
      pipe.step(x, y);
    };
  };
  CHECK_THAT(
      program(frozen_first(true)),
      ContainsSubstring("pipeline: 'transformer.wte.weight' is tied over stages and sharded"));
  CHECK(program(frozen_first(false)).empty());
  CHECK_THAT(program([&, x = x, y = y](PipeModel& model, const Mesh& mesh) {
               Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
               DDP ddp(model.module(), mesh["data"]);
               ddp.set_requires_gradient_sync(mesh.coordinate("pipe") == 0);
               pipe.step(x, y);
             }),
             ContainsSubstring("train 'transformer.wte.weight', tied over stages, without "));
  CHECK_THAT(program([](PipeModel& model, const Mesh& mesh) {
               fully_shard(model.module(), mesh["data"]);
               Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
             }),
             ContainsSubstring("is sharded already; make the pipeline before fully_shard()"));
  CHECK_THAT(program([](PipeModel& model, const Mesh& mesh) {
               const Pipeline pipe(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
               const Pipeline second(model.pipeline_model(), mesh["pipe"], {.micro_batches = 2});
             }),
             ContainsSubstring("'transformer.wte.weight' is in a pipeline already"));
}
