// Whole models in safetensors files, from shards and into shards.
#include <filesystem>
#include <string>

#include "dist/checkpoints.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/dist.h>
#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;

namespace {

constexpr Job kGpt = {Subject::gpt, Method::adamw}, kOdd = {Subject::odd, Method::sgd};

// The parameters' bits of a job after two steps on three ranks, which files are written of.
void train(const Stand& stand, const Job& job, Whole& whole,
           const std::function<void(Runner&)>& save) {
  on_ranks(stand, job, [&](Runner& runner) {
    for (int i = 0; i < 2; ++i) runner.step(i);
    save(runner);
    runner.optimizer = make_method(job.method, runner.model->parameters());  // no states
    add_state(whole, *runner.model, *runner.optimizer);
  });
}

std::string difference_after(const Whole& whole, const Stand& stand, const Job& job,
                             const std::function<void(Runner&)>& load) {
  Whole loaded;
  on_ranks(stand, job, [&](Runner& runner) {
    runner.spoil();
    load(runner);
    add_state(loaded, *runner.model, *runner.optimizer);
  });
  return whole.difference(loaded);
}

}  // namespace

TEST_CASE("shards become the one file that a single process writes, byte for byte") {
  const TempDir dir;
  for (const Job& job : {kGpt, kOdd}) {
    Whole single, sharded;
    train({ShardingStrategy::single, 3}, job, single,
          [&](Runner& runner) { runner.model->save(dir / "single.safetensors"); });
    for (const ShardingStrategy strategy : {ShardingStrategy::ddp, ShardingStrategy::zero1,
                                            ShardingStrategy::zero3, ShardingStrategy::fsdp}) {
      CAPTURE(name(strategy));
      const std::string path = dir / (std::string(name(strategy)) + ".safetensors");
      train({strategy, 3}, job, sharded,
            [&](Runner& runner) { dist::save_full(path, runner.world, *runner.model); });
      CHECK(slurp(path) == slurp(dir / "single.safetensors"));
    }
  }
}

TEST_CASE("a whole file, an indexed set and a checkpoint's parts load under any strategy") {
  const TempDir dir;
  Whole saved;
  train({ShardingStrategy::fsdp, 3}, kGpt, saved, [&](Runner& runner) {
    dist::save_full(dir / "one.safetensors", runner.world, *runner.model);
    dist::save_full(dir / "set", runner.world, *runner.model, {.max_shard_bytes = 2000});
    dist::save_full(dir / "small", runner.world, *runner.model);
    runner.checkpointer(dir / "run").save(2);
  });
  const std::string index = slurp(dir / "set/model.safetensors.index.json");
  CHECK_THAT(index, ContainsSubstring("\"total_size\"") && ContainsSubstring("-of-00") &&
                        ContainsSubstring("wte.weight"));
  CHECK(std::filesystem::exists(dir / "small/model.safetensors"));
  for (const Stand& target :
       {Stand{ShardingStrategy::single, 1}, Stand{ShardingStrategy::ddp, 2},
        Stand{ShardingStrategy::zero3, 4}, Stand{ShardingStrategy::hybrid, 4}}) {
    for (const char* path : {"one.safetensors", "set", "set/model.safetensors.index.json", "small",
                             "run/checkpoints/step-00000002"}) {
      CAPTURE(name(target), path);
      CHECK(difference_after(saved, target, kGpt, [&](Runner& runner) {
              dist::load_full(dir / path, runner.world, *runner.model);
            }) == "");
    }
  }
}

TEST_CASE("names with a wrapper's prefix load, other dtypes are converted, misfits are listed") {
  const TempDir dir;
  const auto model = make_subject(Subject::mlp);
  std::vector<core::NamedArray> wrapped, other;
  for (const auto& [name, array] : model->state_dict()) {
    wrapped.push_back({"module." + name, array.to(kFloat64)});
    other.push_back({name == "fc1.bias" ? "fc9.bias" : name,
                     name == "fc2.weight" ? array.reshape({11 * 13}) : array});
  }
  core::save_safetensors(dir / "wrapped.safetensors", wrapped);
  core::save_safetensors(dir / "other.safetensors", other);
  Whole whole;
  add_state(whole, *model, *make_method(Method::sgd, model->parameters()));
  const Stand target = {ShardingStrategy::fsdp, 3};
  CHECK(difference_after(whole, target, {}, [&](Runner& runner) {
          const auto result =
              dist::load_full(dir / "wrapped.safetensors", runner.world, *runner.model);
          expect(result.stripped == "module.", "the prefix is reported");
        }) == "");
  CHECK_THROWS_WITH(
      on_ranks(target, {},
               [&](Runner& runner) {
                 dist::load_full(dir / "other.safetensors", runner.world, *runner.model);
               }),
      ContainsSubstring("missing: fc1.bias") && ContainsSubstring("unexpected: fc9.bias") &&
          ContainsSubstring("mis-shaped: fc2.weight [143] instead of [11, 13]"));
}

