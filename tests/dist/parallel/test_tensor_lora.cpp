// Low-rank adapters of layers that are cut into slices.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/parallel/boxes.h"
#include "dist/parallel/llama.h"
#include "dist/parallel/tensor.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::TempDir;

namespace {

// Sums of 16 to 64 products of float32 in another order, of values below 4.
constexpr double kOtherOrder = 1e-5;

// Adapters of every layer, whose second matrix is no longer zero.
void add_adapters(nn::Module& model, std::vector<std::string> targets) {
  nn::add_lora(model, {.rank = 3, .alpha = 6.0, .targets = std::move(targets)});
  const NoGrad no_grad;
  uint64_t seed = 1;
  for (const auto& [name, p] : model.named_parameters()) {
    if (name.ends_with("lora_B")) p.copy_(Tensor(noise(p.shape(), kFloat32, seed++)) * 0.1);
  }
}

std::unique_ptr<nn::Llama> adapted_llama() {
  auto model = made_llama();
  add_adapters(*model, {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
                        "lm_head"});
  return model;
}

std::unique_ptr<nn::GPT> adapted_gpt() {
  auto model = made_gpt(tensor_gpt(), false);
  add_adapters(*model, {"c_attn", "c_proj", "c_fc", "lm_head"});
  return model;
}

double largest_difference(const Array& a, const Array& b) {
  check(a.shape() == b.shape(), "shapes ", a.shape(), " and ", b.shape());
  return amax(abs(Tensor(a).to(kFloat64) - Tensor(b).to(kFloat64))).item();
}

template <class Model>
void check_gradients(const std::function<std::unique_ptr<Model>()>& make, bool sequence) {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks, sequence);
    dist::run_ranks(ranks, [&](dist::Communicator& world) {
      const auto whole = make(), mine = make();
      dist::tensor_parallel(*mine, world, {.slices = 4, .sequence = sequence});
      const Tensor tokens = llama_ids({2, 4}, 1), targets = llama_ids({2, 4}, 2);
      const Tensor expected = whole->loss(tokens, targets), got = mine->loss(tokens, targets);
      expect(std::abs(expected.item() - got.item()) < kOtherOrder, "the loss");
      expected.backward();
      got.backward();
      int adapters = 0;
      for (const auto& [name, leaf] : mine->named_parameters()) {
        const Tensor& grad = leaf.grad();
        expect(grad.defined() == (name.find("lora_") != std::string::npos), name, " trains");
        if (!grad.defined()) continue;
        ++adapters;
        const Array reference = slice_of(whole->get_parameter(name).grad().array(), leaf);
        const double found = largest_difference(grad.array().reshape(reference.shape()), reference);
        expect(found <= kOtherOrder, name, " differs by ", found);
        expect(amax(abs(Tensor(reference))).item() > 1e-6, name, " has a gradient");
      }
      expect(adapters >= 2 * 8, "adapters of all layers");
    });
  }
}

// What three steps of the adapters on ranks `tensor` of 4 slices end with, and the whole's loss.
nn::StateDict trained(int data, int tensor, bool shards) {
  nn::StateDict state;
  dist::run_ranks(data * tensor, [&](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"data", data}, {"tensor", tensor}});
    const auto model = adapted_llama();
    dist::tensor_parallel(*model, mesh["tensor"], {.slices = 4});
    const dist::DataParallel parallel =
        shards ? dist::fully_shard(*model, mesh["data"], {.unit = dist::each<nn::Block>()})
               : dist::DDP(*model, mesh["data"]);
    optim::AdamW adamw(nn::lora_parameters(*model), {.lr = 0.05});
    for (int step = 0; step < 3; ++step) {
      const auto seed = static_cast<uint64_t>(100 * step + mesh.coordinate("data") + 1);
      model->loss(llama_ids({2, 6}, seed), llama_ids({2, 6}, seed + 50)).backward();
      optim::clip_grad_norm(adamw.parameters(), 0.5);
      adamw.step();
      adamw.zero_grad();
    }
    const nn::StateDict whole = nn::lora_state_dict(parallel.full_state_dict());
    if (world.rank() == 0) state = whole;
  });
  return state;
}

