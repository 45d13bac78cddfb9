#include <cstring>

#include "support/captured_stderr.h"
#include "support/catch.h"
#include "support/child.h"

#include <hero/autograd/autograd.h>
#include <hero/core/functions/half_products.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.array().bytes(), b.array().bytes(),
                     static_cast<size_t>(a.array().nbytes())) == 0;
}

Tensor weights(const Shape& shape) { return randn(shape, {.requires_grad = true}); }

}  // namespace

TEST_CASE("autocast runs products in the half, sums in float32 and leaves the rest to promotion") {
  const Tensor x = randn({4, 8}), w = weights({6, 8}), image = randn({1, 2, 5, 5}),
               kernel = weights({3, 2, 3, 3});
  for (const DType half : {kBFloat16, kFloat16}) {
    const Autocast autocast({.dtype = half});
    CHECK(autocast_enabled());
    const Tensor y = linear(x, w);
    CHECK(y.dtype() == half);
    CHECK(matmul(x, w.t()).dtype() == half);
    CHECK(linear_gelu(x, w).dtype() == half);
    CHECK(conv2d(image, kernel).dtype() == half);
    CHECK(conv2d_relu(conv2d(image, kernel), weights({2, 3, 2, 2})).dtype() == half);
    CHECK(scaled_dot_product_attention(x, x, x).dtype() == half);
    CHECK(relu(y).dtype() == half);
    CHECK((y + x.slice(1, 0, 6)).dtype() == kFloat32);
    for (const Tensor& r : {softmax(y, 1), log_softmax(y, 1), layer_norm(y, {6}), rms_norm(y),
                            group_norm(y, 2), sum(y), mean(y, {0}), norm(y), var(y), cumsum(y, 0),
                            exp(y), cross_entropy(y, tensor({0, 1, 2, 3})), mse_loss(y, y)}) {
      CHECK(r.dtype() == kFloat32);
    }
  }
  CHECK(!autocast_enabled());
  CHECK(linear(x, w).dtype() == kFloat32);
}

TEST_CASE("under autocast halves meet weights of float32 in every product") {
  const Tensor line = randn({1, 2, 5}), image = randn({1, 2, 5, 5}),
               volume = randn({1, 2, 3, 3, 3});
  const Tensor x = randn({2, 3}), xs = randn({4, 2, 3}), row = randn({3});
  for (const DType half : {kBFloat16, kFloat16}) {
    const Autocast autocast({.dtype = half});
    for (const DType dtype : {half, kFloat32}) {
      const auto at = [dtype](const Tensor& t) { return t.to(dtype); };
      for (const Tensor& y :
           {conv1d(at(line), weights({3, 2, 2}), weights({3})),
            conv2d(at(image), weights({3, 2, 2, 2}), weights({3})),
            conv3d(at(volume), weights({3, 2, 2, 2, 2}), weights({3})),
            conv3d(at(volume), weights({2, 1, 2, 2, 2}), {}, {.groups = 2}),
            conv_transpose1d(at(line), weights({2, 3, 2}), weights({3})),
            conv_transpose2d(at(image), weights({2, 3, 2, 2}), weights({3})),
            conv_transpose3d(at(volume), weights({2, 3, 2, 2, 2}), weights({3})),
            addmm(weights({5}), at(x), weights({3, 5})), addmv(weights({2}), at(x), weights({3})),
            addr(weights({3, 4}), at(row), weights({4})),
            baddbmm(weights({5}), at(xs), weights({4, 3, 5})),
            addbmm(weights({5}), at(xs), weights({4, 3, 5}))}) {
        CHECK(y.dtype() == half);
      }
      CHECK(grid_sample(at(image), zeros({1, 2, 2, 2})).dtype() == kFloat32);
    }
  }
  // The casts are recorded, and each leaf gets a gradient of its dtype.
  const Tensor w = weights({2, 3, 2}), b = weights({3}), v = randn({1, 2, 5}).requires_grad_();
  {
    const Autocast autocast;
    sum(conv_transpose1d(v.to(kBFloat16), w, b)).backward();
  }
  for (const Tensor& leaf : {w, b, v}) CHECK(leaf.grad().dtype() == kFloat32);
  CHECK(b.grad().to_vector<double>() == std::vector<double>{6, 6, 6});
}

