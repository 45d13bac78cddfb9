// A Llama over several ranks: shards, slices, stages, and its files read part by part.
#include <cmath>

#include "dist/parallel/boxes.h"
#include "dist/parallel/llama.h"
#include "support/catch.h"
#include "support/golden_dir.h"
#include "support/temp_dir.h"

#include <hero/dist/pipeline.h>
#include <hero/dist/tensor_parallel.h>

using namespace hero;
using namespace hero::test;

namespace {

// Sums of 16 to 20 products of float32 in another order, of values below 4.
constexpr double kAnotherOrder = 1e-5;

}  // namespace

TEST_CASE("a Llama ends with the same bits under DDP, ZeRO and FSDP", "[strategies]") {
  for (const bool tied : {false, true}) {
    Whole expected;
    dist::run_ranks(2, [&](dist::Communicator& world) {
      const auto model = made_llama(tied);
      dist::DDP(*model, world);
      train_llama(*model, world.rank(), expected);
    });
    REQUIRE(expected.size() > 30);
    for (const bool meta : {false, true}) {
      Whole fsdp, zero;
      dist::run_ranks(2, [&](dist::Communicator& world) {
        const auto model = made_llama(tied, meta ? kMeta : kCpu);
        dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
        train_llama(*model, world.rank(), fsdp);
        const auto other = made_llama(tied);
        dist::ZeRO(*other, world, {.stage = 2});
        train_llama(*other, world.rank(), zero);
      });
      CHECK(expected.difference(fsdp) == "");
      CHECK(expected.difference(zero) == "");
    }
  }
}

TEST_CASE("a Llama in slices has the loss, gradients and text of the whole", "[tensor]") {
  for (const bool tied : {false, true}) {
    for (const int ranks : {1, 2}) {
      CAPTURE(tied, ranks);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto whole = made_llama(tied), mine = made_llama(tied);
        dist::tensor_parallel(*mine, world, {.slices = 2});
        const Tensor tokens = llama_ids({2, 6}, 1), targets = llama_ids({2, 6}, 2);
        const Tensor expected = whole->loss(tokens, targets), got = mine->loss(tokens, targets);
        expect(std::abs(expected.item() - got.item()) < kAnotherOrder, "the loss");
        expected.backward();
        got.backward();
        for (const auto& [name, leaf] : mine->named_parameters()) {
          const Array of_whole = slice_of(whole->get_parameter(name).grad().array(), leaf);
          expect(leaf.grad().defined(), name, " has a gradient");
          const double off = (leaf.grad() - Tensor(of_whole)).abs().max().item();
          expect(off < kAnotherOrder, name, " differs by ", off);
        }
        const auto drawn = [&](nn::Llama& model) {
          return model.generate(tokens, {.max_new_tokens = 9, .temperature = 0.0});
        };
        expect(equal(drawn(*mine), drawn(*whole)), "text");
      });
    }
  }
}

TEST_CASE("two slices of a Llama have the same bits on one rank and on two", "[tensor]") {
  Whole expected, got;
  for (const int ranks : {1, 2}) {
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = made_llama();
      dist::tensor_parallel(*model, world, {.slices = 2});
      train_llama(*model, 0, ranks == 1 ? expected : got);
    });
  }
  REQUIRE(expected.size() > 30);
  CHECK(expected.difference(got) == "");
}

TEST_CASE("a Llama in stages trains and draws as one process does", "[pipeline]") {
  const Tensor x = llama_ids({4, 6}, 3), y = llama_ids({4, 6}, 4);
  const auto alone = made_llama();
  for (int64_t i = 0; i < 2; ++i) {
    (alone->loss_from(0, x.slice(0, 2 * i, 2 * i + 2), y.slice(0, 2 * i, 2 * i + 2)) / 2.0)
        .backward();
  }
  const nn::GenerateOptions options{.max_new_tokens = 7, .top_p = 0.9, .seed = 2};
  const Tensor text = made_llama()->generate(x, options);
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const auto model = made_llama(false, kMeta);
    dist::Pipeline pipe(*model, world, {.micro_batches = 2});
    expect(equal(pipe.generate(x, options), text), "the same text");
    pipe.step(x, y);
    for (const auto& [name, leaf] : model->named_parameters()) {
      if (leaf.numel() == 0) continue;
      expect(same(leaf.grad().array(), alone->get_parameter(name).grad().array()), name);
    }
  });
}

