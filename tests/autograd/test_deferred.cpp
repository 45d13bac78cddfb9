// A backward pass in two parts: gradients of inputs first, those of weights later.
#include <functional>
#include <string>
#include <utility>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/autograd/graph/deferred.h>
#include <hero/autograd/graph/two_part_backward.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/matmul.h>
#include <hero/core/ledger.h>

namespace {

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

// A stage: x [6, 4] and parameters of these shapes to what comes next.
struct Stage {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(const Tensor& x, const std::vector<Tensor>& p)> run;
  Shape x = {6, 4};
};

std::vector<Stage> stages_of_products() {
  return {
      {"linear", {{5, 4}, {5}}, [](auto& x, auto& p) { return linear(x, p[0], p[1]); }},
      {"linear without bias", {{5, 4}}, [](auto& x, auto& p) { return linear(x, p[0]); }},
      {"linear_relu", {{5, 4}, {5}}, [](auto& x, auto& p) { return linear_relu(x, p[0], p[1]); }},
      {"linear_gelu", {{5, 4}, {5}}, [](auto& x, auto& p) { return linear_gelu(x, p[0], p[1]); }},
      {"linear_gelu_linear",
       {{8, 4}, {8}, {4, 8}, {4}},
       [](auto& x, auto& p) {
         return linear_gelu_linear(x, {p[0], p[1]}, {p[2], p[3]});
       }},
      {"linear_gelu_linear without bias, tanh",
       {{8, 4}, {4, 8}},
       [](auto& x, auto& p) {
         return linear_gelu_linear(x, {p[0], {}}, {p[1], {}}, Gelu::tanh);
       }},
      {"matmul", {{4, 5}}, [](auto& x, auto& p) { return matmul(x, p[0]); }},
      {"matmul from the left", {{5, 6}}, [](auto& x, auto& p) { return matmul(p[0], x); }},
      {"a weight that is computed",
       {{4, 5}, {5}},
       [](auto& x, auto& p) { return matmul(x, tanh(p[0]) * p[1]); }},
      {"conv2d",
       {{3, 2, 3, 3}, {3}},
       [](auto& x, auto& p) { return conv2d(x, p[0], p[1]); },
       {2, 2, 5, 5}},
      {"conv2d_relu",
       {{3, 2, 3, 3}, {3}},
       [](auto& x, auto& p) { return conv2d_relu(x, p[0], p[1]); },
       {2, 2, 5, 5}},
      {"conv_transpose2d",
       {{2, 3, 3, 3}, {3}},
       [](auto& x, auto& p) { return conv_transpose2d(x, p[0], p[1]); },
       {2, 2, 5, 5}},
  };
}

std::vector<Stage> stages_of_others() {
  return {
      {"layer_norm", {{4}, {4}}, [](auto& x, auto& p) { return layer_norm(x, {4}, p[0], p[1]); }},
      {"rms_norm", {{4}}, [](auto& x, auto& p) { return rms_norm(x, p[0]); }},
      {"a scale that is broadcast",
       {{4}, {6, 1}},
       [](auto& x, auto& p) { return x * p[0] + p[1]; }},
      {"lstm",
       {{8, 4}, {8, 2}, {8}, {8}},
       [](auto& x, auto& p) {
         const Tensor zero = zeros({6, 2}, {.dtype = x.dtype()});
         const LstmState next = lstm_cell(x, {zero, zero}, {p[0], p[1], p[2], p[3]});
         return next.h * next.c;
       }},
      {"linear_cross_entropy",
       {{5, 4}},
       [](auto& x, auto& p) {
         return linear_cross_entropy(x, p[0], tensor({0, 1, 2, 3, 4, 0}, {.dtype = kInt64}));
       }},
      {"one weight twice",
       {{4, 4}, {4}},
       [](auto& x, auto& p) {
         const Tensor h = linear(gelu(linear(x, p[0], p[1])), p[0], p[1]);
         return linear(x + h, p[0].t(), p[1]) * p[1];
       }},
      {"an embedding that is added",
       {{3, 4}, {4, 4}},
       [](auto& x, auto& p) {
         const Tensor rows = index_select(p[0], 0, tensor({0, 1, 2, 2, 1, 0}, {.dtype = kInt64}));
         return linear(x + rows, p[1]);
       }},
      {"a block",
       {{12, 4}, {12}, {4, 4}, {4}, {4}, {4}, {8, 4}, {8}, {4, 8}, {4}},
       [](auto& x, auto& p) {
         const Tensor qkv =
             linear(layer_norm(x, {4}, p[4], p[5]), p[0], p[1]).reshape({1, 6, 3, 4});
         const auto part = [&](int i) { return qkv.slice(2, i, i + 1).transpose(1, 2); };
         const Tensor heads = scaled_dot_product_attention(part(0), part(1), part(2));
         const SumAndNorm y =
             add_layer_norm(x, linear(heads.reshape({6, 4}), p[2], p[3]), {4}, p[4]);
         return y.sum + linear_gelu_linear(y.norm, {p[6], p[7]}, {p[8], p[9]});
       }},
      {"nested checkpoints",
       {{4, 4}, {4}, {4, 4}},
       [](auto& x, auto& p) {
         return checkpoint(
             [p = p](const Tensor& in) {
               const Tensor h =
                   checkpoint([p](const Tensor& z) { return linear_gelu(z, p[0], p[1]); }, in);
               return matmul(h, p[2]) + in;
             },
             x);
       }},
  };
}

struct Leaves {
  Tensor x;
  std::vector<Tensor> parameters;
};

Leaves leaves_of(const Stage& stage, DType dtype, uint64_t micro) {
  Leaves leaves = {Tensor(noise(stage.x, dtype, 40 + micro), true), {}};
  uint64_t seed = 1;
  for (const Shape& shape : stage.shapes) {
    leaves.parameters.push_back(Tensor(noise(shape, dtype, ++seed), true));
  }
  return leaves;
}

Tensor gradient_of(const Tensor& y, uint64_t micro) {
  return Tensor(noise(y.shape(), y.dtype(), 90 + micro));
}

// Hashes of the gradients of x in each of three micro-batches, and of the parameters' sums.
std::vector<uint64_t> in_one_part(const Stage& stage, DType dtype) {
  std::vector<uint64_t> hashes;
  Leaves all = leaves_of(stage, dtype, 0);
  for (uint64_t micro = 0; micro < 3; ++micro) {
    all.x = leaves_of(stage, dtype, micro).x;
    const Tensor y = stage.run(all.x, all.parameters);
    y.backward(gradient_of(y, micro));
    hashes.push_back(hash(all.x.grad().array()));
  }
  for (const Tensor& p : all.parameters) hashes.push_back(hash(p.grad().array()));
  return hashes;
}

// The same, where weights wait for all inputs and change in between: nothing may ask for them.
std::vector<uint64_t> in_two_parts(const Stage& stage, DType dtype, bool overwrites) {
  std::vector<uint64_t> hashes;
  Leaves all = leaves_of(stage, dtype, 0);
  std::vector<DeferredBackward> rests(3);
  std::vector<std::pair<Tensor, Tensor>> forwards;
  for (uint64_t micro = 0; micro < 3; ++micro) {
    all.x = leaves_of(stage, dtype, micro).x;
    forwards.emplace_back(all.x, stage.run(all.x, all.parameters));
  }
  for (uint64_t micro = 0; micro < 3; ++micro) {
    const auto [x, y] = std::exchange(forwards[micro], {});
    const auto found =
        grad_first({y}, {x}, rests[micro], {.grad_outputs = {gradient_of(y, micro)}});
    hashes.push_back(hash(found[0].array()));
    CHECK_FALSE(x.grad().defined());
  }
  for (const Tensor& p : all.parameters) {
    CHECK_FALSE(p.grad().defined());
    const NoGrad unrecorded;
    if (overwrites) p.fill_(7.0);
  }
  for (DeferredBackward& rest : rests) {
    CHECK_FALSE(rest.done());
    rest.run();
    CHECK(rest.done());
    rest.run();  // does nothing
  }
  for (const Tensor& p : all.parameters) hashes.push_back(hash(p.grad().array()));
  return hashes;
}

// x w with counts of what its backward computes.
struct CountedProduct : Op, TwoPartBackward {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b11;
  std::vector<std::string>* made;
  int throws;  // in which call
  CountedProduct(std::vector<std::string>* m, int t) : made(m), throws(t) {}
  const char* name() const override { return "counted_product"; }
  Array forward(const Array& x, const Array& w) { return core::matmul(x, w); }
  Grads backward(const Tensor& g) override {
    if (throws-- == 1) fail("counted_product: no");
    const Tensor twice(in_both_parts([&] {
      made->push_back("2 g");
      return core::map<core::kernels::Mul>(g.array(), Scalar(2.0));
    }));
    if (needs(0)) made->push_back("g_x");
    if (needs(1)) made->push_back("g_w");
    return {needs(0) ? matmul(twice, input(1).t()) : Tensor(),
            needs(1) ? matmul(input(0).t(), twice) : Tensor()};
  }
};

}  // namespace

