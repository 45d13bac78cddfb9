// Masters and states in a file, chosen for an object at run time.
#include <filesystem>

#include "optim/all_optimizers.h"

#include <hero/core/swap_file.h>
#include <hero/optim/master_weights.h>
#include <hero/optim/paged.h>

using namespace hero;
using namespace hero_test;
using Catch::Matchers::ContainsSubstring;
using core::SwapFile;

namespace {

SwapFile composed_file(int64_t bytes = int64_t{1} << 20) {
  return SwapFile(std::filesystem::temp_directory_path().string(), {.bytes = bytes});
}

// Halves, floats and a leaf without elements; matrices for Muon and Adafactor.
std::vector<Tensor> composed_leaves() {
  std::vector<Tensor> leaves;
  int seed = 0;
  for (const Shape& shape : {Shape{20, 30}, Shape{7, 1}, Shape{1, 900}, Shape{16, 16}}) {
    const Array values = noise(shape.numel(), ++seed).array().reshape(shape);
    leaves.emplace_back(values.to(seed == 2 ? kFloat32 : kBFloat16), true);
  }
  return leaves;
}

std::vector<Tensor> in_float32(const std::vector<Tensor>& leaves) {
  std::vector<Tensor> wide;
  for (const Tensor& leaf : leaves) wide.emplace_back(leaf.array().to(kFloat32).clone(), true);
  return wide;
}

// The same numbers for every dtype; in step 2 the second has none.
void give_composed(const std::vector<Tensor>& params, int step) {
  for (size_t i = 0; i < params.size(); ++i) {
    params[i].set_grad({});
    if (step == 2 && i == 1) continue;
    const Array grad = noise(params[i].numel(), 50 * step + static_cast<int>(i)).array();
    params[i].set_grad(Tensor(grad.to(kBFloat16).reshape(params[i].shape()).to(params[i].dtype())));
  }
}

std::vector<Maker> all_composed() {
  std::vector<Maker> all = all_optimizers();
  std::erase_if(all, [](const Maker& each) { return each.name == "lookahead"; });
  all.push_back(maker<optim::Muon>("muon", optim::MuonOptions{.lr = 0.1}));
  all.push_back(maker<optim::Adafactor>("adafactor", optim::AdafactorOptions{.lr = 0.02}));
  return all;
}

void check_dict(const optim::StateDict& a, const optim::StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    REQUIRE(a[i].name == b[i].name);
    REQUIRE(same_bits(Tensor(a[i].array), Tensor(b[i].array)));
  }
}

}  // namespace

TEST_CASE("any optimizer steps float32 masters, with states in a file or in memory") {
  for (const Maker& each : all_composed()) {
    INFO(each.name);
    const auto halves = composed_leaves(), paged = composed_leaves(), wide = in_float32(halves);
    SwapFile file = composed_file();
    const auto masters = each.make(halves), both = each.make(paged), expected = each.make(wide);
    CHECK(!masters->has_master_weights());
    masters->use_master_weights();
    masters->use_master_weights();  // once is enough
    CHECK(masters->has_master_weights());
    both->use_master_weights();
    const bool pages = each.name != "lamb";
    if (pages) both->page_states(file, {.window_bytes = 3000});
    for (int step = 0; step < 5; ++step) {
      for (const auto& params : {halves, paged, wide}) give_composed(params, step);
      masters->step();
      both->step();
      expected->step();
      for (size_t i = 0; i < wide.size(); ++i) {
        INFO("step " << step << ", parameter " << i);
        REQUIRE(same_bits(masters->parameters()[i], wide[i]));
        REQUIRE(same_bits(halves[i], Tensor(wide[i].array().to(halves[i].dtype()))));
        REQUIRE(same_bits(paged[i], halves[i]));
      }
    }
    CHECK((file.written_bytes() > 0) == pages);
    check_dict(both->state_dict(), masters->state_dict());
  }
}

