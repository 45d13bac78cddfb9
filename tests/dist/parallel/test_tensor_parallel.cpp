// Tensor parallelism: modules that several ranks compute together.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "dist/parallel/boxes.h"
#include "dist/parallel/tensor.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

const dist::TensorPlan kMlpPlan = {{"fc1", dist::Cut::colwise}, {"fc2", dist::Cut::rowwise}};

// Sizes that four divides.
struct TensorMLP : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 7, 12);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 12, 5);
  Tensor forward(const Tensor& x) override { return fc2(tanh(fc1(x))); }
};

double largest_difference(const Array& a, const Array& b) {
  check(a.shape() == b.shape(), "shapes ", a.shape(), " and ", b.shape());
  return amax(abs(Tensor(a).to(kFloat64) - Tensor(b).to(kFloat64))).item();
}

// Gradients of the whole model, and of what a rank holds of it, differ by no more than this: sums
// of 16 to 64 products of float32 in another order, of values below 4.
constexpr double kOtherOrder = 1e-5;

void expect_near(nn::Module& mine, nn::Module& whole, double tolerance) {
  for (const auto& [name, leaf] : mine.named_parameters()) {
    const Array expected = slice_of(whole.get_parameter(name).grad().array(), leaf);
    expect(leaf.grad().defined(), name, " has a gradient");
    const double found = largest_difference(leaf.grad().array(), expected);
    expect(found <= tolerance, name, " differs by ", found);
  }
}

}  // namespace

TEST_CASE("a pair of linear layers in slices computes what the whole computes", "[tensor]") {
  for (const int ranks : {1, 2, 4}) {
    for (const int slices : {0, 4}) {
      CAPTURE(ranks, slices);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        manual_seed(3);
        TensorMLP whole;
        manual_seed(3);
        TensorMLP mine;
        dist::tensor_parallel(mine, world, {.plan = kMlpPlan, .slices = slices});
        const Tensor x = Tensor(noise({4, 7})).requires_grad_();
        const Tensor y = Tensor(noise({4, 7})).requires_grad_();
        const Tensor expected = whole(x), got = mine(y);
        expect(largest_difference(got.array(), expected.array()) < kOtherOrder, "outputs");
        sum(expected * expected).backward();
        sum(got * got).backward();
        expect_near(mine, whole, kOtherOrder);
        expect(largest_difference(y.grad().array(), x.grad().array()) < kOtherOrder,
               "of the input");
        expect(whole_shape(mine.fc2.weight) == Shape{5, 12}, "the whole's shape");
        expect(mine.fc2.weight.numel() == 60 / ranks, "a rank's share");
      });
    }
  }
}

TEST_CASE("second derivatives go through slices", "[tensor]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    manual_seed(3);
    TensorMLP mine;
    mine.to(kFloat64);
    dist::tensor_parallel(mine, world, {.plan = kMlpPlan, .slices = 4});
    const Tensor x = Tensor(noise({2, 7}, kFloat64)).requires_grad_();
    const auto run = [&](const std::vector<Tensor>& in) { return mine(in[0]); };
    gradcheck(TensorFunction(run), {x});
    gradgradcheck(TensorFunction(run), {x});
  });
}

TEST_CASE("a GPT in slices has the loss and gradients of the whole", "[tensor]") {
  for (const bool other : {false, true}) {
    nn::GPTConfig config = tensor_gpt();
    if (other) {  // grouped keys, rotated positions, an untied head, blocks that run twice
      config.n_kv_head = 2;
      config.rotary = true;
      config.tie_weights = false;
      config.checkpoint = true;
      config.bias = false;
    }
    for (const int ranks : {1, 2, 4}) {
      if (other && ranks == 4) continue;
      CAPTURE(ranks, other);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const auto whole = made_gpt(config, false), mine = made_gpt(config, false);
        dist::tensor_parallel(*mine, world, {.slices = ranks == 4 ? 4 : 2});
        const Tensor tokens = gpt_labels(config, 1, 0), targets = gpt_labels(config, 2, 0);
        const Tensor expected = whole->loss(tokens, targets), got = mine->loss(tokens, targets);
        expect(std::abs(expected.item() - got.item()) < kOtherOrder, "the loss");
        expected.backward();
        got.backward();
        expect_near(*mine, *whole, kOtherOrder);
        const NoGrad no_grad;
        const double logits = largest_difference((*mine)(tokens).array(), (*whole)(tokens).array());
        expect(logits < kOtherOrder, "logits differ by ", logits);
        const auto drawn = [&](nn::GPT& model) {
          return model.generate(tokens, {.max_new_tokens = 9, .temperature = 0.0});
        };
        expect(drawn(*mine).to_vector<int64_t>() == drawn(*whole).to_vector<int64_t>(), "text");
      });
    }
  }
}