TEST_CASE("a product under autocast has the bits of the casts written out, its gradients too") {
  const Tensor x = randn({5, 300}), w = weights({7, 300}), b = weights({7});
  const Tensor v = Tensor(w.array().clone(), true), c = Tensor(b.array().clone(), true);
  Tensor loss;
  {
    const Autocast autocast;
    loss = mse_loss(linear(x, w, b), zeros({5, 7}));
  }
  const Tensor by_hand = mse_loss(
      linear(x.to(kBFloat16), v.to(kBFloat16), c.to(kBFloat16)).to(kFloat32), zeros({5, 7}));
  CHECK(same_bits(loss, by_hand));
  loss.backward();
  by_hand.backward();
  CHECK(w.grad().dtype() == kFloat32);
  CHECK(same_bits(w.grad(), v.grad()));
  CHECK(same_bits(b.grad(), c.grad()));
}

TEST_CASE("a frozen parameter is cast again in backward, and no cast is kept for it") {
  Ledger ledger;
  const LedgerScope of_ledger(ledger);
  constexpr int64_t kRows = 5, kIn = 300, kOut = 70;
  const Tensor x = weights({kRows, kIn}), b = randn({kOut});
  const Tensor activation = randn({kOut, kIn});
  Tensor w;
  {
    const MemoryScope tag(MemoryTag::parameter);
    w = activation.clone();
  }
  using Product = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  const Product products[] = {linear, linear_relu,
                              [](const Tensor& in, const Tensor& weight, const Tensor& bias) {
                                return linear_gelu(in, weight, bias);
                              }};
  const auto square_of = [](const Tensor& y) { return sum(square(y.to(kFloat32))); };
  for (const Product product : products) {
    const auto gradients = [&](const auto& forward) {
      const auto once = [&](bool recorded) {
        return grad({square_of(forward(x))}, {x}, {.create_graph = recorded})[0];
      };
      const Tensor second = grad({sum(square(once(true)))}, {x})[0];
      const Tensor again = grad({square_of(checkpoint(forward, x))}, {x})[0];
      return std::vector<Tensor>{once(false), second, again};
    };
    const auto a = gradients([&](const Tensor& in) {
      const Autocast autocast;
      return product(in, w, b);
    });
    const auto c = gradients([&](const Tensor& in) {
      return product(in.to(kBFloat16), w.to(kBFloat16), b.to(kBFloat16));
    });
    for (size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], c[i]));
  }
  const auto kept_bytes = [&](const Tensor& weight) {
    const int64_t before = ledger.live();
    const Autocast autocast({.cache = false});
    const Tensor y = linear(x, weight, {});
    return ledger.live() - before - y.array().nbytes();
  };
  CHECK(kept_bytes(w) == 0);
  CHECK(kept_bytes(activation) == kOut * kIn * 2);  // nothing else may keep what is no parameter
  Tensor loss;
  {
    const Autocast autocast;
    loss = sum(linear(x, w));
  }
  w.mul_(2.0);
  CHECK_THROWS_WITH(loss.backward(), ContainsSubstring("was changed in place after it was saved"));
}

TEST_CASE("products of halves accumulate in float32") {
  // 300 ones and a 2^-8 each: in bfloat16 the running sum would stick at 256.
  const Tensor ones_row = ones({1, 300}).to(kBFloat16), column = ones({300, 1}).to(kBFloat16);
  CHECK(matmul(ones_row, column).item() == 300.0);
  const Tensor many = ones({1, 3000}).to(kFloat16);
  CHECK(matmul(many, many.t()).item() == 3000.0);
}

TEST_CASE("scopes nest, and one that is not enabled switches casts off") {
  const Tensor x = randn({2, 2});
  const Autocast outer({.dtype = kFloat16});
  {
    const Autocast off({.enabled = false});
    CHECK(!autocast_enabled());
    CHECK(matmul(x, x).dtype() == kFloat32);
    const Autocast inner({.dtype = kBFloat16});
    CHECK(matmul(x, x).dtype() == kBFloat16);
  }
  CHECK(matmul(x, x).dtype() == kFloat16);
}

