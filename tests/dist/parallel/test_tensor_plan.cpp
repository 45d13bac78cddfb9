// Plans of tensor parallelism: what they hold and send, and what is refused.
#include <algorithm>
#include <string>
#include <vector>

#include "dist/parallel/tensor.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/dist/launch.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Bytes that a rank sends in an all_reduce of so many floats.
int64_t sent_of(int64_t floats, int ranks) { return 2 * floats * 4 * (ranks - 1) / ranks; }

// One step's traffic over "tensor", by the formula of docs/guides/tensor_parallel.md.
int64_t step_traffic(const nn::GPTConfig& config, int64_t rows, int ranks) {
  const int64_t n = rows * config.n_embd;
  return config.n_layer * 4 * sent_of(n, ranks)  // each block: two sums forward, two backward
         + 2 * sent_of(n, ranks)                 // the embedding, the gradient of the last features
         + sent_of(rows, ranks)                  // the largest logits
         + sent_of(2 * rows, ranks);             // sums of exponentials and targets' logits
}

int64_t block_elements(int64_t h, int64_t t) { return 12 * h * h / t + 7 * h / t + 6 * h; }

int64_t elements_of(nn::Module& module) {
  int64_t sum = 0;
  for (const Tensor& p : module.parameters()) sum += p.numel();
  return sum;
}

// A model on two ranks; the message that rank 1 gets.
template <class Make>
std::string plan_error(const Make& make, const dist::TensorParallelOptions& options,
                       int ranks = 2) {
  return errors_of(ranks, [&](dist::Communicator& world) {
    manual_seed(1);
    auto model = make();
    dist::tensor_parallel(*model, world, options);
  })[1];
}

auto gpt_of(const nn::GPTConfig& config) {
  return [config] { return std::make_unique<nn::GPT>(config); };
}

struct TwoLayers : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 7, 12);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 12, 6);
  nn::Embedding& table = add<nn::Embedding>("table", 3, 4, nn::EmbeddingOptions{.padding_idx = 0});
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

std::unique_ptr<nn::Module> two_layers() { return std::make_unique<TwoLayers>(); }

using dist::Cut;

}  // namespace

TEST_CASE("a rank holds and sends what the formulas of tensor parallelism say", "[tensor]") {
  for (const int ranks : {1, 2, 4}) {
    for (const int slices : {0, 4}) {
      CAPTURE(ranks, slices);
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const nn::GPTConfig config = tensor_gpt();
        const TensorGrid grid = {1, ranks, slices};
        const dist::Mesh mesh = mesh_of(world, grid);
        const auto model = cut_gpt(config, mesh, grid);
        expect(elements_of(model->transformer.h[0]) == block_elements(config.n_embd, ranks),
               "elements of a block");
        world.traffic().reset();
        model->loss(gpt_labels(config, 1, 0), gpt_labels(config, 2, 0)).backward();
        const int64_t sent = world.traffic().bytes_of_axis("tensor");
        const int64_t expected = step_traffic(config, 2 * config.block_size, ranks);
        expect(sent == expected, "sent ", sent, " instead of ", expected);
        expect(sent == world.traffic().bytes(), "nothing over other axes");
      });
    }
  }
}

TEST_CASE("a thousand simulated ranks in groups of eight hold and send what the formulas say",
          "[tensor]") {
  const nn::GPTConfig config = {
      .vocab_size = 1024, .block_size = 32, .n_layer = 3, .n_head = 8, .n_embd = 64};
  dist::simulate_ranks(
      1024,
      [&](dist::Communicator& world) {
        const TensorGrid grid = {128, 8, 0, true, true};
        const dist::Mesh mesh = mesh_of(world, grid);
        auto model = made_gpt(config, true);
        dist::tensor_parallel(*model, mesh["tensor"]);
        expect(elements_of(model->transformer.h[0]) == block_elements(64, 8), "of a block");
        const auto fsdp =
            dist::fully_shard(*model, mesh["data"], {.unit = dist::each<nn::Block>()});
        int64_t shards = 0;  // of each unit a part of whole packs of 8, the last ones shorter
        for (const dist::UnitInfo& unit : fsdp.units()) {
          const int64_t own = (unit.numel + 8 * 128 - 1) / (8 * 128) * 8;
          shards += std::clamp<int64_t>(unit.numel - mesh["data"].rank() * own, 0, own);
        }
        expect(elements_of(*model) == shards, "a rank's shards");
        world.traffic().reset();
        const Tensor tokens(Array::zeros({4, 32}, kInt64, kMeta));
        model->loss(tokens, tokens).backward();
        const int64_t sent = world.traffic().bytes_of_axis("tensor");
        expect(sent == step_traffic(config, 4 * 32, 8), "sent ", sent);
      },
      {0, 7, 512, 1023});
}