TEST_CASE("two parts of a backward pass have the bits of one", "[deferred]") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    for (const auto& stages : {stages_of_products(), stages_of_others()}) {
      for (const Stage& stage : stages) {
        CAPTURE(stage.name, std::string(name(dtype)));
        CHECK(in_two_parts(stage, dtype, false) == in_one_part(stage, dtype));
      }
    }
  }
  CHECK(live_nodes() == 0);
}

TEST_CASE("the second part of a product asks for no weight", "[deferred]") {
  for (const Stage& stage : stages_of_products()) {
    if (stage.name == "a weight that is computed") continue;  // its derivative is behind the weight
    CAPTURE(stage.name);
    CHECK(in_two_parts(stage, kFloat32, true) == in_one_part(stage, kFloat32));
  }
}

TEST_CASE("nothing is computed twice by the parts of a pass", "[deferred]") {
  std::vector<std::string> made;
  const Tensor x(noise({3, 3}), true), v(noise({3, 3}, kFloat32, 2), true),
      w(noise({3, 3}, kFloat32, 3), true);
  const Tensor h = record(CountedProduct(&made, 0), x, v);
  const Tensor y = record(CountedProduct(&made, 0), h, w);
  DeferredBackward rest;
  const Tensor g_x = grad_first({y}, {x}, rest, {.grad_outputs = {y.detach()}})[0];
  CHECK(made == std::vector<std::string>{"2 g", "g_x", "2 g", "g_x"});
  made.clear();
  rest.run();
  CHECK(made == std::vector<std::string>{"g_w", "g_w"});
  const Tensor u = record(CountedProduct(&made, 0), x.detach(), v);  // leads to a parameter alone
  made.clear();
  CHECK(grad_first({u}, {}, rest, {.grad_outputs = {u.detach()}}).empty());
  CHECK(made.empty());
  rest.run();
  CHECK(made == std::vector<std::string>{"2 g", "g_w"});
}