TEST_CASE("a weight is cast once in a scope, and again once it was written to") {
  Ledger ledger;
  const LedgerScope charged(ledger);
  const Tensor x = randn({1, 64}), w = weights({64, 64});
  const int64_t half = 64 * 64 * 2;
  const Autocast autocast;
  const int64_t before = ledger.live();
  Tensor first = linear(x, w);
  const int64_t once = ledger.live() - before;
  CHECK(once >= half);
  Tensor second = linear(x, w);
  CHECK(ledger.live() - before - once < half);
  {
    const NoGrad no_grad;
    w.zero_();
  }
  CHECK(linear(x, w).to_vector<float>() == std::vector<float>(64, 0.0f));
}

TEST_CASE("a scope may span several steps: a cast freed by backward is made anew") {
  const Tensor x = randn({3, 4}), w = weights({2, 4});
  const Autocast autocast;
  sum(linear(x, w)).backward();
  const std::vector<float> once = w.grad().to_vector<float>();
  sum(linear(x, w)).backward();
  std::vector<float> twice = w.grad().to_vector<float>();
  for (size_t i = 0; i < twice.size(); ++i) CHECK(twice[i] == 2.0f * once[i]);
  {
    const NoGrad no_grad;
    CHECK(!linear(x, w).requires_grad());
  }
  CHECK(linear(x, w).requires_grad());
}

TEST_CASE("backward is not cast, whether or not a scope is open") {
  const Tensor x = weights({3, 3});
  const Tensor y = matmul(x, x);  // recorded in float32
  std::vector<bool> enabled;
  x.register_hook([&](const Tensor&) {
    enabled.push_back(autocast_enabled());
    return Tensor();
  });
  sum(y).backward({.retain_graph = true});
  const Tensor plain = x.grad();
  x.set_grad({});
  const Autocast autocast;
  sum(y).backward();
  CHECK(same_bits(x.grad(), plain));
  CHECK(enabled == std::vector<bool>{false, false});
  CHECK(autocast_enabled());
}

TEST_CASE("float64 is left alone, integers too, and other dtypes cannot be asked for") {
  const Autocast autocast;
  const Tensor d = ones({2, 2}, {.dtype = kFloat64});
  CHECK(matmul(d, d).dtype() == kFloat64);
  CHECK(softmax(d, 0).dtype() == kFloat64);
  CHECK(sum(tensor({1, 2})).dtype() == kInt64);
  CHECK_THROWS_WITH(Autocast({.dtype = kFloat32}), ContainsSubstring("bfloat16 or float16"));
}

TEST_CASE("what is written into a tensor of another floating dtype widens under autocast") {
  const Autocast autocast;
  const Tensor wide = arange(4.0).requires_grad_(), at = tensor({1, 3});
  const Tensor half = tensor({0.5, 2.5}).to(kBFloat16).detach().requires_grad_();
  const Tensor mask = tensor({false, true, false, true});
  using Write = std::function<Tensor(const Tensor& x, const Tensor& src)>;
  const std::vector<std::pair<const char*, Write>> writes = {
      {"scatter", [&](const auto& x, const auto& s) { return scatter(x, 0, at, s); }},
      {"scatter_add", [&](const auto& x, const auto& s) { return scatter_add(x, 0, at, s); }},
      {"scatter_reduce",
       [&](const auto& x, const auto& s) {
         return scatter_reduce(x, 0, at, s, ScatterReduce::sum);
       }},
      {"index_add", [&](const auto& x, const auto& s) { return index_add(x, 0, at, s); }},
      {"index_copy", [&](const auto& x, const auto& s) { return index_copy(x, 0, at, s); }},
      {"index_put", [&](const auto& x, const auto& s) { return index_put(x, {at}, s); }},
      {"put", [&](const auto& x, const auto& s) { return put(x, at, s); }},
      {"masked_scatter", [&](const auto& x, const auto& s) { return masked_scatter(x, mask, s); }},
      {"slice_scatter",
       [&](const auto& x, const auto& s) { return slice_scatter(x, s, 0, 1, 4, 2); }},
      {"select_scatter",
       [&](const auto& x, const auto& s) {
         return ravel(select_scatter(reshape(x, {2, 2}), s, 1, 1));
       }},
      {"diagonal_scatter",
       [&](const auto& x, const auto& s) {
         return ravel(diagonal_scatter(reshape(x, {2, 2}), s));
       }},
  };
  for (const auto& [name, write] : writes) {
    INFO(name);
    const Tensor result = write(wide, half);
    CHECK(result.dtype() == kFloat32);
    CHECK(equal(result, write(wide, half.detach().to(kFloat32))));
    const std::vector<Tensor> g = grad({result.sum()}, {wide, half});
    CHECK((g[0].dtype() == kFloat32 && g[1].dtype() == kBFloat16));
    CHECK(equal(g[1], ones_like(half)));
    CHECK(write(half.detach().to(kFloat16).repeat({2}), half).dtype() == kFloat32);
    CHECK(write(half.repeat({2}), half).dtype() == kBFloat16);
    CHECK_THROWS(write(wide.detach().to(kFloat64), half));  // float64 is left alone
  }
  const Tensor kept = half.detach().repeat({2});  // in place it keeps its dtype
  kept.scatter_add_(0, at, ones({2}));
  CHECK(kept.dtype() == kBFloat16);
  CHECK(kept.to_vector<double>() == std::vector<double>{0.5, 3.5, 0.5, 3.5});
}