TEST_CASE("four slices have the same bits on one or two or four ranks", "[tensor]") {
  for (const bool shards : {false, true}) {
    const int data = shards ? 2 : 1;
    Whole expected;
    train_on(tensor_gpt(), {data, 1, 4, shards}, expected);
    REQUIRE(expected.size() > 20);
    for (const int tensor : {2, 4}) {
      for (const bool meta : {false, true}) {
        CAPTURE(shards, tensor, meta);
        Whole got;
        train_on(tensor_gpt(), {data, tensor, 4, shards, meta}, got);
        CHECK(expected.difference(got) == "");
      }
    }
    Whole plain;  // the test sees a difference: fewer slices are other sums
    train_on(tensor_gpt(), {data, 2, 2, shards}, plain);
    CHECK(expected.difference(plain) != "");
  }
}

TEST_CASE("eight slices have the same bits on 1, 2, 4 and 8 ranks", "[tensor]") {
  nn::GPTConfig config = tensor_gpt();
  config.n_head = 8;
  for (const bool shards : {false, true}) {
    const int data = shards ? 2 : 1;
    Whole expected;
    train_on(config, {data, 1, 8, shards}, expected, 2);
    REQUIRE(expected.size() > 20);
    for (const int tensor : {2, 4, 8}) {
      CAPTURE(shards, tensor);
      Whole got;
      train_on(config, {data, tensor, 8, shards}, got, 2);
      CHECK(expected.difference(got) == "");
    }
  }
}

TEST_CASE("data parallelism of any kind around slices ends with the same bits", "[tensor]") {
  Whole ddp, fsdp;
  train_on(tensor_gpt(), {2, 2, 2, false}, ddp);
  train_on(tensor_gpt(), {2, 2, 2, true}, fsdp);
  CHECK(ddp.difference(fsdp) == "");
  for (const int stage : {1, 2, 3}) {  // the last makes every layer a unit
    CAPTURE(stage);
    Whole zero;
    train_on(tensor_gpt(), {2, 2, 2, false, false, false, stage}, zero);
    CHECK(ddp.difference(zero) == "");
  }
}

TEST_CASE("a hybrid around slices ends with the bits of shards around them", "[tensor]") {
  Whole shards, hybrid;
  train_on(tensor_gpt(), {4, 1, 2, true}, shards);
  dist::run_ranks(8, [&](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"replicate", 2}, {"shard", 2}, {"tensor", 2}});
    const int tensor = mesh.coordinate("tensor");
    const dist::Communicator alike = world.split(tensor, world.rank(), "data");
    const auto model = made_gpt(tensor_gpt(), true);
    dist::tensor_parallel(*model, mesh["tensor"]);
    const dist::Mesh data(alike, {{"replicate", 2}, {"shard", 2}});
    dist::fully_shard(*model, data, {.unit = dist::each<nn::Block>()});
    const auto optimizer = train_gpt(*model, alike.rank());
    add_state(hybrid, *model, *optimizer);
  });
  CHECK(shards.difference(hybrid) == "");
}

TEST_CASE("a cut model made on meta has the slices of the whole's first values", "[tensor]") {
  const auto whole = made_gpt(tensor_gpt(), false);
  for (const bool shards : {false, true}) {
    CAPTURE(shards);
    const TensorGrid grid = {shards ? 2 : 1, 2, 4, shards, true};
    dist::run_ranks(grid.ranks(), [&](dist::Communicator& world) {
      const auto model = cut_gpt(tensor_gpt(), mesh_of(world, grid), grid);
      for (const auto& [name, leaf] : model->named_parameters()) {
        const Array values = whole->get_parameter(name).array();
        expect(whole_shape(leaf) == values.shape(), "the shape of ", name);
        const Partition* part = partition(leaf);
        if (part == nullptr) {
          expect(hash(leaf.array()) == hash(values), name);
          continue;
        }
        expect(hash(leaf.array().reshape({leaf.numel()})) ==
                   hash(slice_of(values, *part, leaf.numel())),
               name);
      }
    });
  }
}

