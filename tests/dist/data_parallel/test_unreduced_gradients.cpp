// Gradients that were added up while averaging was off: a later pass averages them although it does
// not reach their part, and what nobody has averaged is no gradient that a step may pass over.
#include <string>
#include <vector>

#include "dist/data_parallel/strategies.h"
#include "support/catch.h"

#include <hero/optim/ema.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct TwoSenses : nn::Module {
  nn::Linear& text = add<nn::Linear>("text", 4, 4);
  nn::Linear& vision = add<nn::Linear>("vision", 4, 4);
  bool sees = true;
  Tensor forward(const Tensor& x) override { return sees ? text(x) + vision(x) : text(x); }
};

Tensor loss_of(TwoSenses& model, int rank, bool sees) {
  model.sees = sees;
  return sum(model(full({2, 4}, 1.0 + rank)));
}

enum class Off { no_sync, gradient_sync, gradient_sync_of_a_path, all_reduce };

// How far vision.weight[0] moves where only the first of two micro-batches sees.
float moved(const dist::Communicator& world, Off off, bool nested, bool hybrid) {
  manual_seed(1);
  TwoSenses model;
  const dist::Mesh mesh = hybrid ? dist::Mesh(world, {{"replicate", 2}, {"shard", 2}})
                                 : dist::Mesh(world, {{"shard", 4}});
  if (nested) dist::fully_shard(model.vision, mesh);
  dist::FSDPOptions options;
  if (!nested) options.unit = dist::each<nn::Linear>();
  const dist::DataParallel fsdp = dist::fully_shard(model, mesh, options);
  optim::SGD sgd(model.parameters(), {.lr = 0.125});
  const auto first = [&] {
    for (const auto& entry : fsdp.full_state_dict()) {
      if (entry.name == "vision.weight") return entry.array.to_vector<float>().front();
    }
    fail("no vision.weight");
  };
  const float before = first();
  const auto turn = [&](bool on) {
    if (off == Off::gradient_sync) fsdp.set_requires_gradient_sync(on);
    if (off == Off::gradient_sync_of_a_path) fsdp.set_requires_gradient_sync(on, "vision");
    if (off == Off::all_reduce) fsdp.set_requires_all_reduce(on);
  };
  {
    std::optional<dist::NoSync> local;
    if (off == Off::no_sync) local.emplace(fsdp.no_sync());
    turn(false);
    loss_of(model, world.rank(), true).backward();
    turn(true);
  }
  loss_of(model, world.rank(), false).backward();
  sgd.step();
  sgd.zero_grad();
  return first() - before;
}

}  // namespace

TEST_CASE("a pass that averages leaves no gradient behind, whatever part it reaches") {
  for (const Off off :
       {Off::no_sync, Off::gradient_sync, Off::gradient_sync_of_a_path, Off::all_reduce}) {
    for (const bool nested : {false, true}) {
      for (const bool hybrid : {false, true}) {
        if (off == Off::all_reduce && !hybrid) continue;
        CAPTURE(static_cast<int>(off), nested, hybrid);
        // the mean over the ranks of the sum over two rows of 1 + rank
        CHECK(errors_of(4, [&](dist::Communicator& world) {
                const float by = moved(world, off, nested, hybrid);
                expect(std::abs(by + 0.625f) < 1e-6f, "moved by ", by);
              }) == std::vector<std::string>(4));
      }
    }
  }
}

TEST_CASE("a step or zero_grad() of gradients that are still to be averaged is an error") {
  for (const ShardingStrategy strategy : kSharding) {
    CAPTURE(name(strategy));
    dist::run_ranks(2, [&](dist::Communicator& world) {
      const auto model = make_subject(Subject::mlp);
      const dist::DataParallel parallel = [&]() -> dist::DataParallel {
        if (strategy == ShardingStrategy::zero1) return dist::ZeRO(*model, world, {.stage = 1});
        if (strategy == ShardingStrategy::zero2) return dist::ZeRO(*model, world, {.stage = 2});
        if (strategy == ShardingStrategy::zero3) return dist::ZeRO(*model, world, {.stage = 3});
        return dist::fully_shard(*model, world,
                                 {.unit = dist::each<nn::Linear>(),
                                  .reshard_after_forward = strategy == ShardingStrategy::fsdp});
      }();
      optim::SGD sgd(model->parameters(), {.lr = 0.1});
      {
        const auto local = parallel.no_sync();
        subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
        sgd.step();  // nothing to step by, and nothing is lost
      }
      for (const auto& [what, act] : std::vector<std::pair<const char*, std::function<void()>>>{
               {"step: ", [&] { sgd.step(); }},
               {"zero_grad: ", [&] { sgd.zero_grad(); }},
               {"zero_grad: ", [&] { model->zero_grad(); }}}) {
        const std::string error = error_of(act);
        expect(error.starts_with(what), error);
        expect(error.find("still owes the ranks a gradient") != std::string::npos, error);
      }
      subject_loss(Subject::mlp, *model, 1, world.rank()).backward();
      sgd.step();
      sgd.zero_grad();
      {
        const auto local = parallel.no_sync();
        subject_loss(Subject::mlp, *model, 2, world.rank()).backward();
        sgd.zero_grad();  // dropped on purpose
      }
      sgd.step();
    });
  }
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const dist::DDP ddp(*model, world);
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    {
      const auto local = ddp.no_sync();
      subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
    }
    expect(error_of([&] { sgd.step(); }).starts_with("step: 'fc"), "each by its own gradients");
    sgd.zero_grad();
    subject_loss(Subject::mlp, *model, 1, world.rank()).backward();
    sgd.step();
  });
}