TEST_CASE("an optimizer that has stepped goes on with masters and with states in a file") {
  const auto some = composed_leaves(), others = composed_leaves();
  SwapFile file = composed_file();
  optim::AdamW early({some}, {.lr = 0.01}), late({others}, {.lr = 0.01});
  early.use_master_weights();
  early.page_states(file, {.window_bytes = 1});
  for (int step = 0; step < 6; ++step) {
    if (step == 0) {
      // before the first step, so that both have the same masters
      late.use_master_weights();
    } else if (step == 3) {
      late.page_states(file, {.window_bytes = 9000});
    }
    give_composed(some, step);
    give_composed(others, step);
    early.step();
    late.step();
    for (size_t i = 0; i < some.size(); ++i) REQUIRE(same_bits(some[i], others[i]));
  }
  check_dict(early.state_dict(), late.state_dict());
  // values that somebody else wrote are taken over, though masters are in the file
  const NoGrad no_grad;
  some[0].fill_(2.0);
  early.refresh();
  give_composed(some, 9);
  some[0].set_grad(Tensor(Array::zeros(some[0].shape(), kBFloat16)));
  early.set_option("weight_decay", 0.0);
  early.set_lr(0.0);
  early.step();
  CHECK(same_bits(some[0], full(some[0].shape(), 2.0, {.dtype = kBFloat16})));
  // with another state that has masters, in an optimizer that pages
  early.load_state_dict(late.state_dict());
  for (size_t i = 0; i < some.size(); ++i) CHECK(same_bits(some[i], others[i]));
}

TEST_CASE("groups that are added later have masters and places in the file") {
  SwapFile file = composed_file();
  const auto leaves = composed_leaves(), plain = in_float32(leaves);
  optim::AdamW adamw({leaves[0], leaves[1]}, {.lr = 0.01});
  optim::AdamW expected({plain[0], plain[1]}, {.lr = 0.01});
  adamw.page_states(file, {.window_bytes = 1});
  adamw.use_master_weights();
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      adamw.add_param_group({{leaves[2], leaves[3]}, {.lr = 0.1}});
      expected.add_param_group({{plain[2], plain[3]}, {.lr = 0.1}});
    }
    give_composed(leaves, step);
    give_composed(plain, step);
    adamw.step();
    expected.step();
  }
  CHECK(is_same(adamw.model_parameters()[3], leaves[3]));
  for (size_t i = 0; i < leaves.size(); ++i) {
    INFO("parameter " << i);
    CHECK(same_bits(leaves[i], Tensor(plain[i].array().to(leaves[i].dtype()))));
  }
  CHECK_THROWS_WITH(adamw.add_param_group({{leaves[3]}, {}}), ContainsSubstring("given twice"));
}

TEST_CASE("what an optimizer cannot be combined with is an error that says why") {
  SwapFile file = composed_file();
  const auto leaves = composed_leaves();
  optim::NesterovLookahead ahead(leaves);
  optim::LBFGS lbfgs({noise(3, 1)});
  optim::EMA ema(leaves);
  for (optim::Optimizer* each : std::initializer_list<optim::Optimizer*>{&ahead, &lbfgs, &ema}) {
    CHECK_THROWS_WITH(each->use_master_weights(), ContainsSubstring(": use_master_weights: "));
    CHECK_THROWS_WITH(each->page_states(file), ContainsSubstring(": page_states: "));
    CHECK(!each->has_master_weights());
  }
  optim::LAMB lamb(leaves);
  CHECK_THROWS_WITH(lamb.page_states(file),
                    ContainsSubstring("lamb: page_states: it steps by norms of whole parameters"));
  optim::AdamW adamw(leaves);
  CHECK_THROWS_WITH(adamw.page_states(file, {.window_bytes = 0}),
                    ContainsSubstring("a window has at least 1 byte: 0"));
  adamw.page_states(file);
  CHECK_THROWS_WITH(adamw.page_states(file),
                    ContainsSubstring("adamw: page_states: the states lie in a file already"));
  adamw.refresh();  // nothing to take over
  adamw.take_gradients();
}

TEST_CASE("a file without room for the states of an optimizer leaves it as it was") {
  const auto leaves = composed_leaves(), others = composed_leaves();
  optim::AdamW adamw(leaves, {.lr = 0.01}), expected(others, {.lr = 0.01});
  give_composed(leaves, 0);
  give_composed(others, 0);
  adamw.step();
  expected.step();
  SwapFile small = composed_file(3 * SwapFile::kBlock);
  CHECK_THROWS_WITH(adamw.page_states(small), ContainsSubstring("there is no room for"));
  give_composed(leaves, 1);
  give_composed(others, 1);
  adamw.step();
  expected.step();
  for (size_t i = 0; i < leaves.size(); ++i) CHECK(same_bits(leaves[i], others[i]));
  check_dict(adamw.state_dict(), expected.state_dict());
}
