#include <algorithm>
#include <functional>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/tree.h"

#include <hero/autograd/ops.h>
#include <hero/core/ledger.h>
#include <hero/optim/accumulator.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Numbers whose sums round in every dtype, so that their order shows.
std::vector<Array> gradients(size_t n, DType dtype) {
  std::vector<Array> list;
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> values = noise({37}, kFloat64, i + 1).to_vector<double>();
    for (double& value : values) value /= 3.0;
    list.push_back(Array::from(values, {37}).to(dtype));
  }
  return list;
}

template <class T>
Array expected(const std::vector<Array>& inputs, bool mean) {
  std::vector<std::vector<T>> values;
  for (const Array& input : inputs) values.push_back(input.to_vector<T>());
  std::vector<T> sums;
  for (size_t e = 0; e < values.front().size(); ++e) {
    const T sum = hero_test::tree_of(values, e, 0, values.size(), std::plus<T>());
    sums.push_back(mean ? sum / static_cast<T>(values.size()) : sum);
  }
  return Array::from(sums, inputs.front().shape());
}

}  // namespace

TEST_CASE("an accumulator adds up in the order of a tree, halves in float32") {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    for (size_t n = 1; n <= 33; ++n) {
      CAPTURE(dtype, n);
      const Tensor p = zeros({37}, {.dtype = dtype, .requires_grad = true});
      optim::Accumulator sums({p});
      const std::vector<Array> given = gradients(n, dtype);
      for (const bool mean : {false, true}) {
        for (const Array& g : given) {
          p.set_grad(Tensor(g.clone()));
          sums.add();
          CHECK(!p.grad().defined());
        }
        CHECK(sums.count() == static_cast<int64_t>(n));
        mean ? sums.mean() : sums.sum();
        CHECK(sums.count() == 0);
        const Array whole =
            dtype == kFloat64 ? expected<double>(given, mean) : expected<float>(given, mean);
        REQUIRE(p.grad().dtype() == dtype);
        CHECK(same(p.grad().array(), whole.to(dtype)));
        p.set_grad({});
      }
    }
  }
}

TEST_CASE("from four on an accumulator's bits are not those of adding one after the other") {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor p = zeros({37}, {.dtype = dtype, .requires_grad = true});
    const auto both = [&](size_t n) {
      optim::Accumulator sums({p});
      Array left;
      for (const Array& g : gradients(n, dtype)) {
        left = left.defined() ? (Tensor(left) + Tensor(g)).array() : g;
        p.set_grad(Tensor(g.clone()));
        sums.add();
      }
      sums.sum();
      const bool equal = same(p.grad().array(), left);
      p.set_grad({});
      return equal;
    };
    CHECK(both(3));
    CHECK(!both(4));
  }
}

TEST_CASE("a parameter that a micro-batch does not use adds nothing there") {
  const Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({2}, {.requires_grad = true}),
               idle = zeros({2}, {.requires_grad = true});
  optim::Accumulator sums({a, b, idle});
  for (int i = 0; i < 5; ++i) {
    (i % 2 == 0 ? hero::sum(a * 3.0) : hero::sum(a + b)).backward();
    sums.add();
  }
  sums.mean();
  CHECK(a.grad().to_vector<float>() == std::vector<float>(2, 11.0f / 5.0f));
  CHECK(b.grad().to_vector<float>() == std::vector<float>(2, 2.0f / 5.0f));
  CHECK(!idle.grad().defined());
}

TEST_CASE("an accumulator holds at most 1 + log2(m) sums") {
  constexpr int64_t kBytes = 4 * 4096;
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Tensor p = zeros({4096}, {.requires_grad = true});
  optim::Accumulator sums({p});
  int64_t most = 0;
  const int64_t before = ledger.live();
  for (int i = 0; i < 64; ++i) {
    hero::sum(p * 2.0).backward();
    sums.add();
    most = std::max(most, ledger.live() - before);
  }
  CHECK(most == 6 * kBytes);  // of 63: 32 + 16 + 8 + 4 + 2 + 1
  CHECK(ledger.live() - before == kBytes);
  sums.sum();
  CHECK(p.grad().to_vector<float>() == std::vector<float>(4096, 128.0f));
}

TEST_CASE("an accumulator says what it misses") {
  const Tensor p = zeros({2}, {.requires_grad = true});
  optim::Accumulator sums({p});
  CHECK_THROWS_WITH(sums.mean(), ContainsSubstring("Accumulator::mean: nothing was added"));
  hero::sum(p).backward();
  sums.add();
  hero::sum(p).backward();
  CHECK_THROWS_WITH(sums.sum(), ContainsSubstring("parameter 0 of 1 has got a gradient since"));
  sums.add();
  sums.sum();
  CHECK(p.grad().to_vector<float>() == std::vector<float>{2.0f, 2.0f});
  CHECK_THROWS_WITH(optim::Accumulator({Tensor()}), ContainsSubstring("parameter 0 of 1"));
}