TEST_CASE("a pipeline of several chunks leaves no gradient of a module sharded block by block") {
  float moved[2] = {};
  for (const bool idiom : {false, true}) {
    dist::run_ranks(4, [&](dist::Communicator& world) {
      manual_seed(1);
      nn::GPT model({.vocab_size = 17,
                     .block_size = 6,
                     .n_layer = 6,
                     .n_head = 2,
                     .n_embd = 8,
                     .tie_weights = false});
      const dist::Mesh mesh(world, {{"pipe", 2}, {"data", 2}});
      dist::Pipeline pipe(model, mesh["pipe"],
                          {.schedule = dist::Schedule::interleaved(2), .micro_batches = 4});
      if (idiom) {
        for (size_t i = 0; i < model.transformer.h.size(); ++i) {
          bool here = false;
          for (const Tensor& p : model.transformer.h[i].parameters()) here |= p.numel() > 0;
          if (here) dist::fully_shard(model.transformer.h[i], mesh["data"]);
        }
      }
      dist::FSDPOptions options;
      if (!idiom) options.unit = dist::each<nn::Block>();
      const auto fsdp = dist::fully_shard(model, mesh["data"], options);
      optim::SGD sgd(pipe.parameters(), {.lr = 0.5});
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < 48; ++i) ids.push_back((i * 7 + mesh.coordinate("data") * 5) % 17);
      const Tensor tokens(Array::from(ids, {8, 6}));
      for (int step = 0; step < 3; ++step) {
        pipe.step(tokens, tokens);
        sgd.step();
        sgd.zero_grad();
      }
      for (const auto& entry : fsdp.full_state_dict()) {
        if (entry.name != "transformer.ln_f.weight" || world.rank() != 0) continue;
        for (const float value : entry.array.to_vector<float>()) {
          moved[idiom] += std::abs(value - 1.0f);
        }
      }
    });
  }
  CHECK(moved[0] > 0.01f);
  CHECK(moved[0] == moved[1]);
}

TEST_CASE("ranks that limit gradients by other norms, or drop some alone, are told") {
  const auto said = [](const auto& body) {
    std::string all;
    for (const std::string& error : errors_of(2, body)) all += error;
    return all;
  };
  // ignored modules keep this rank's own gradients, which count in the norm
  CHECK_THAT(said([](dist::Communicator& world) {
               const auto model = make_subject(Subject::mlp);
               const dist::DDP ddp(*model, world, {.ignored_modules = {"fc3"}});
               optim::SGD sgd(model->parameters(), {.lr = 0.1});
               for (int step = 0; step < 2; ++step) {
                 subject_loss(Subject::mlp, *model, step, world.rank()).backward();
                 optim::clip_grad_norm(model->parameters(), 0.1);
                 sgd.step();
                 sgd.zero_grad();
               }
             }),
             ContainsSubstring("limit gradients of norm"));
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero2, ShardingStrategy::fsdp}) {
    CAPTURE(name(strategy));
    CHECK_THAT(said([&](dist::Communicator& world) {
                 const auto model = make_subject(Subject::mlp);
                 climb(strategy, Subject::mlp, *model, world);
                 optim::SGD sgd(model->parameters(), {.lr = 0.1});
                 for (int step = 0; step < 2; ++step) {
                   subject_loss(Subject::mlp, *model, step, world.rank()).backward();
                   if (world.rank() == 1) model->get_submodule("fc2").zero_grad();
                   sgd.step();
                   sgd.zero_grad();
                 }
               }),
               ContainsSubstring("by gradients of 4 of 6 parameters"));
  }
  CHECK(said([](dist::Communicator& world) {  // its averaged gradients have one norm
          const auto model = make_subject(Subject::mlp);
          const dist::DDP ddp(*model, world, {.ignored_modules = {"fc3"}});
          std::vector<Tensor> averaged;
          for (const auto& [name, p] : model->named_parameters()) {
            if (!name.starts_with("fc3")) averaged.push_back(p);
          }
          for (int step = 0; step < 2; ++step) {
            subject_loss(Subject::mlp, *model, step, world.rank()).backward();
            optim::clip_grad_norm(averaged, 0.1);
            model->zero_grad();
          }
        }) == "");
}