TEST_CASE("hooks run once, each in its part", "[deferred]") {
  std::vector<std::string> seen;
  const auto hook = [&](const char* name) {
    return [&seen, name](const Tensor& g) {
      seen.push_back(name);
      return g * 2.0;
    };
  };
  const auto run = [&](bool parts) {
    const Tensor x(noise({3, 3}), true), w(noise({3, 3}, kFloat32, 2), true);
    x.register_hook(hook("x"));
    w.register_hook(hook("w"));
    w.register_leaf_hook([&](const Tensor&) { seen.push_back("leaf"); });
    const Tensor weight = w * 3.0;
    weight.register_hook(hook("weight"));
    const Tensor y = matmul(x, weight);
    y.register_hook(hook("y"));
    DeferredBackward rest;
    if (!parts) {
      sum(y).backward();
      return std::pair(hash(x.grad().array()), hash(w.grad().array()));
    }
    const Tensor g_x = grad_first({sum(y)}, {x}, rest)[0];
    CHECK(seen == std::vector<std::string>{"y", "x"});
    rest.run();
    return std::pair(hash(g_x.array()), hash(w.grad().array()));
  };
  const auto parts = run(true);
  CHECK(seen == std::vector<std::string>{"y", "x", "weight", "w", "leaf"});
  CHECK(parts == run(false));
}

TEST_CASE("what the first part alone needs is freed after it", "[deferred]") {
  const Tensor x(noise({64, 64}), true), w(noise({64, 64}, kFloat32, 2), true);
  constexpr int64_t kMatrix = 64 * 64 * 4;
  const int64_t before = current_ledger().live();
  Tensor y = sum(exp(tanh(exp(tanh(matmul(x, w))))));
  DeferredBackward rest;
  CHECK(current_ledger().live() - before >= 4 * kMatrix);
  const Tensor g_x = grad_first({y}, {x}, rest)[0];
  y = {};
  // the product's gradient, for that of w, and that of x
  CHECK(current_ledger().live() - before == 2 * kMatrix);
  rest.run();
  CHECK(current_ledger().live() - before == 2 * kMatrix);  // of x and w
}

TEST_CASE("a checkpoint runs again once for both parts", "[deferred]") {
  int runs = 0;
  const Tensor x(noise({3, 3}), true), w(noise({3, 3}, kFloat32, 2), true);
  const auto call = [&](const Tensor& in) {
    ++runs;
    return tanh(matmul(tanh(in), w));
  };
  const Tensor y = checkpoint(call, x);
  DeferredBackward rest;
  grad_first({sum(y)}, {x}, rest);
  CHECK(runs == 2);
  rest.run();
  CHECK(runs == 2);
}

TEST_CASE("a first part that fails leaves the graph's edges", "[deferred]") {
  std::vector<std::string> made;
  const Tensor x(noise({3, 3}), true), w(noise({3, 3}, kFloat32, 2), true);
  const Tensor y = record(CountedProduct(&made, 1), x, w);
  DeferredBackward rest;
  CHECK_THROWS_WITH(grad_first({y}, {x}, rest, {.grad_outputs = {y.detach()}}),
                    ContainsSubstring("counted_product: no"));
  CHECK(rest.done());
  y.backward(y.detach());
  CHECK(x.grad().defined());
  CHECK(w.grad().defined());
}

TEST_CASE("what grad_first cannot do is one clear line", "[deferred]") {
  const Tensor x(noise({3}), true), w(noise({3}, kFloat32, 2), true);
  const Tensor h = x * w;
  DeferredBackward rest;
  CHECK_THAT(error_of([&] { grad_first({sum(h)}, {x}, rest, {.retain_graph = true}); }),
             ContainsSubstring("grad_first: the graph cannot be kept"));
  CHECK_THAT(error_of([&] { grad_first({sum(h * h)}, {h}, rest); }),
             ContainsSubstring("grad_first: input 0 must be a leaf that requires grad"));
  CHECK_THAT(error_of([&] { grad_first({sum(w * w)}, {x}, rest); }),
             ContainsSubstring("grad_first: the outputs do not depend on input 0; pass "
                               "allow_unused = true"));
  CHECK(rest.done());
}