TEST_CASE("a folder of transformers is read into shards and written from them", "[checkpoint]") {
  const std::string folder = golden_dir() + "/hugging_face/llama";
  const nn::Llama whole = nn::Llama::from_pretrained(folder);
  const hero_test::TempDir dir;
  const std::string copy = dir / "copy";
  dist::run_ranks(2, [&](dist::Communicator& world) {
    // [snippet: sharded]
    const nn::LlamaConfig config = nn::LlamaConfig::from_pretrained(folder);
    std::optional<nn::DeviceScope> meta(kMeta);
    nn::Llama model(config);
    meta.reset();
    dist::fully_shard(model, world, {.unit = dist::each<nn::Block>()});
    dist::load_full(folder, world, model);
    dist::save_full(copy, world, model, {.max_shard_bytes = 30000});
    if (world.rank() == 0) model.config().save_pretrained(copy);
    // [end]
  });
  CHECK(same_state(nn::Llama::from_pretrained(copy).state_dict(), whole.state_dict()));
}

TEST_CASE("adapters train to the same bits under DDP, ZeRO and FSDP, and nothing else trains",
          "[strategies]") {
  const auto train_adapters = [](dist::Communicator& world, int strategy, nn::StateDict& adapters) {
    const auto model = made_llama();
    nn::add_lora(*model, {.rank = 2, .alpha = 4.0, .targets = {"q_proj", "v_proj", "up_proj"}});
    std::optional<dist::DataParallel> data;
    if (strategy == 0) data = dist::DDP(*model, world);
    if (strategy == 1) data = dist::ZeRO(*model, world, {.stage = 1});
    if (strategy == 2) {
      data = dist::fully_shard(*model, world, {.unit = dist::each<nn::Block>()});
    }
    optim::AdamW adamw(nn::lora_parameters(*model), {.lr = 0.05});
    for (int step = 0; step < 3; ++step) {
      const auto seed = static_cast<uint64_t>(100 * step + world.rank() + 1);
      model->loss(llama_ids({2, 6}, seed), llama_ids({2, 6}, seed + 50)).backward();
      optim::clip_grad_norm(adamw.parameters(), 0.5);
      adamw.step();
      adamw.zero_grad();
    }
    const nn::StateDict whole = data->full_state_dict();
    const nn::StateDict first = made_llama()->state_dict();
    for (const auto& [name, array] : first) {
      const auto found = std::find_if(whole.begin(), whole.end(),
                                      [&, n = name](const auto& entry) { return entry.name == n; });
      expect(found != whole.end() && same(found->array, array), name, " is as it was");
    }
    if (world.rank() == 0) adapters = nn::lora_state_dict(whole);
  };
  std::vector<nn::StateDict> of_strategies(3);
  for (int strategy = 0; strategy < 3; ++strategy) {
    dist::run_ranks(2, [&](dist::Communicator& world) {
      train_adapters(world, strategy, of_strategies[static_cast<size_t>(strategy)]);
    });
  }
  REQUIRE(of_strategies[0].size() == 3 * 2 * 3);
  CHECK(same_state(of_strategies[0], of_strategies[1]));
  CHECK(same_state(of_strategies[0], of_strategies[2]));
  CHECK(max(abs(Tensor(of_strategies[0][1].array))).item() > 0.0);  // lora_B has moved
}

TEST_CASE("averages of shards are those of the whole", "[strategies]") {
  const auto averages = [](dist::Communicator& world, bool shards) {
    const auto model = made_llama();
    if (shards) dist::fully_shard(*model, world);
    if (!shards) dist::DDP(*model, world);
    const auto adamw = make_method(Method::adamw, model->parameters());
    optim::EMA ema(model->parameters(), {.decay = 0.9});
    Whole whole;
    for (int step = 0; step < 3; ++step) {
      model->loss(llama_ids({2, 6}, 1), llama_ids({2, 6}, 2)).backward();
      finish_step(*model, *adamw, 0.5);
      ema.step();
    }
    return ema.state_dict();
  };
  dist::run_ranks(2, [&](dist::Communicator& world) {
    const optim::StateDict whole = averages(world, false), parts = averages(world, true);
    const auto named = [](const optim::StateDict& dict, int parameter) {
      const std::string name = "state." + std::to_string(parameter) + ".average";
      const auto found = std::find_if(dict.begin(), dict.end(),
                                      [&](const auto& entry) { return entry.name == name; });
      check(found != dict.end(), "no ", name);
      return found->array;
    };
    const auto model = made_llama();
    dist::fully_shard(*model, world);
    const nn::Tensors leaves = model->parameters();
    for (int i = 0; i < static_cast<int>(leaves.size()); ++i) {
      const Array mine = slice_of(named(whole, i), leaves[static_cast<size_t>(i)]);
      expect(same(named(parts, i), mine), "average ", i);
    }
  });
}