TEST_CASE("a set with a missing file, and a folder that holds another set, are refused") {
  const TempDir dir;
  const Stand stand = {ShardingStrategy::fsdp, 2};
  on_ranks(stand, kGpt, [&](Runner& runner) {
    dist::save_full(dir / "set", runner.world, *runner.model, {.max_shard_bytes = 2000});
  });
  CHECK_THROWS_WITH(
      on_ranks(stand, kGpt,
               [&](Runner& runner) { dist::save_full(dir / "set", runner.world, *runner.model); }),
      ContainsSubstring("model.safetensors.index.json already"));
  std::string first;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "set")) {
    const std::string file = entry.path().filename().string();
    if (file.find("-00001-of-") != std::string::npos) first = file;
  }
  REQUIRE(std::filesystem::remove(dir / ("set/" + first)));
  CHECK_THROWS_WITH(
      on_ranks(stand, kGpt,
               [&](Runner& runner) { dist::load_full(dir / "set", runner.world, *runner.model); }),
      ContainsSubstring(first) && ContainsSubstring("missing"));
  // a name that leads out of the folder, whatever lies there
  std::string index = slurp(dir / "set/model.safetensors.index.json");
  for (size_t at = 0; (at = index.find(first, at)) != std::string::npos; at += 3 + first.size()) {
    index.insert(at, "../");
  }
  hero_test::spill(dir / "set/model.safetensors.index.json", index);
  hero_test::spill(dir / first, "");
  CHECK_THROWS_WITH(
      on_ranks(stand, kGpt,
               [&](Runner& runner) { dist::load_full(dir / "set", runner.world, *runner.model); }),
      ContainsSubstring("names ../" + first + ", which leads out of the folder; the files of an "));
  CHECK_THROWS_WITH(on_ranks(stand, kGpt,
                             [&](Runner& runner) {
                               dist::save_full(dir / "no/such/model.safetensors", runner.world,
                                               *runner.model);
                             }),
                    ContainsSubstring("no/such/model.safetensors"));
}