TEST_CASE("what a backward that failed has left is nothing that is owed") {
  for (const ShardingStrategy strategy :
       {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
        ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
    for (const int ranks : {1, 2}) {
      CAPTURE(name(strategy), ranks);
      CHECK(errors_of(ranks, [&](dist::Communicator& world) {
              manual_seed(1);
              TwoSenses model;
              climb(strategy, Subject::mlp, model, world);
              optim::SGD sgd(model.parameters(), {.lr = 0.125});
              const auto fails = [&] {
                HookHandle handle = model.text.register_forward_hook(
                    [](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
                      out[0].register_hook([](const Tensor&) -> Tensor { fail("the hook fails"); });
                    });
                const Tensor loss = loss_of(model, world.rank(), true);
                handle.remove();
                loss.backward();
              };
              expect(error_of(fails).find("the hook fails") != std::string::npos, "it fails");
              sgd.zero_grad();
              loss_of(model, world.rank(), true).backward();
              sgd.step();
              expect(!error_of(fails).empty(), "it fails again");
              sgd.step();
              sgd.zero_grad();
            }) == std::vector<std::string>(static_cast<size_t>(ranks)));
    }
  }
}

TEST_CASE("an average of parameters steps while gradients are owed") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const auto model = make_subject(Subject::mlp);
    const auto fsdp = dist::fully_shard(*model, world);
    optim::EMA average(model->parameters(), {.decay = 0.5});
    {
      const auto local = fsdp.no_sync();
      subject_loss(Subject::mlp, *model, 0, world.rank()).backward();
    }
    average.step();
    subject_loss(Subject::mlp, *model, 1, world.rank()).backward();
  });
}

TEST_CASE("gradients of passes that are not averaged add up in the dtype of sums") {
  constexpr int kPasses = 300;  // with a gradient of 1 each; bfloat16 counts to 256
  const auto is_full = [](const Tensor& leaf, double value) {
    return leaf.numel() == 0 || same(leaf.grad().array(), full(leaf.shape(), value).array());
  };
  const auto check_sums = [&](dist::Communicator& world, Off off, bool one_unit) {
    TwoSenses model;
    dist::FSDPOptions options{.mixed_precision = {.parameters = kBFloat16, .reduce = kFloat32}};
    if (!one_unit) options.unit = dist::each<nn::Linear>();
    const dist::DataParallel fsdp = dist::fully_shard(model, world, options);
    const auto pass = [&](bool sees) {
      model.sees = sees;
      sum(model(ones({1, 4}))).backward();
    };
    const auto turn = [&](bool on) {
      if (off == Off::gradient_sync) fsdp.set_requires_gradient_sync(on);
      if (off == Off::gradient_sync_of_a_path) fsdp.set_requires_gradient_sync(on, "vision");
    };
    std::optional<dist::NoSync> local;
    if (off == Off::no_sync) local.emplace(fsdp.no_sync());
    turn(false);
    for (int i = 0; i < kPasses; ++i) pass(!one_unit);  // false: it reaches half of the one unit
    turn(true);
    local.reset();
    pass(one_unit);
    for (const Tensor& leaf : model.text.parameters())
      expect(is_full(leaf, kPasses + 1), "text: ", leaf.grad());
    for (const Tensor& leaf : model.vision.parameters())
      expect(is_full(leaf, one_unit ? 1 : kPasses), "vision: ", leaf.grad());
    model.zero_grad();
    {
      const dist::NoSync dropped = fsdp.no_sync();
      pass(true);
      model.zero_grad();
    }
    pass(true);
    for (const Tensor& leaf : model.parameters())
      expect(is_full(leaf, 1), "what was dropped is counted: ", leaf.grad());
  };
  for (const int ranks : {1, 2}) {
    for (const bool one_unit : {false, true}) {
      for (const Off off : {Off::no_sync, Off::gradient_sync, Off::gradient_sync_of_a_path}) {
        if (one_unit && off == Off::gradient_sync_of_a_path) continue;
        CAPTURE(ranks, one_unit, static_cast<int>(off));
        dist::run_ranks(ranks,
                        [&](dist::Communicator& world) { check_sums(world, off, one_unit); });
      }
    }
  }
}