TEST_CASE("the norm of cut and of whole gradients counts each element once", "[tensor]") {
  const nn::GPTConfig config = tensor_gpt();
  const auto norm_on = [&](const TensorGrid& grid) {
    double norm = 0.0;
    dist::run_ranks(grid.ranks(), [&](dist::Communicator& world) {
      const auto model = cut_gpt(config, mesh_of(world, grid), grid);
      for (const Tensor& p : model->parameters()) {
        p.set_grad(Tensor(Array::full(p.shape(), 0.5, kFloat32)));
      }
      const double found = optim::clip_grad_norm(model->parameters(), 1.0).item();
      if (world.rank() == 0) norm = found;
    });
    return norm;
  };
  const auto whole = made_gpt(config, false);
  const double expected = 0.5 * std::sqrt(static_cast<double>(whole->parameter_count()));
  for (const TensorGrid& grid : {TensorGrid{1, 1, 4}, TensorGrid{1, 2, 4}, TensorGrid{1, 4},
                                 TensorGrid{2, 2, 2, true}, TensorGrid{2, 2, 2, false}}) {
    CAPTURE(grid.data, grid.tensor, grid.shards);
    CHECK(norm_on(grid) == expected);
  }
}

TEST_CASE("a plan that does not fit names the module and its sizes", "[tensor]") {
  nn::GPTConfig config = tensor_gpt();
  config.n_kv_head = 2;
  CHECK_THAT(plan_error(gpt_of(config), {.slices = 8}),
             ContainsSubstring("'transformer.h.0.attn' has 4 heads, which 8 slices do not divide"));
  config.n_head = 12;
  config.n_embd = 24;
  config.n_kv_head = 3;
  CHECK_THAT(plan_error(gpt_of(config), {.slices = 2}),
             ContainsSubstring("has 3 heads of keys and values; 2 slices neither divide these nor "
                               "are a multiple of them"));
  config.n_kv_head = 6;
  CHECK_THAT(plan_error(gpt_of(config), {.slices = 4}),
             ContainsSubstring("has 6 heads of keys and values; 4 slices neither divide"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::colwise}}, .slices = 8}),
             ContainsSubstring("'fc1' has 12 outputs, which 8 slices do not divide"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::rowwise}}}),
             ContainsSubstring("'fc1' has 7 inputs, which 2 slices do not divide"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc3", Cut::colwise}}}),
             ContainsSubstring("no module is called 'fc3'; the nearest are 'fc1', 'fc2'"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::colwise}, {"*1", Cut::rowwise}}}),
             ContainsSubstring("'fc1' is cut twice, by 'fc1' (colwise) and '*1' (rowwise)"));
  CHECK_THAT(plan_error(gpt_of(tensor_gpt()),
                        {.plan = {{"*.attn", Cut::heads}, {"*.c_attn", Cut::colwise}}}),
             ContainsSubstring("'transformer.h.0.attn.c_attn.weight' is cut twice"));
  CHECK_THAT(plan_error(gpt_of(tensor_gpt()), {.plan = {{"lm_head", Cut::vocabulary}}}),
             ContainsSubstring("'lm_head.weight' is tied to 'transformer.wte.weight'"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"table", Cut::vocabulary}}}),
             ContainsSubstring("padding_idx"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"table", Cut::colwise}}}),
             ContainsSubstring("'table' is a Embedding, which has no cut 'colwise'"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::heads}}}),
             ContainsSubstring("'fc1' is a Linear, which has no cut 'heads'"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::vocabulary}}}),
             ContainsSubstring("it has a bias; cut it colwise"));
  CHECK_THAT(plan_error(two_layers, {}), ContainsSubstring("no module that Hero has a plan for"));
}

TEST_CASE("slices that would make sums depend on the ranks are refused", "[tensor]") {
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::colwise}}, .slices = 3}),
             ContainsSubstring("2 ranks do not divide 3 slices"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::colwise}}, .slices = 6}),
             ContainsSubstring("6 slices are 3 for each of 2 ranks"));
  CHECK_THAT(plan_error(two_layers, {.plan = {{"fc1", Cut::colwise}}, .slices = -2}),
             ContainsSubstring("2 ranks do not divide -2 slices"));
}