namespace {

// What every rank's `act` throws.
template <class Act>
std::string refused_with(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

nn::GPTConfig small_gpt(bool tied) {
  return {.vocab_size = 11,
          .block_size = 6,
          .n_layer = 1,
          .n_head = 2,
          .n_embd = 8,
          .tie_weights = tied};
}

dist::DataParallel under_strategy(ShardingStrategy strategy, nn::Module& model,
                                  dist::Communicator& world) {
  if (strategy == ShardingStrategy::ddp) return dist::DDP(model, world);
  if (strategy == ShardingStrategy::fsdp)
    return dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
  return dist::ZeRO(model, world, {.stage = strategy == ShardingStrategy::zero1 ? 1 : 3});
}

constexpr ShardingStrategy kKinds[] = {ShardingStrategy::ddp, ShardingStrategy::zero1,
                                       ShardingStrategy::zero3, ShardingStrategy::fsdp};

}  // namespace

TEST_CASE("files with two values for one tensor are refused under every strategy") {
  const TempDir dir;
  nn::GPT gpt(small_gpt(true));
  nn::StateDict dict;
  for (const auto& [name, array] : gpt.state_dict()) {
    Array values = array.clone();
    // one element, which lies in the shard of one rank alone
    if (name == "lm_head.weight") Tensor(values)[10][7].fill_(7.0);
    dict.push_back({name, values});
  }
  core::save_safetensors(dir / "model.safetensors", dict);
  for (const ShardingStrategy strategy : kKinds) {
    CAPTURE(name(strategy));
    const std::string error = refused_with([&] {
      dist::run_ranks(3, [&](dist::Communicator& world) {
        nn::GPT model(small_gpt(true));
        const auto parallel = under_strategy(strategy, model, world);
        dist::load_full(dir / "model.safetensors", world, model);
      });
    });
    CHECK_THAT(error,
               ContainsSubstring("transformer.wte.weight and lm_head.weight are one tensor"));
  }
}

TEST_CASE("a sharded model whose adapters are merged has no state until they are taken out") {
  const TempDir dir;
  for (const ShardingStrategy strategy : kKinds) {
    for (const bool before : {false, true}) {  // merged before it is sharded, or shown whole after
      CAPTURE(name(strategy), before);
      dist::run_ranks(2, [&](dist::Communicator& world) {
        manual_seed(3);
        nn::GPT model(small_gpt(true));
        nn::add_lora(model, {.rank = 2, .targets = {"c_attn", "lm_head"}});
        {
          const NoGrad no_grad;
          for (const auto& [name, parameter] : model.named_parameters()) {
            if (name.ends_with("lora_B")) parameter.normal_(0.0, 0.3);
          }
        }
        // the head is tied, and its adapter cannot be merged, whole or sharded
        expect(refused_with([&] { nn::merge_lora(model); }).find("too (tied)") != std::string::npos,
               "a tie is refused");
        dynamic_cast<nn::Linear&>(model.get_submodule("lm_head")).remove_adapter();
        if (before) nn::merge_lora(model);
        const auto parallel = under_strategy(strategy, model, world);
        dist::Checkpointer checkpoint(
            dir / (std::string(name(strategy)) + (before ? "-before" : "-after")), world);
        checkpoint.track("model", model);
        if (!before) {
          const Tensor x = arange(Scalar(6)).unsqueeze(0);
          const NoGrad no_grad;
          const Tensor own = model(x).clone();
          {
            const auto whole = parallel.summon_full_parameters();
            nn::merge_lora(model);
          }
          // 1e-4: weights are rounded once, outputs are about 1
          expect(allclose(model(x), own, 1e-4, 1e-4), "merged adapters change nothing");
        }
        const auto refuses = [&](const char* what, const auto& act) {
          const std::string error = refused_with(act);
          expect(error.find("has an adapter merged into it") != std::string::npos, what, error);
        };
        // a rank that is refused alone would leave the others waiting: all are, before they meet
        refuses("full_state_dict", [&] { (void)parallel.full_state_dict(); });
        if (strategy != ShardingStrategy::ddp) return;
        refuses("state_dict", [&] { (void)model.state_dict(); });
      });
      const auto with_merged = [&](const auto& act) {
        return refused_with([&] {
          dist::run_ranks(2, [&](dist::Communicator& world) {
            nn::GPT model(small_gpt(true));
            nn::add_lora(model, {.rank = 2, .targets = {"c_attn"}});
            if (before) nn::merge_lora(model);
            const auto parallel = under_strategy(strategy, model, world);
            if (!before) {
              const auto whole = parallel.summon_full_parameters();
              nn::merge_lora(model);
            }
            act(world, model);
          });
        });
      };
      const auto what = ContainsSubstring("c_attn.weight has an adapter merged into it");
      CHECK_THAT(with_merged([&](dist::Communicator& world, nn::Module& model) {
                   dist::save_full(dir / "model.safetensors", world, model);
                 }),
                 what);
      CHECK_THAT(with_merged([&](dist::Communicator& world, nn::Module& model) {
                   dist::Checkpointer checkpoint(dir / "run", world);
                   checkpoint.track("model", model);
                   checkpoint.save(1);
                 }),
                 what);
      nn::GPT plain(small_gpt(true));
      nn::add_lora(plain, {.rank = 2, .targets = {"c_attn"}});
      plain.save(dir / "plain.safetensors");
      CHECK_THAT(with_merged([&](dist::Communicator& world, nn::Module& model) {
                   dist::load_full(dir / "plain.safetensors", world, model);
                 }),
                 what);
      CHECK(!std::filesystem::exists(dir / "model.safetensors"));
    }
  }
}

TEST_CASE("no checkpoint is saved of averages, or while whole parameters are summoned") {
  const TempDir dir;
  for (const ShardingStrategy strategy : kKinds) {
    CAPTURE(name(strategy));
    const auto trained = [&](const auto& act) {
      return refused_with([&] {
        dist::run_ranks(2, [&](dist::Communicator& world) {
          nn::GPT model(small_gpt(true));
          const auto parallel = under_strategy(strategy, model, world);
          optim::EMA ema(model.parameters(), {.decay = 0.5});
          ema.step();
          dist::Checkpointer checkpoint(dir / "run", world);
          checkpoint.track("model", model);
          checkpoint.track("ema", ema);
          act(world, model, parallel, ema, checkpoint);
        });
      });
    };
    using Parallel = dist::DataParallel;
    for (const bool async : {false, true}) {
      CHECK_THAT(trained([&](auto&, auto&, const Parallel&, optim::EMA& ema, auto& checkpoint) {
                   const optim::EMA::Scope averaged(ema);
                   checkpoint.save(1, {.async = async});
                 }),
                 ContainsSubstring("transformer.wte.weight is an average of optim::EMA now"));
    }
    CHECK(trained([&](auto& world, nn::Module& model, const Parallel& parallel, optim::EMA& ema,
                      auto&) {
            const optim::EMA::Scope averaged(ema);
            (void)parallel.full_state_dict();
            dist::save_full(dir / "average.safetensors", world, model);  // averages alone
          }) == "");
    CHECK_THAT(
        trained([&](auto& world, nn::Module& model, const Parallel&, optim::EMA& ema, auto&) {
          const optim::EMA::Scope averaged(ema);
          dist::load_full(dir / "average.safetensors", world, model);
        }),
        ContainsSubstring("is an average of optim::EMA now"));
    if (strategy == ShardingStrategy::ddp) continue;  // which has whole parameters
    const auto summoned = ContainsSubstring("are summoned; end the scope");
    CHECK_THAT(trained([&](auto&, auto&, const Parallel& parallel, auto&, auto& checkpoint) {
                 const auto whole = parallel.summon_full_parameters();
                 checkpoint.save(1);
               }),
               summoned);
    CHECK_THAT(trained([&](auto& world, nn::Module& model, const Parallel& parallel, auto&, auto&) {
                 const auto whole = parallel.summon_full_parameters();
                 dist::save_full(dir / "summoned.safetensors", world, model);
               }),
               summoned);
  }
}