TEST_CASE("encoder layers and attention of several inputs run in slices", "[tensor]") {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto make = [] {
        manual_seed(5);
        return std::make_unique<nn::TransformerEncoderLayer>(
            8, 4, nn::TransformerEncoderLayerOptions{.dim_feedforward = 16, .dropout = 0.0});
      };
      const auto whole = make(), mine = make();
      dist::tensor_parallel(*mine, world, {.slices = 4});
      const Tensor x(noise({5, 2, 8}));
      const Tensor expected = (*whole)(x), got = (*mine)(x);
      expect(largest_difference(got.array(), expected.array()) < kOtherOrder, "outputs");
      sum(expected * x).backward();
      sum(got * x).backward();
      expect_near(*mine, *whole, kOtherOrder);

      manual_seed(6);
      nn::MultiheadAttention all(8, 4, {.kdim = 6, .num_kv_heads = 4});
      manual_seed(6);
      nn::MultiheadAttention some(8, 4, {.kdim = 6, .num_kv_heads = 4});
      dist::tensor_parallel(some, world, {.slices = 4});
      const Tensor key(noise({3, 2, 6})), value(noise({3, 2, 8}));
      const nn::MultiheadAttentionInputs inputs = {.need_weights = false};
      expect(largest_difference(some(x, key, value, inputs).output.array(),
                                all(x, key, value, inputs).output.array()) < kOtherOrder,
             "of keys of other sizes");
    });
  }
}

TEST_CASE("a checkpoint of four slices becomes one process and two slices in two shards",
          "[tensor]") {
  const TempDir dir;
  const nn::GPTConfig config = tensor_gpt();
  const auto checkpointer = [&](const dist::Communicator& world, nn::Module& model,
                                optim::Optimizer& optimizer) {
    dist::Checkpointer checkpoint(dir / "run", world);
    checkpoint.track("model", model);
    checkpoint.track("optimizer", optimizer);
    return checkpoint;
  };
  Whole saved, single, loaded;
  dist::run_ranks(4, [&](dist::Communicator& world) {
    const TensorGrid grid = {1, 4};
    const auto model = cut_gpt(config, mesh_of(world, grid), grid);
    const auto optimizer = train_gpt(*model, 0);
    checkpointer(world, *model, *optimizer).save(3);
    add_state(saved, *model, *optimizer);
  });
  {
    const auto model = made_gpt(config, false);
    const auto optimizer = make_method(Method::adamw, model->parameters());
    CHECK(checkpointer({}, *model, *optimizer).resume() == 3);
    add_state(single, *model, *optimizer);
  }
  dist::run_ranks(4, [&](dist::Communicator& world) {
    const TensorGrid grid = {2, 2, 4, true, true};
    const auto model = cut_gpt(config, mesh_of(world, grid), grid);
    const auto optimizer = make_method(Method::adamw, model->parameters());
    expect(checkpointer(world, *model, *optimizer).resume() == 3, "step 3");
    add_state(loaded, *model, *optimizer);
  });
  CHECK(saved.difference(single) == "");
  CHECK(saved.difference(loaded) == "");
}

TEST_CASE("autocast and bfloat16 train in slices with the same bits on any number of ranks",
          "[tensor]") {
  const auto run = [](int ranks, bool cast) {
    Whole whole;
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto model = made_gpt(tensor_gpt(), false);
      if (!cast) model->to(kBFloat16);
      dist::tensor_parallel(*model, world, {.slices = 4});
      const auto optimizer = make_method(Method::adamw, model->parameters());
      for (int step = 0; step < 2; ++step) {
        std::optional<Autocast> scope;
        if (cast) scope.emplace(AutocastOptions{.dtype = kBFloat16});
        const Tensor loss =
            model->loss(gpt_labels(tensor_gpt(), step, 0), gpt_labels(tensor_gpt(), step + 9, 0));
        scope.reset();
        loss.backward();
        finish_step(*model, *optimizer, 0.5);
      }
      add_state(whole, *model, *optimizer);
    });
    return whole.sha256();
  };
  for (const bool cast : {false, true}) {
    const std::string expected = run(1, cast);
    for (const int ranks : {2, 4}) {
      CAPTURE(cast, ranks);
      CHECK(run(ranks, cast) == expected);
    }
  }
}
