// Forward wrappers: who runs in place of forward, and what is around it.
#include <memory>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/nn.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct WrappedDouble : nn::Module {
  Tensor forward(const Tensor& x) override { return x * 2.0; }
};

nn::Tensors run_twice(nn::Module&, const nn::Tensors& in, const nn::Forward& forward) {
  return {forward(in)[0] + forward({in[0] + 1.0})[0]};
}

}  // namespace

TEST_CASE("a forward wrapper runs forward as often as it likes inside the other hooks") {
  WrappedDouble module;
  std::vector<std::string> order;
  const auto before =
      module.register_forward_pre_hook([&](nn::Module&, const nn::Tensors& in) -> nn::Tensors {
        order.push_back("before");
        return {in[0] + 10.0};
      });
  const auto after = module.register_forward_hook(
      [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { order.push_back("after"); });
  HookHandle handle = module.register_forward_wrapper(
      [&](nn::Module& m, const nn::Tensors& in, const nn::Forward& forward) {
        order.push_back("wrapper");
        return run_twice(m, in, forward);
      });
  const Tensor x = ones({1}).requires_grad_();
  const Tensor y = module(x);
  CHECK(y.item() == 2.0 * 11.0 + 2.0 * 12.0);
  CHECK(order == std::vector<std::string>{"before", "wrapper", "after"});
  y.backward();
  CHECK(x.grad().item() == 4.0);
  handle.remove();
  CHECK(module(x).item() == 22.0);
}

TEST_CASE("a module has one forward wrapper at a time") {
  WrappedDouble module;
  HookHandle handle = module.register_forward_wrapper(run_twice);
  CHECK_THROWS_WITH(module.register_forward_wrapper(run_twice),
                    ContainsSubstring("WrappedDouble: has a forward wrapper already"));
  handle.remove();
  module.register_forward_wrapper(run_twice);
  CHECK(module(ones({1})).item() == 6.0);
}

TEST_CASE("a fused form computes without a wrapper for parameters and calls one for values") {
  nn::Linear linear(2, 2);
  int calls = 0;
  const auto counted = [&](nn::Module&, const nn::Tensors& in, const nn::Forward& forward) {
    ++calls;
    return forward(in);
  };
  const Tensor x(noise({3, 2}));
  const auto fused = [&](const Tensor& in) { return in * 3.0; };
  HookHandle handle = linear.register_forward_wrapper(counted, {.for_parameters = true});
  CHECK_FALSE(linear.has_hooks_for_values());
  CHECK(hash(linear.run_fused(x, fused).array()) == hash((x * 3.0).array()));
  CHECK(calls == 0);
  linear(x);
  CHECK(calls == 1);
  handle.remove();
  linear.register_forward_wrapper(counted);
  CHECK(linear.has_hooks_for_values());
  CHECK_THROWS_WITH(linear.run_fused(x, fused), ContainsSubstring("its hooks see its values"));
}

TEST_CASE("full backward hooks get the module where it has moved, and none that is gone") {
  auto first = std::make_unique<WrappedDouble>();
  const nn::Module* seen = nullptr;
  const auto look = [&](nn::Module& m, const nn::Tensors&) { seen = &m; };
  first->register_full_backward_pre_hook(look);
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor one = sum((*first)(x)), two = sum((*first)(x)), three = sum((*first)(x));
  WrappedDouble second(std::move(*first));
  first.reset();
  one.backward();
  CHECK(seen == &second);
  {
    WrappedDouble third;
    third = std::move(second);
    two.backward();
    CHECK(seen == &third);
  }
  CHECK_THROWS_WITH(three.backward(), ContainsSubstring("is not there any more; keep it until"));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{4.0f, 4.0f});
}

TEST_CASE("a hook that is prepended is called before those that are there") {
  WrappedDouble module;
  std::string order;
  const auto add = [&order](const char* name) {
    return [&order, name](nn::Module&, const nn::Tensors&) { order += name; };
  };
  const auto first = module.register_forward_pre_hook(add("a"));
  auto second = module.register_forward_pre_hook(add("b"), {.prepend = true});
  const auto third = module.register_forward_pre_hook(add("c"));
  module(ones({1}));
  CHECK(order == "bac");
  second.remove();
  module(ones({1}));
  CHECK(order == "bacac");
}
