#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;

namespace {

struct Alone : RankGroup {
  void add_up(const Array&) override {}
  void largest(const Array&) override {}
};

}  // namespace

TEST_CASE("a leaf that becomes a part of itself stays the same tensor, with its hooks") {
  const Tensor w =
      tensor({1.0f, 2.0f, 3.0f, 4.0f}, {.requires_grad = true}).reshape({2, 2}).detach();
  w.requires_grad_();
  int calls = 0;
  w.register_leaf_hook([&](const Tensor&) { ++calls; });
  w.set_grad(Tensor(Array::ones({2, 2})));
  REQUIRE(partition(w) == nullptr);

  const Array part = w.array().reshape({4}).slice(0, 1, 3);
  set_part(w, part,
           std::make_shared<const Partition>(Partition{{2, 2}, {}, 1, std::make_shared<Alone>()}));
  REQUIRE(partition(w) != nullptr);
  REQUIRE(partition(w)->whole == Shape{2, 2});
  REQUIRE(partition(w)->first == 1);
  REQUIRE(w.shape() == Shape{2});
  REQUIRE(w.to_vector<float>() == std::vector<float>{2.0f, 3.0f});
  REQUIRE(!w.grad().defined());

  (w * 3.0).sum().backward();
  REQUIRE(calls == 1);
  REQUIRE(w.grad().to_vector<float>() == std::vector<float>{3.0f, 3.0f});

  set_part(w, Array::zeros({2, 2}), nullptr);
  REQUIRE(partition(w) == nullptr);
  REQUIRE(w.shape() == Shape{2, 2});
}

TEST_CASE("a part may be empty, and a computed tensor has none") {
  const Tensor w = tensor({1.0f}, {.requires_grad = true});
  set_part(w, w.array().slice(0, 0, 0),
           std::make_shared<const Partition>(Partition{{1}, {}, 1, std::make_shared<Alone>()}));
  REQUIRE(w.numel() == 0);
  REQUIRE(partition(w * 2.0) == nullptr);
  REQUIRE_THROWS_WITH(set_part(w * 2.0, Array::zeros({1}), nullptr),
                      Catch::Matchers::ContainsSubstring("set_part: needs a leaf"));
}