TEST_CASE("ranks with different plans get one error that names the difference", "[tensor]") {
  const auto errors_with = [](const auto& options_of) {
    return errors_of(2, [&](dist::Communicator& world) {
      TwoLayers model;
      dist::tensor_parallel(model, world, options_of(world.rank()));
    });
  };
  const auto plans = errors_with([](int rank) -> dist::TensorParallelOptions {
    const dist::TensorPlanEntry second = {"fc2", rank == 0 ? Cut::rowwise : Cut::colwise};
    return {.plan = {{"fc1", Cut::colwise}, second}};
  });
  for (const std::string& error : plans) {
    CHECK_THAT(error, ContainsSubstring("ranks have different plans: rank 0 has row fc2.weight") &&
                          ContainsSubstring("rank 1 has column fc2.weight"));
  }
  const auto slices = errors_with([](int rank) -> dist::TensorParallelOptions {
    return {.plan = {{"fc1", Cut::colwise}}, .slices = rank == 0 ? 2 : 4};
  });
  for (const std::string& error : slices) {
    CHECK_THAT(error, ContainsSubstring("rows 12 in 2 slices, rank 1 has") &&
                          ContainsSubstring("rows 12 in 4 slices"));
  }
  const auto shorter = errors_with([](int rank) -> dist::TensorParallelOptions {
    dist::TensorPlan plan = {{"fc1", Cut::colwise}};
    if (rank == 0) plan.push_back({"fc2", Cut::rowwise});
    return {.plan = plan};
  });
  for (const std::string& error : shorter) {
    CHECK_THAT(error, ContainsSubstring("rank 1 has nothing more"));
  }
}

TEST_CASE("what a cut module cannot compute is an error when it is asked", "[tensor]") {
  const auto error_of = [](const dist::RankProgram& program) { return errors_of(2, program)[1]; };
  const auto cut = [](nn::Module& model, const dist::Communicator& world) {
    dist::tensor_parallel(model, world);
  };
  nn::GPTConfig config = tensor_gpt();
  config.dropout = 0.1;
  CHECK_THAT(error_of([&](dist::Communicator& world) {
               nn::GPT model(config);
               cut(model, world);
               const Tensor tokens = gpt_labels(config, 1, 0);
               model.eval();
               model(tokens);
               model.train();
               model(tokens);
             }),
             ContainsSubstring("dropout 0.1 of the attention weights of 2 of 4 heads"));
  CHECK_THAT(error_of([&](dist::Communicator& world) {
               nn::TransformerEncoderLayer model(8, 2, {.dim_feedforward = 16, .dropout = 0.1});
               dist::tensor_parallel(
                   model, world, {.plan = {{"linear1", Cut::colwise}, {"linear2", Cut::rowwise}}});
               model(Tensor(noise({3, 2, 8})));
             }),
             ContainsSubstring("dropout 0.1 of 8 of 16 hidden units"));
  CHECK_THAT(
      error_of([&](dist::Communicator& world) {
        nn::MultiheadAttention model(8, 2);
        cut(model, world);
        const Tensor x(noise({3, 2, 8}));
        model(x, x, x);
      }),
      ContainsSubstring("1 of 2 heads are here") && ContainsSubstring("set need_weights = false"));
  const auto units = errors_of(4, [&](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
    nn::MultiheadAttention model(8, 2);
    cut(model, mesh["tensor"]);
    dist::fully_shard(model, mesh["data"], {.unit = dist::each<nn::Linear>()});
    model(Tensor(noise({3, 2, 8})));
  });
  CHECK_THAT(units[0], ContainsSubstring("make no module inside MultiheadAttention") &&
                           ContainsSubstring("out_proj.weight is not there as it was cut"));
  CHECK_THAT(error_of([&](dist::Communicator& world) {
               nn::GPT model(tensor_gpt());
               dist::fully_shard(model, world);
               cut(model, world);
             }),
             ContainsSubstring("is a shard already"));
  CHECK_THAT(error_of([&](dist::Communicator& world) {
               nn::GPT model(tensor_gpt());
               cut(model, world);
               cut(model, world);
             }),
             ContainsSubstring("is a shard already"));
  CHECK_THAT(error_of([&](dist::Communicator& world) {
               TwoLayers model;
               dist::tensor_parallel(model, world, {.plan = {{"fc2", Cut::rowwise}}});
               model(Tensor(noise({3, 7})));
             }),
             ContainsSubstring("the input of 'fc2' has shape [3, 12]"));
  CHECK_THAT(error_of([&](dist::Communicator& world) {
               nn::GPT model(tensor_gpt());
               cut(model, world);
               model(Tensor(Array::from(std::vector<int64_t>{3, 19}, {1, 2})));
             }),
             ContainsSubstring("19"));
}
