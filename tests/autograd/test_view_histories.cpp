// Tensors that share memory: a recorded write through one of them is in the history of the others.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <support/catch.h>

#include <hero/autograd/autograd.h>
#include <hero/autograd/functions/gradcheck.h>

namespace {

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Values = std::vector<double>;
using View = std::function<Tensor(const Tensor&)>;

Tensor numbers(const Shape& shape, bool requires_grad = false) {
  return rand(shape, {.dtype = kFloat64, .requires_grad = requires_grad});
}

Tensor without_recording(const Tensor& x, const View& view) {
  const NoGrad no_grad;
  return view(x);
}

TEST_CASE("a buffer that is filled row by row has the history of its rows") {
  const Tensor w = tensor({2.0, 3.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor buffer = zeros({3, 2}, {.dtype = kFloat64});
  for (int64_t i = 0; i < 3; ++i) buffer[i].copy_(w * static_cast<double>(i + 1));
  CHECK(buffer.requires_grad());
  CHECK_FALSE(buffer.is_leaf());
  square(buffer).sum().backward();
  // The sum over i of d((i + 1) w)^2/dw = 2 (1 + 4 + 9) w.
  CHECK(w.grad().to_vector<double>() == Values{56.0, 84.0});
}

TEST_CASE("a view follows a later write to its base, and to another view of it") {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor base = x * 1.0, view = base.slice(0, 0, 2), last = base.slice(0, 1, 3);
  base.mul_(3.0);
  CHECK(grad(sum(view), x, {.retain_graph = true}).to_vector<double>() == Values{3, 3, 0});
  last.mul_(5.0);
  CHECK(view.to_vector<double>() == Values{3, 30});
  CHECK(grad(sum(view), x, {.retain_graph = true}).to_vector<double>() == Values{3, 15, 0});
  CHECK(grad(sum(base), x).to_vector<double>() == Values{3, 15, 15});
}

TEST_CASE("a view that required no gradient does once its base does") {
  const Tensor w = tensor({4.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor base = zeros({2}, {.dtype = kFloat64}), first = base.slice(0, 0, 1),
               second = base.slice(0, 1, 2);
  CHECK_FALSE(first.requires_grad());
  second.copy_(w);
  CHECK(base.requires_grad());
  CHECK(first.requires_grad());
  CHECK_FALSE(first.is_leaf());
  CHECK(grad(sum(first + base), w).item() == 1.0);
}

TEST_CASE("a stale view whose elements lie in one place adds up their gradients") {
  const Tensor x = tensor({{1.0}, {2.0}}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor base = x * 1.0, wide = base.expand({2, 3});
  const Tensor line = tensor({1.0, 2.0, 3.0, 4.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor whole = line * 1.0, windows = whole.unfold(0, 2, 1);
  base.mul_(2.0);
  whole.mul_(2.0);
  CHECK(grad(sum(wide), x).to_vector<double>() == Values{6, 6});
  CHECK(grad(sum(windows), line).to_vector<double>() == Values{2, 4, 4, 2});
}

TEST_CASE("writes through views have second derivatives") {
  const Tensor x = numbers({3, 4}, true), y = numbers({4}, true);
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor base = in[0].transpose(0, 1) * 1.0, row = base.select(1, 1);
    const Tensor early = base.slice(0, 0, 3, 2);
    row.mul_(in[1]);
    base.diagonal().copy_(row.slice(0, 0, 3).clone() * in[1].slice(0, 1, 4));
    return sum(square(base)) + sum(early * early * early) + sum(exp(row));
  };
  CHECK(gradcheck(f, {x, y}));
  CHECK(gradgradcheck(f, {x, y}));
}

TEST_CASE("any writes through any views give the gradients of the same writes without sharing") {
  // The base as a value: a write to a view replaces elements at the view's positions.
  const std::vector<std::pair<std::string, View>> views = {
      {"row", [](const Tensor& t) { return t.select(0, 1); }},
      {"every second column", [](const Tensor& t) { return t.slice(1, 1, 6, 2); }},
      {"turned", [](const Tensor& t) { return t.transpose(0, 1); }},
      {"corner", [](const Tensor& t) { return t.narrow(0, 1, 2).narrow(1, 2, 3); }},
      {"diagonal", [](const Tensor& t) { return t.diagonal(1); }},
      {"line", [](const Tensor& t) { return t.flatten().slice(0, 3, 20, 4); }},
      {"part of a split", [](const Tensor& t) { return t.split(2, 1)[1]; }},
      {"one of unbind", [](const Tensor& t) { return t.unbind(1)[4]; }},
      {"itself",
       [](const Tensor& t) {
         return t.view({4, 6});
       }},
      {"nothing", [](const Tensor& t) { return t.narrow(1, 3, 0); }},
  };
  const Tensor places = arange(24).reshape({4, 6});
  const auto one_of = [](size_t count) {
    return static_cast<size_t>(randint(0, static_cast<int64_t>(count), {1}).item<int64_t>());
  };
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    manual_seed(seed);
    const Tensor w = numbers({24}, true);
    const Tensor start = seed % 2 == 0 ? w.reshape({4, 6}) * 0.5 : numbers({4, 6});
    const Tensor base = start.clone();
    Tensor value = start;
    struct Taken {
      Tensor view, positions;
    };
    std::vector<Taken> taken;
    Tensor shared = zeros({}, {.dtype = kFloat64}), apart = shared;
    for (int step = 0; step < 8; ++step) {
      const View& view = views[one_of(views.size())].second;
      taken.push_back({view(base), view(places).reshape({-1})});
      const Taken& written = taken[one_of(taken.size())];
      const Tensor factor = w.slice(0, 0, written.positions.numel());
      written.view.mul_(factor.reshape(written.view.shape()));
      const Tensor line = value.reshape({24});
      value = line.index_put({written.positions}, line[written.positions] * factor);
      const Taken& read = taken[one_of(taken.size())];
      shared = shared + sum(square(read.view.clone()));  // what is saved is not written to
      apart = apart + sum(square(value[read.positions]));
      value = value.reshape({4, 6});
    }
    CHECK(base.to_vector<double>() == value.to_vector<double>());
    const Tensor expected = grad(sum(value * value) + apart, w);
    CHECK(allclose(grad(sum(base * base) + shared, w), expected, 1e-12, 1e-12));
  }
}

TEST_CASE("a gradient that is kept is that of the values after a write through a view") {
  const Tensor x = tensor({1.0, 2.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor base = x * 1.0;
  base.retain_grad();
  base[0].mul_(10.0);
  (base * tensor({3.0, 4.0}, {.dtype = kFloat64})).sum().backward();
  CHECK(base.grad().to_vector<double>() == Values{3, 4});
  CHECK(x.grad().to_vector<double>() == Values{30, 4});
}

TEST_CASE("what is detached has no history, whatever is written to its memory") {
  const Tensor x = tensor({1.0, 2.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = x * 1.0, constant = y.detach(), part = constant[1];
  y.mul_(3.0);
  CHECK_FALSE((constant * 2.0).requires_grad());
  CHECK((part * 2.0).item() == 12.0);
  // A recorded write to it is in no history of y, which is refused from then on.
  constant.mul_(x);
  CHECK_THROWS_WITH(y * 1.0, ContainsSubstring("in-place"));
}

TEST_CASE("a view made without recording is refused after a recorded write to its memory") {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor base = x * 1.0;
  const Tensor view = without_recording(base, [](const Tensor& t) { return t.slice(0, 0, 2); });
  base.mul_(3.0);
  CHECK_THROWS_WITH(view * 2.0, ContainsSubstring("in-place"));
  CHECK_THROWS_WITH(view.add_(x.slice(0, 0, 2)), ContainsSubstring("in-place"));
  CHECK(base.to_vector<double>() == Values{3, 6, 9});
}

TEST_CASE("a view of what has come to be a leaf is not written to while recording") {
  const Tensor x = zeros({3}), view = x.slice(0, 0, 2);
  x.requires_grad_();
  CHECK_THROWS_WITH(view.fill_(1.0), ContainsSubstring("of a leaf that requires grad"));
  CHECK(x.to_vector<double>() == Values{0, 0, 0});
  const NoGrad no_grad;
  view.fill_(1.0);
  CHECK(x.to_vector<double>() == Values{1, 1, 0});
}

TEST_CASE("other values for a base part it from its views") {
  const Tensor base = zeros({2}), view = base.slice(0, 0, 1);
  base.set_data(Array::ones({2}, kFloat32));
  const Tensor w = ones({1}, {.requires_grad = true});
  view.copy_(w * 5.0);
  CHECK_FALSE(base.requires_grad());
  CHECK(base.to_vector<double>() == Values{1, 1});
  CHECK(view.requires_grad());
}

}  // namespace