TEST_CASE("distances, decompositions and quantiles are computed in float32 under autocast") {
  manual_seed(2);
  const Tensor rows = randn({40, 6}), others = randn({30, 6}) + 0.5, square = randn({4, 4});
  const Tensor theta = randn({1, 2, 3}), half = square.to(kBFloat16), wide = half.to(kFloat32);
  using Function = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<const char*, Function>> of_halves = {
      {"quantile", [](const Tensor& x) { return quantile(x, 0.3, {.dim = 1}); }},
      {"nanquantile", [](const Tensor& x) { return nanquantile(x, x[0].detach() * 0 + 0.5); }},
      {"inv", inv},
      {"det", det},
      {"pinv", [](const Tensor& x) { return pinv(x); }},
      {"solve", [](const Tensor& x) { return solve(x, x.t()); }},
      {"lstsq", [](const Tensor& x) { return lstsq(x, x.t()); }},
      {"svd", [](const Tensor& x) { return svd(x).s; }},
      {"qr", [](const Tensor& x) { return qr(x).r; }},
      {"eigh", [](const Tensor& x) { return eigh(x + x.t()).eigenvalues; }},
      {"log10", [](const Tensor& x) { return log10(abs(x)); }},
      {"cdist", [](const Tensor& x) { return cdist(x, x * 2); }},
  };
  const std::vector<std::pair<const char*, Function>> of_floats = {
      {"cdist", [&](const Tensor& x) { return cdist(x, others); }},
      {"matrix_exp", [&](const Tensor&) { return matrix_exp(square); }},
      {"pinv", [](const Tensor& x) { return pinv(x); }},
      {"affine_grid",
       [&](const Tensor&) {
         return affine_grid(theta, {1, 1, 9, 7});
       }},
  };
  for (const auto& [name, function] : of_halves) {
    INFO(name);
    const Tensor expected = function(wide);
    const Autocast autocast;
    const Tensor found = function(half);
    CHECK(found.dtype() == kFloat32);
    CHECK(allclose(found, expected, 1e-2, 1e-2));
  }
  for (const auto& [name, function] : of_floats) {
    INFO(name);
    const Tensor expected = function(rows);
    const Autocast autocast;
    CHECK(equal(function(rows), expected));
  }
}

TEST_CASE("child of a test of autocast: what its casts say", "[.]") {
  if (hero_test::Child::argument() == nullptr) return;
  const Tensor x = randn({4, 8}), w = weights({6, 8});
  const auto said = [&](DType dtype) {
    hero_test::CapturedStderr captured;
    const Autocast autocast({.dtype = dtype});
    linear(x, w);
    return captured.text();
  };
  CHECK(said(kFloat16).empty());
  set_half_products(HalfProducts::portable);  // whoever chooses that knows
  CHECK(said(kBFloat16).empty());
  set_half_products(HalfProducts::native);
  CHECK(said(kBFloat16) == (native_half_products()
                                ? ""
                                : "autocast: this processor has no fast products of bfloat16: "
                                  "steps take no less time than in float32\n"));
  CHECK(said(kBFloat16).empty());
}

TEST_CASE("autocast says once in a process if it saves no time") {
  hero_test::Child child("child of a test of autocast: what its casts say", "child");
  CHECK(child.wait() == 0);
}