std::string error_with(const std::function<void(nn::Llama&, dist::Communicator&)>& body) {
  return errors_of(2, [&](dist::Communicator& world) {
    const auto model = made_llama();
    body(*model, world);
  })[0];
}

}  // namespace

TEST_CASE("adapters in slices have the loss and gradients of whole ones", "[tensor]") {
  for (const bool sequence : {false, true}) {
    check_gradients<nn::Llama>(adapted_llama, sequence);
    check_gradients<nn::GPT>(adapted_gpt, sequence);
  }
}

TEST_CASE("adapters in four slices train to the same bits on 1, 2 and 4 ranks", "[tensor]") {
  const nn::StateDict expected = trained(2, 1, false);
  REQUIRE(expected.size() == 2 * (3 * 7 + 1));
  for (const int tensor : {1, 2, 4}) {
    for (const bool shards : {false, true}) {
      CAPTURE(tensor, shards);
      CHECK(same_state(expected, trained(2, tensor, shards)));
    }
  }
  // A whole model takes them.
  const TempDir dir;
  core::save_safetensors(dir / "adapters.safetensors", expected);
  const auto model = adapted_llama();
  nn::load_lora(*model, dir / "adapters.safetensors");
  CHECK(same_state(nn::lora_state_dict(model->state_dict()), expected));
}

TEST_CASE("adapters made on meta are cut with the values of whole ones", "[tensor]") {
  const auto make = [] {
    auto model = made_llama();
    nn::add_lora(*model, {.rank = 2, .targets = {"q_proj", "down_proj"}});
    return model;
  };
  const auto whole = make();
  dist::run_ranks(2, [&](dist::Communicator& world) {
    std::unique_ptr<nn::Llama> model;
    {
      const nn::DeviceScope meta(kMeta);
      manual_seed(7);
      model = std::make_unique<nn::Llama>(ranks_llama());
      nn::add_lora(*model, {.rank = 2, .targets = {"q_proj", "down_proj"}});
    }
    dist::tensor_parallel(*model, world);
    model->materialize();
    for (const auto& [name, leaf] : model->named_parameters()) {
      const Array values = slice_of(whole->get_parameter(name).array(), leaf);
      expect(same(leaf.array().reshape(values.shape()), values), name);
    }
  });
}

TEST_CASE("where adapters and slices do not go together, the error says what does", "[tensor]") {
  CHECK_THAT(error_with([](nn::Llama& model, dist::Communicator& world) {
               dist::tensor_parallel(model, world);
               nn::add_lora(model, {.targets = {"v_proj"}});
             }),
             ContainsSubstring("add adapters before the model is cut or sharded "
                               "(dist::tensor_parallel(), dist::fully_shard())"));
  CHECK_THAT(error_with([](nn::Llama& model, dist::Communicator& world) {
               nn::add_lora(model, {.targets = {"v_proj"}});
               nn::merge_lora(model);
               dist::tensor_parallel(model, world);
             }),
             ContainsSubstring("v_proj' has an adapter that is merged into its weight"));
  CHECK_THAT(error_with([](nn::Llama& model, dist::Communicator& world) {
               nn::add_lora(model, {.targets = {"v_proj"}});
               dist::tensor_parallel(model, world);
               nn::merge_lora(model);
             }),
             ContainsSubstring("merge adapters in a model that is whole"));
  CHECK_THAT(error_with([](nn::Llama& model, dist::Communicator& world) {
               nn::add_lora(model, {.dropout = 0.5, .targets = {"down_proj"}});
               dist::tensor_parallel(model, world);
               model.eval();
               model.loss(llama_ids({2, 6}, 1), llama_ids({2, 6}, 2));
               model.train();
               model.loss(llama_ids({2, 6}, 1), llama_ids({2, 6}, 2));
             }),
             ContainsSubstring("random numbers are drawn within 'model.layers.0.mlp.down_proj'"));
}
