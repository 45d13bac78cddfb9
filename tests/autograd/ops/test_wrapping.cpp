// Integers wrap as two's complement does, whatever computes them; under the undefined-behaviour
// sanitizer, without a word from it.
#include <limits>
#include <vector>

#include <support/catch.h>

#include <hero/autograd/autograd.h>
#include <hero/core/functions/map.h>

namespace {

using namespace hero;
namespace k = core::kernels;

template <class T>
std::vector<T> extremes() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values{Limits::min(),
                        static_cast<T>(Limits::min() + 1),
                        static_cast<T>(Limits::min() / 2),
                        -3,
                        -2,
                        -1,
                        0,
                        1,
                        2,
                        3,
                        7,
                        static_cast<T>(Limits::max() / 2),
                        static_cast<T>(Limits::max() / 2 + 1),
                        static_cast<T>(Limits::max() - 1),
                        Limits::max()};
  return values;
}

// All pairs of extremes.
template <class T>
struct Pairs {
  std::vector<T> left, right;
  Tensor a, b;
  Pairs() {
    for (T x : extremes<T>()) {
      for (T y : extremes<T>()) {
        left.push_back(x);
        right.push_back(y);
      }
    }
    a = Tensor(Array::from(left, {static_cast<int64_t>(left.size())}));
    b = Tensor(Array::from(right, {static_cast<int64_t>(right.size())}));
  }
};

// The same modulo 2^32 or 2^64.
template <class T>
T low(uint64_t value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}
template <class T>
uint64_t wide(T value) {
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

template <class T, class Expected>
void require(const Tensor& result, size_t count, const Expected& expected) {
  const std::vector<T> values = result.to_vector<T>();
  REQUIRE(values.size() == count);
  for (size_t i = 0; i < count; ++i) {
    INFO(i);
    REQUIRE(values[i] == low<T>(expected(i)));
  }
}

template <class T>
void elementwise() {
  const Pairs<T> p;
  const size_t n = p.left.size();
  const auto x = [&](size_t i) { return wide(p.left[i]); };
  const auto y = [&](size_t i) { return wide(p.right[i]); };
  require<T>(p.a + p.b, n, [&](size_t i) { return x(i) + y(i); });
  require<T>(p.a - p.b, n, [&](size_t i) { return x(i) - y(i); });
  require<T>(p.a * p.b, n, [&](size_t i) { return x(i) * y(i); });
  require<T>(p.a + std::numeric_limits<T>::max(), n,
             [&](size_t i) { return x(i) + wide(std::numeric_limits<T>::max()); });
  require<T>(p.a * std::numeric_limits<T>::min(), n,
             [&](size_t i) { return x(i) * wide(std::numeric_limits<T>::min()); });
  require<T>(neg(p.a), n, [&](size_t i) { return 0 - x(i); });
  require<T>(abs(p.a), n, [&](size_t i) { return p.left[i] < 0 ? 0 - x(i) : x(i); });
  require<T>(square(p.a), n, [&](size_t i) { return x(i) * x(i); });
  require<T>(remainder(p.a, p.b), n, [&](size_t i) -> uint64_t {
    const auto a = static_cast<int64_t>(p.left[i]), b = static_cast<int64_t>(p.right[i]);
    if (b == 0 || b == -1) return 0;
    const int64_t rest = a % b;
    return static_cast<uint64_t>(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
  });
  const Array sums = core::map<k::Addcmul>(p.a.array(), p.a.array(), p.b.array(), Scalar(3));
  require<T>(Tensor(sums), n, [&](size_t i) { return x(i) + 3 * x(i) * y(i); });
  const Array lines = core::map<k::Affine>(p.a.array(), p.b.array(), Scalar(5));
  require<T>(Tensor(lines), n, [&](size_t i) { return x(i) * y(i) + 5; });
  for (int64_t power : {2, 3, 5, 31, 63, 64, 70}) {
    require<T>(pow(p.a, power), n, [&](size_t i) {
      uint64_t product = 1;
      for (int64_t j = 0; j < power; ++j) product *= x(i);
      return product;
    });
  }
  Tensor in_place = clone(p.a);
  in_place.add_(p.b);
  in_place.mul_(p.b);
  require<T>(in_place, n, [&](size_t i) { return (x(i) + y(i)) * y(i); });
}

TEST_CASE("elementwise operations of integers wrap", "[autograd]") {
  elementwise<int32_t>();
  elementwise<int64_t>();
}

TEST_CASE("sums and products of integers wrap", "[autograd]") {
  for (const int64_t n : {3, 50, 1000, 70'000}) {  // within a leaf, a tree, several threads
    std::vector<int64_t> values;
    const std::vector<int64_t> from = extremes<int64_t>();
    uint64_t sum_of = 0, product = 1;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(from[static_cast<size_t>(i * i + i / 3) % from.size()] | 1);
      sum_of += wide(values.back());
      product *= wide(values.back());
    }
    INFO(n << " elements");
    const Tensor x(Array::from(values, {n}));
    REQUIRE(sum(x).item<int64_t>() == low<int64_t>(sum_of));
    REQUIRE(prod(x).item<int64_t>() == low<int64_t>(product));
    uint64_t running = 0, power = 1;
    const auto sums = cumsum(x, 0).to_vector<int64_t>(),
               products = cumprod(x, 0).to_vector<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      running += wide(values[i]);
      power *= wide(values[i]);
      REQUIRE(sums[i] == low<int64_t>(running));
      REQUIRE(products[i] == low<int64_t>(power));
    }
    // Columns side by side are reduced by other code.
    const Tensor columns = expand(x.unsqueeze(1), {n, 9}).contiguous();
    REQUIRE(sum(columns, {0}).to_vector<int64_t>() ==
            std::vector<int64_t>(9, low<int64_t>(sum_of)));
    REQUIRE(prod(columns, {0}).to_vector<int64_t>() ==
            std::vector<int64_t>(9, low<int64_t>(product)));
  }
}

TEST_CASE("sums through indices and products of integer matrices wrap", "[autograd]") {
  const std::vector<int64_t> values = extremes<int64_t>();
  const auto n = static_cast<int64_t>(values.size());
  const Tensor x(Array::from(values, {n})), places = zeros({n}, {.dtype = kInt64});
  uint64_t total = 0, squares = 0;
  for (int64_t value : values) {
    total += wide(value);
    squares += wide(value) * wide(value);
  }
  const Tensor none = zeros({1}, {.dtype = kInt64});
  REQUIRE(scatter_add(none, 0, places, x).item<int64_t>() == low<int64_t>(total));
  REQUIRE(index_add(none, 0, places, x).item<int64_t>() == low<int64_t>(total));
  REQUIRE(index_add(none, 0, places, x, 3.0).item<int64_t>() == low<int64_t>(3 * total));
  REQUIRE(index_put(none, {places}, x, true).item<int64_t>() == low<int64_t>(total));
  const Tensor wide_rows = expand(x.unsqueeze(1), {n, 32}).contiguous();
  const Tensor rows = zeros({1, 32}, {.dtype = kInt64});
  REQUIRE(index_add(rows, 0, places, wide_rows).to_vector<int64_t>() ==
          std::vector<int64_t>(32, low<int64_t>(total)));
  REQUIRE(dot(x, x).item<int64_t>() == low<int64_t>(squares));
  REQUIRE(sum_to(wide_rows, {1, 32}).to_vector<int64_t>() ==
          std::vector<int64_t>(32, low<int64_t>(total)));
}

}  // namespace
