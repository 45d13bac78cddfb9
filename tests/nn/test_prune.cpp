// Pruning, and parametrizations that are taken away again.
#include "support/close.h"

#include <hero/nn/activation.h>
#include <hero/nn/container.h>
#include <hero/nn/conv.h>
#include <hero/nn/linear.h>
#include <hero/nn/parametrize.h>
#include <hero/optim/sgd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using test::check_near;

namespace {

nn::Linear small() {
  nn::Linear layer(3, 2);
  layer.weight.detach().copy_(tensor({{0.1, -0.5, 0.3}, {0.9, -0.2, 0.4}}));
  layer.bias.detach().copy_(tensor({1.0, 2.0}));
  return layer;
}

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> list;
  for (const auto& entry : module.state_dict()) list.push_back(entry.name);
  return list;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("pruning removes the smallest elements and slices, again and again, as PyTorch does") {
  nn::Linear layer = small();
  nn::prune::l1_unstructured(layer, "weight", 0.34);
  CHECK(names(layer) == Names{"bias", "weight_orig", "weight_mask"});
  CHECK(layer.get_buffer("weight_mask").equal(tensor({{0.0, 1.0, 1.0}, {1.0, 0.0, 1.0}})));
  CHECK(layer.parameters().size() == 2);
  nn::prune::l1_unstructured(layer, "weight", 1);
  CHECK(layer.get_buffer("weight_mask").equal(tensor({{0.0, 1.0, 0.0}, {1.0, 0.0, 1.0}})));
  nn::prune::ln_structured(layer, "weight", 1, 2.0, 1);
  CHECK(layer.get_buffer("weight_mask").equal(tensor({{0.0, 1.0, 0.0}, {1.0, 0.0, 0.0}})));
  CHECK(nn::prune::is_pruned(layer));
  check_near(layer(ones({1, 3})), {0.5, 2.9}, 1e-6);
  nn::prune::remove(layer, "weight");
  CHECK(!nn::prune::is_pruned(layer));
  CHECK(names(layer) == Names{"weight", "bias"});
  CHECK(layer.weight.is_leaf());
  CHECK(layer.weight.requires_grad());
  check_near(layer.weight, {0.0, -0.5, 0.0, 0.9, 0.0, 0.0}, 1e-6);
  check_near(layer(ones({1, 3})), {0.5, 2.9}, 1e-6);
}

TEST_CASE("what is pruned gets no gradient, and stays 0 while the rest trains") {
  nn::Linear layer = small();
  nn::prune::l1_unstructured(layer, "weight", 3);
  const Tensor original = layer.get_parameter("weight_orig");
  optim::SGD sgd(layer.parameters(), {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    layer(ones({4, 3})).square().sum().backward();
    CHECK((original.grad() * (1.0 - layer.get_buffer("weight_mask"))).abs().sum().item() == 0.0);
    sgd.step();
    sgd.zero_grad();
  }
  layer(ones({1, 3}));
  CHECK(layer.weight.count_nonzero().item<int64_t>() == 3);
  // Pruned and made whole again without a call in between.
  nn::prune::remove(layer, "weight");
  nn::prune::identity(layer, "weight");
  nn::prune::remove(layer, "weight");
  layer(ones({1, 3})).sum().backward();
  CHECK(layer.weight.grad().defined());
}

TEST_CASE("random, global and given masks") {
  manual_seed(5);
  nn::Linear layer = small();
  nn::prune::random_unstructured(layer, "weight", 0.5);
  CHECK(layer.get_buffer("weight_mask").sum().item() == 3.0);
  nn::prune::random_structured(layer, "bias", 1, 0);
  CHECK(layer.get_buffer("bias_mask").sum().item() == 1.0);
  nn::Linear first = small(), second = small();
  second.weight.detach().mul_(3.0);
  nn::prune::global_unstructured({{&first, "weight"}, {&second, "weight"}}, 0.5);
  CHECK(first.get_buffer("weight_mask").sum().item() == 1.0);  // 0.9
  CHECK(second.get_buffer("weight_mask").sum().item() == 5.0);
  nn::Linear third = small();
  nn::prune::custom_from_mask(third, "weight", tensor({{1, 0, 0}, {0, 1, 1}}));
  check_near(third(ones({1, 3})), {1.1, 2.2}, 1e-6);
}

TEST_CASE("pruning refuses what is not there, and amounts out of range") {
  nn::Linear layer = small();
  CHECK_THROWS_WITH(nn::prune::l1_unstructured(layer, "weights", 1),
                    "l1_unstructured: Linear has no parameter 'weights'");
  CHECK_THROWS_WITH(nn::prune::l1_unstructured(layer, "weight", 7), ContainsSubstring("7 of 6"));
  CHECK_THROWS_WITH(nn::prune::l1_unstructured(layer, "weight", 1.5),
                    ContainsSubstring("between 0 and 1"));
  CHECK_THROWS_WITH(nn::prune::remove(layer, "weight"), "remove: Linear's weight is not pruned");
  CHECK_THROWS_WITH(nn::prune::custom_from_mask(layer, "weight", ones({3})),
                    ContainsSubstring("a mask of shape [3]"));
  CHECK(names(layer) == Names{"weight", "bias"});
}

TEST_CASE("parametrizations are removed: the weight is a parameter with its values again") {
  for (const bool spectral : {false, true}) {
    nn::Conv1d conv(2, 3, 3);
    spectral ? void(nn::spectral_norm(conv)) : void(nn::weight_norm(conv));
    conv.eval();
    CHECK(nn::is_parametrized(conv));
    CHECK(nn::is_parametrized(conv, "weight"));
    CHECK(!nn::is_parametrized(conv, "bias"));
    const Tensor x = randn({1, 2, 7}), before = conv(x).detach();
    nn::remove_parametrizations(conv);
    CHECK(!nn::is_parametrized(conv));
    CHECK(names(conv) == Names{"weight", "bias"});
    CHECK(conv.weight.is_leaf());
    CHECK(conv(x).detach().equal(before));
    conv(x).sum().backward();
    CHECK(conv.weight.grad().defined());
    CHECK_THROWS_WITH(nn::remove_parametrizations(conv),
                      "remove_parametrizations: Conv1d's weight has no parametrization");
    nn::weight_norm(conv);
    check_near(conv(x), before.to_vector<double>(), 1e-5);
  }
}

TEST_CASE("an orthogonal weight begins near the weight and stays orthogonal while it trains") {
  using nn::OrthogonalMap;
  for (const auto map :
       {OrthogonalMap::matrix_exp, OrthogonalMap::cayley, OrthogonalMap::householder}) {
    for (const auto& sizes : {std::pair{4, 4}, std::pair{5, 3}, std::pair{3, 5}}) {
      const int64_t rows = sizes.first, columns = sizes.second;
      INFO(rows << " " << columns);
      nn::Linear layer(columns, rows);
      const Tensor first = layer.weight.detach().clone();
      nn::orthogonal(layer, {.orthogonal_map = map});
      CHECK(names(layer) ==
            Names{"bias", "parametrizations.weight.original", "parametrizations.weight.0.base"});
      const auto is_orthogonal = [&] {
        const Tensor w = layer.weight.detach();
        const Tensor square = rows < columns ? matmul(w, w.mT()) : matmul(w.mT(), w);
        return max(abs(square - eye(square.size(0)))).item() < 1e-5;
      };
      CHECK(is_orthogonal());
      // What QR makes of the weight, with R's diagonal positive.
      const Tensor w = layer.weight.detach();
      const Tensor r = rows < columns ? matmul(w, first.mT()) : matmul(w.mT(), first);
      CHECK(max(abs(tril(r, -1))).item() < 1e-5);
      CHECK(min(diagonal(r)).item() > 0.0);
      optim::SGD sgd(layer.parameters(), {.lr = 0.1});
      for (int step = 0; step < 3; ++step) {
        layer(ones({2, columns})).square().sum().backward();
        sgd.step();
        sgd.zero_grad();
      }
      layer(ones({1, columns}));
      CHECK(is_orthogonal());
      CHECK(max(abs(layer.weight.detach() - w)).item() > 1e-4);
    }
  }
  nn::Linear layer(2, 2);
  CHECK_THROWS_WITH(nn::orthogonal(layer, {.name = "bias"}), ContainsSubstring("is no matrix"));
}

TEST_CASE("a module computes a parameter, and another one what that gave") {
  struct Symmetric : nn::Module {
    Tensor forward(const Tensor& x) override { return triu(x) + triu(x, 1).t(); }
  };
  struct Scaled : nn::Module {
    Tensor& by = parameter("by", {}, nn::init::constant(2.0));
    Tensor forward(const Tensor& x) override { return x * by; }
  };
  struct Longer : nn::Module {
    Tensor forward(const Tensor& x) override { return cat({x, x}); }
  };
  nn::Linear layer(2, 2, {.bias = false});
  layer.weight.detach().copy_(tensor({{1.0, 2.0}, {3.0, 4.0}}));
  nn::register_parametrization(layer, "weight", Symmetric());
  check_near(layer.weight, {1.0, 2.0, 2.0, 4.0}, 1e-6);
  nn::register_parametrization(layer, "weight", Scaled());
  check_near(layer.weight, {2.0, 4.0, 4.0, 8.0}, 1e-6);
  CHECK(names(layer) == Names{"parametrizations.weight.original", "parametrizations.weight.1.by"});
  layer(ones({1, 2})).sum().backward();
  check_near(layer.get_parameter("parametrizations.weight.original").grad(), {2, 4, 0, 2}, 1e-6);
  check_near(layer.get_parameter("parametrizations.weight.1.by").grad(), {9.0}, 1e-6);
  CHECK_THROWS_WITH(nn::register_parametrization(layer, "weight", Longer()),
                    ContainsSubstring("of shape [2, 2] becomes [4, 2]"));
  nn::remove_parametrizations(layer);
  check_near(layer.weight, {2.0, 4.0, 4.0, 8.0}, 1e-6);
  CHECK(names(layer) == Names{"weight"});
}

TEST_CASE("lists and dictionaries of parameters are listed, trained and saved") {
  struct Scales : nn::Module {
    nn::ParameterList& list = add<nn::ParameterList>("list");
    nn::ParameterDict& named = add<nn::ParameterDict>("named");
    Scales() {
      for (int i = 0; i < 3; ++i) list.append(full({2}, 1.0 + i));
      named.insert("left", ones({2}));
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x * named["left"];
      for (size_t i = 0; i < list.size(); ++i) y = y * list[i];
      return y;
    }
  };
  Scales scales;
  CHECK(names(scales) == Names{"list.0", "list.1", "list.2", "named.left"});
  CHECK(scales.parameters().size() == 4);
  scales(ones({2})).sum().backward();
  check_near(scales.list[0].grad(), {6.0, 6.0});
  CHECK(scales.named.contains("left"));
  CHECK(!scales.named.contains("right"));
  CHECK(scales.named.size() == 1);
  CHECK_THROWS_WITH(scales.list[3], "ParameterList: no parameter 3 of 3");
  CHECK_THROWS_WITH(scales.named["right"], "ParameterDict: no parameter 'right'");
  CHECK(nn::ParameterList({ones({1}), zeros({2})}).size() == 2);
}

TEST_CASE("a tied parameter is pruned globally under one name") {
  nn::Linear first(4, 4), second(4, 4), other(4, 4);
  second.weight = first.weight;
  const auto twice = Catch::Matchers::ContainsSubstring("is given twice, or tied to one before it");
  CHECK_THROWS_WITH(nn::prune::global_unstructured({{&first, "weight"}, {&second, "weight"}}, 0.5),
                    twice);
  CHECK_THROWS_WITH(nn::prune::global_unstructured({{&first, "weight"}, {&first, "weight"}}, 0.5),
                    twice);
  CHECK(!nn::prune::is_pruned(first));
  nn::prune::global_unstructured({{&first, "weight"}, {&other, "weight"}}, 0.5);
  CHECK_THROWS_WITH(  // also one that is pruned already
      nn::prune::global_unstructured({{&first, "weight"}, {&second, "weight"}}, 0.5), twice);
  // of 32 elements 16 are left, and the tie still has all of its own
  CHECK(sum(first.get_buffer("weight_mask")).item() + sum(other.get_buffer("weight_mask")).item() ==
        16.0);
  CHECK(!equal(second.weight, first.weight));
}
