#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/container.h>
#include <hero/nn/linear.h>
#include <hero/optim/optim.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using hero::test::error_of;
using hero::test::same;

namespace {

struct MLP : nn::Module {
  nn::Linear& fc1 = add<nn::Linear>("fc1", 6, 5);
  nn::Linear& fc2 = add<nn::Linear>("fc2", 5, 3);
  Tensor& scale = parameter("scale", {3}, nn::init::ones());
  Tensor& seen = buffer("seen", {}, nn::init::zeros());
  Tensor& mask = buffer("mask", {3}, nn::init::ones(), kFloat32, nn::Slot::Kind::buffer_not_saved);
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))) * scale; }
};

struct Tied : nn::Module {
  nn::Linear& in = add<nn::Linear>("in", 4, 4, nn::LinearOptions{.bias = false});
  nn::Linear& out = add<nn::Linear>("out", 4, 4, nn::LinearOptions{.bias = false});
  Tied() { out.weight = in.weight; }
  Tensor forward(const Tensor& x) override { return out(tanh(in(x))); }
};

std::vector<std::string> names(const nn::Named<Tensor>& list) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : list) out.push_back(name);
  return out;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a module lists its parameters and buffers in order of registration, own first") {
  MLP mlp;
  CHECK(names(mlp.named_parameters()) ==
        Names{"scale", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
  CHECK(names(mlp.named_buffers()) == Names{"seen", "mask"});
  CHECK(mlp.parameter_count() == 3 + 35 + 18);
  CHECK(is_same(mlp.get_parameter("fc2.bias"), mlp.fc2.bias));
  CHECK(&mlp.get_submodule("fc1") == &mlp.fc1);
  CHECK(mlp.named_modules().size() == 3);
  CHECK_THROWS_WITH(mlp.get_parameter("fc3.bias"), ContainsSubstring("fc2.bias"));
  for (const Tensor& p : mlp.parameters()) CHECK(p.requires_grad());
}

TEST_CASE("train, eval, freezing and apply reach every module below") {
  MLP mlp;
  mlp.eval();
  CHECK_FALSE(mlp.fc2.training());
  mlp.train();
  CHECK(mlp.fc2.training());
  Names order;
  mlp.apply([&](nn::Module& module) { order.push_back(module.name()); });
  CHECK(order == Names{"fc1", "fc2", ""});
  mlp.fc1.requires_grad_(false);
  CHECK(mlp.parameter_count(true) == 3 + 18);
  sum(mlp(ones({2, 6}))).backward();
  CHECK_FALSE(mlp.fc1.weight.grad().defined());
  CHECK(mlp.fc2.weight.grad().defined());
  mlp.zero_grad();
  CHECK_FALSE(mlp.fc2.weight.grad().defined());
}

TEST_CASE("a module built on meta and materialised later has the numbers of one built directly") {
  manual_seed(7);
  MLP direct;
  manual_seed(7);
  const std::unique_ptr<MLP> planned = [] {
    const nn::DeviceScope scope(kMeta);
    return std::make_unique<MLP>();
  }();
  CHECK(planned->fc1.weight.device() == kMeta);
  CHECK((*planned)(zeros({2, 6}, {.device = kMeta})).shape() == Shape{2, 3});
  const Tensor weight = planned->fc1.weight;
  planned->materialize();
  CHECK(is_same(weight, planned->fc1.weight));
  const nn::StateDict a = direct.state_dict(), b = planned->state_dict();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(same(a[i].array, b[i].array));
}

TEST_CASE(
    "each parameter's numbers depend on the seed and its name, and parts can be filled alone") {
  manual_seed(3);
  MLP a, b;
  CHECK_FALSE(same(a.fc1.weight.array(), b.fc1.weight.array()));
  for (const auto& [name, slot] : a.slots()) {
    const Array whole = slot->tensor.array();
    const int64_t n = whole.numel(), half = n / 2;
    const Array part = Array::empty({n - half});
    nn::fill_part(slot->init, part, whole.shape(), half, slot->stream);
    CHECK(same(part, whole.reshape({n}).slice(0, half)));
  }
}

TEST_CASE("a state dict restores a module bit for bit, through a file as well") {
  const hero_test::TempDir dir;
  MLP a, b;
  CHECK(a.state_dict().size() == 6);  // the mask is not saved
  b.load_state_dict(a.state_dict());
  CHECK(same(a(ones({1, 6})).array(), b(ones({1, 6})).array()));
  MLP c;
  const std::string path = dir / "mlp.safetensors";
  a.save(path);
  c.load(path);
  CHECK(same(a.fc2.weight.array(), c.fc2.weight.array()));
  CHECK(c.fc2.weight.requires_grad());
}

TEST_CASE("a strict load lists what is missing, unexpected and mis-shaped in one line") {
  MLP mlp;
  nn::StateDict dict = mlp.state_dict();
  const Array before = mlp.fc2.weight.array().clone();
  for (auto& entry : dict) {
    if (entry.name == "fc1.bias") entry.name = "fc1.offset";
    if (entry.name == "fc1.weight") entry.array = Array::zeros({5, 7});
    if (entry.name == "fc2.weight") entry.array = Array::zeros({3, 5});
  }
  const std::string line = error_of([&] { mlp.load_state_dict(dict); });
  CHECK_THAT(line, ContainsSubstring("missing: fc1.bias"));
  CHECK_THAT(line, ContainsSubstring("unexpected: fc1.offset"));
  CHECK_THAT(line, ContainsSubstring("fc1.weight [5, 7] instead of [5, 6]"));
  CHECK(same(before, mlp.fc2.weight.array()));  // nothing was half loaded
  for (auto& entry : dict) {
    if (entry.name == "fc1.weight") entry.array = mlp.fc1.weight.array();
  }
  const nn::LoadResult result = mlp.load_state_dict(dict, {.strict = false});
  CHECK(result.missing == Names{"fc1.bias"});
  CHECK(result.unexpected == Names{"fc1.offset"});
}

TEST_CASE("a wrapper's prefix is taken off and named") {
  MLP a, b;
  nn::StateDict dict = a.state_dict();
  for (auto& entry : dict) entry.name = "module." + entry.name;
  CHECK(b.load_state_dict(dict).stripped == "module.");
  CHECK(same(a.fc1.weight.array(), b.fc1.weight.array()));
}

TEST_CASE("a module on meta takes a state dict's values") {
  MLP a;
  const nn::DeviceScope scope(kMeta);
  MLP b;
  b.load_state_dict(a.state_dict(), {.strict = false});
  CHECK(b.fc1.weight.device() == kCpu);
  CHECK(same(a.fc1.weight.array(), b.fc1.weight.array()));
}

TEST_CASE("tied parameters count once, share gradients and load under either name") {
  Tied a, b;
  CHECK(names(a.named_parameters()) == Names{"in.weight"});
  CHECK(a.state_dict().size() == 2);
  nn::StateDict one = {a.state_dict()[0]};
  b.load_state_dict(one);
  CHECK(same(a.in.weight.array(), b.out.weight.array()));
  sum(a(ones({1, 4}))).backward();
  CHECK(is_same(a.in.weight, a.out.weight));
  optim::SGD sgd(a.parameters(), {.lr = 0.1});
  sgd.step();
  a.to(kFloat64);
  CHECK(is_same(a.in.weight, a.out.weight));
  CHECK(a.out.weight.dtype() == kFloat64);
}

TEST_CASE("changing the dtype keeps tensors, gradients and optimizers") {
  MLP mlp;
  optim::SGD sgd(mlp.parameters(), {.lr = 0.1});
  sum(mlp(ones({2, 6}))).backward();
  const Tensor weight = mlp.fc1.weight;
  mlp.to(kFloat64);
  CHECK(weight.dtype() == kFloat64);
  CHECK(weight.grad().dtype() == kFloat64);
  const Array before = weight.array().clone();
  sgd.step();
  CHECK_FALSE(same(before, mlp.fc1.weight.array()));
  CHECK_THROWS_WITH(mlp.to(kInt64), ContainsSubstring("floating"));
}

TEST_CASE("forward hooks see and replace inputs and outputs, in order") {
  MLP mlp;
  Names calls;
  HookHandle pre = mlp.fc1.register_forward_pre_hook(
      [&](nn::Module& module, const nn::Tensors& in) -> nn::Tensors {
        calls.push_back("pre " + module.name());
        return {in[0] * 0.0};
      });
  HookHandle post = mlp.fc1.register_forward_hook(
      [&](nn::Module&, const nn::Tensors& in, const nn::Tensors& out) {
        calls.push_back("post");
        CHECK(in[0].array().to_vector<float>() == std::vector<float>(6, 0.0f));
        CHECK(out[0].shape() == Shape{1, 5});
      });
  const Tensor y = mlp.fc1(ones({1, 6}));
  CHECK(same(y.array().reshape({5}), mlp.fc1.bias.array()));
  CHECK(calls == Names{"pre fc1", "post"});
  pre.remove();
  post.remove();
  mlp(ones({1, 6}));
  CHECK(calls.size() == 2);
}

TEST_CASE("a forward hook that is always called runs when forward throws") {
  MLP mlp;
  int always = 0, plain = 0;
  const auto count = [&](nn::Module&, const nn::Tensors&, const nn::Tensors& out) {
    ++always;
    CHECK(out.empty() == (always == 1));
  };
  mlp.fc1.register_forward_hook(count, {.always_call = true});
  mlp.fc1.register_forward_hook(
      [&](nn::Module&, const nn::Tensors&, const nn::Tensors&) { ++plain; });
  CHECK_THROWS_WITH(mlp(ones({1, 7})), ContainsSubstring("in fc1"));
  CHECK((always == 1 && plain == 0));
  mlp(ones({1, 6}));
  CHECK((always == 2 && plain == 1));
}

TEST_CASE(
    "full backward hooks see the gradients of outputs and inputs and may replace the latter") {
  MLP mlp;
  const Tensor x = ones({2, 6}, {.requires_grad = true});
  int calls = 0;
  mlp.fc2.register_full_backward_hook(
      [&](nn::Module& module, const nn::Tensors& in, const nn::Tensors& out) -> nn::Tensors {
        ++calls;
        CHECK(module.name() == "fc2");
        CHECK(in[0].shape() == Shape{2, 5});
        CHECK(out[0].shape() == Shape{2, 3});
        return {in[0] * 0.0};
      });
  int pre_calls = 0;
  mlp.fc2.register_full_backward_pre_hook([&](nn::Module&, const nn::Tensors&) { ++pre_calls; });
  sum(mlp(x)).backward();
  CHECK(calls == 1);
  CHECK(pre_calls == 1);
  CHECK(x.grad().array().to_vector<float>() == std::vector<float>(12, 0.0f));
  CHECK(mlp.fc2.weight.grad().defined());

  // no input wants a gradient: the hook still runs
  nn::Linear first(6, 5);
  int first_calls = 0;
  first.register_full_backward_hook(
      [&](nn::Module&, const nn::Tensors& in, const nn::Tensors& out) {
        ++first_calls;
        REQUIRE(in.size() == 1);
        CHECK_FALSE(in[0].defined());
        CHECK(out.size() == 1);
      });
  first.register_full_backward_hook(
      [&](nn::Module&, const nn::Tensors& in, const nn::Tensors&) {
        ++first_calls;
        CHECK(in.empty());
      },
      {.for_parameters = true});
  sum(first(ones({2, 6}))).backward();
  CHECK(first_calls == 2);
  first.register_full_backward_hook(
      [](nn::Module&, const nn::Tensors&, const nn::Tensors&) -> nn::Tensors {
        return {ones({2, 6})};
      });
  CHECK_THROWS_WITH(sum(first(ones({2, 6}))).backward(),
                    ContainsSubstring("a hook of Linear returned a gradient for an input that "
                                      "needs none"));
}

TEST_CASE("hooks for parameters run around what a parent computes in a module's place") {
  MLP mlp;
  nn::Linear& fc = mlp.fc1;
  Names calls;
  const auto note = [&calls](const char* what) {
    return [&calls, what](auto&...) { calls.push_back(what); };
  };
  CHECK_FALSE(fc.has_hooks());
  fc.register_forward_pre_hook(note("pre"), {.for_parameters = true});
  fc.register_forward_hook(note("after"), {.for_parameters = true});
  fc.register_full_backward_pre_hook(note("backward pre"), {.for_parameters = true});
  fc.register_full_backward_hook(note("backward"), {.for_parameters = true});
  CHECK((fc.has_hooks() && !fc.has_hooks_for_values()));
  const auto fused = [&](const Tensor& x) {
    return fc.run_fused(x, [&](const Tensor& in) {
      calls.push_back("body");
      return linear_relu(in, fc.weight, fc.bias);
    });
  };
  const Tensor x = ones({2, 6}, {.requires_grad = true});
  const Tensor y = fused(x);
  CHECK(equal(y, linear_relu(x, fc.weight, fc.bias)));
  CHECK(calls == Names{"pre", "body", "after"});
  calls.clear();
  sum(y).backward();
  CHECK(calls == Names{"backward pre", "backward"});
  CHECK(equal(x.grad(), grad(sum(linear_relu(x, fc.weight, fc.bias)), x)));

  // A hook that replaces the input, such as mixed precision's, does so for the fused form too.
  HookHandle zeros_in = fc.register_forward_pre_hook(
      [](nn::Module&, const nn::Tensors& in) -> nn::Tensors { return {in[0] * 0.0}; },
      {.for_parameters = true});
  CHECK(equal(fused(x), linear_relu(x * 0.0, fc.weight, fc.bias)));
  zeros_in.remove();
  HookHandle watch = fc.register_forward_hook(note("watch"));
  CHECK(fc.has_hooks_for_values());
  CHECK_THROWS_WITH(fused(x), ContainsSubstring("Linear: its hooks see its values"));
  watch.remove();
  CHECK((fc.has_hooks() && !fc.has_hooks_for_values()));
  CHECK(equal(fused(x), y));
}

TEST_CASE("errors inside a module end with its path") {
  struct Outer : nn::Module {
    MLP& mlp = add<MLP>("mlp");
    Tensor forward(const Tensor& x) override { return mlp(x); }
  } outer;
  CHECK_THAT(error_of([&] { outer(ones({2, 7})); }), ContainsSubstring(", in mlp.fc1"));
  CHECK_THAT(error_of([] { check(false, "a: b"); }), !ContainsSubstring("in mlp"));
  CHECK_THAT(error_of([&] {
               outer.get_submodule("mlp").forward(ones({2, 7}));
             }),
             ContainsSubstring("mlp.fc1"));
}

TEST_CASE("sequential runs modules made in place or moved in, with PyTorch's names") {
  manual_seed(1);
  nn::Sequential net{nn::Linear(4, 3), nn::Identity(), nn::Linear(3, 2)};
  CHECK(names(net.named_parameters()) == Names{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(net(ones({5, 4})).shape() == Shape{5, 2});
  nn::Sequential other;
  other.append<nn::Linear>(4, 3);
  other.append<nn::Identity>();
  other.append<nn::Linear>(3, 2);
  other.load_state_dict(net.state_dict());
  CHECK(same(net(ones({1, 4})).array(), other(ones({1, 4})).array()));
  CHECK(to_string(net) ==
        "Sequential(\n  (0): Linear(in_features=4, out_features=3, bias=True)\n"
        "  (1): Identity()\n  (2): Linear(in_features=3, out_features=2, bias=True)\n)");
  CHECK_THAT(error_of([&] { net(ones({5, 3})); }), ContainsSubstring(", in 0"));
  nn::Sequential nested{std::move(net), nn::Linear(2, 1)};
  CHECK(names(nested.named_parameters())[0] == "0.0.weight");
}

TEST_CASE("module lists and dicts register what they hold") {
  struct Deep : nn::Module {
    nn::ModuleListOf<nn::Linear>& layers = add<nn::ModuleListOf<nn::Linear>>("layers");
    nn::ModuleDict& heads = add<nn::ModuleDict>("heads");
    Deep() {
      for (int i = 0; i < 3; ++i) layers.append(2, 2);
      heads.insert<nn::Linear>("main", 2, 1);
    }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (nn::Linear& layer : layers) y = layer(y);
      return heads["main"](y);
    }
  } deep;
  CHECK(deep.parameters().size() == 8);
  CHECK(deep(ones({1, 2})).shape() == Shape{1, 1});
  CHECK(names(deep.named_parameters())[6] == "heads.main.weight");
  CHECK_THAT(error_of([&] { deep.layers[2](ones({1, 3})); }), ContainsSubstring("in layers.2"));
  CHECK_THROWS_WITH(deep.heads["side"], ContainsSubstring("main"));
}

TEST_CASE("names are checked and computed tensors in place of parameters are found") {
  struct Twice : nn::Module {
    Twice() {
      add<nn::Linear>("a", 1, 1);
      parameter("a", {1}, nn::init::zeros());
    }
  };
  CHECK_THROWS_WITH(Twice(), ContainsSubstring("'a' is there already"));
  MLP mlp;
  mlp.fc1.weight = mlp.fc1.weight * 2.0;
  CHECK_THROWS_WITH(mlp.parameters(), ContainsSubstring("fc1.weight"));
}

TEST_CASE("a tensor in place of a parameter says whether it is trained") {
  nn::Linear layer(2, 3);
  layer.weight = ones({3, 2});
  const char* const message =
      "module: weight of Linear was replaced by a tensor that does not require grad, and would not "
      "be trained; assign tensor.requires_grad_(), or tensor.requires_grad_(false) if that is "
      "meant";
  CHECK_THROWS_WITH(layer.parameters(), message);
  CHECK_THROWS_WITH(layer.state_dict(), message);
  layer.weight = layer.bias.detach().expand({3, 3}).clone();
  CHECK_THROWS_WITH(layer.named_parameters(), message);
  layer.weight = ones({3, 2}).requires_grad_();
  CHECK(layer.parameter_count(true) == 9);
  layer.weight = ones({3, 2}).requires_grad_(false);
  CHECK(layer.parameter_count(true) == 3);
  // a parameter that is frozen stays one, as does what became of it
  layer.requires_grad_(false);
  layer.to(kFloat64);
  CHECK(layer.parameter_count(true) == 0);
}

TEST_CASE("a child keeps its place, and its parameters can be replaced") {
  struct Net : nn::Module {
    nn::Linear& fc = add<nn::Linear>("fc", 8, 2);
    void again() { add<nn::Linear>("fc", 8, 3); }
  } net;
  CHECK_THROWS_WITH(net.again(), ContainsSubstring("'fc' is there already"));
  net.fc.weight = ones({3, 8}).requires_grad_();
  net.fc.bias = ones({3}).requires_grad_();
  CHECK(net.fc(ones({1, 8})).to_vector<double>() == std::vector<double>(3, 9.0));
}

TEST_CASE("new first values are drawn on request") {
  MLP mlp;
  const Array before = mlp.fc1.weight.array().clone();
  mlp.reset_parameters();
  CHECK_FALSE(same(before, mlp.fc1.weight.array()));
  CHECK(mlp.scale.to_vector<float>() == std::vector<float>(3, 1.0f));
}

TEST_CASE("loading a folder says what reads one") {
  const hero_test::TempDir dir;
  MLP mlp;
  mlp.save(dir / "model.safetensors");
  CHECK_THROWS_WITH(mlp.load(dir / "."), ContainsSubstring("is a folder; name a file in it") &&
                                             ContainsSubstring("dist::load_full("));
  CHECK(mlp.load(dir / "model.safetensors").missing.empty());
}
