#include <cstring>
#include <limits>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/functors.h"

#include <hero/core/functions/map.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;

using Floats = std::vector<float>;

// Operand `position` of a test: special values that meet each other in all combinations, then
// numbers without pattern. Integers stay small, since overflow of signed ones is undefined.
template <class T>
std::vector<T> operand(int position, size_t n) {
  std::vector<T> values(n);
  if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    const T special[] = {0,        T(-0.0),     1,    -1,     L::infinity(),  -L::infinity(),
                         L::max(), L::min(),    T(2), T(0.5), L::quiet_NaN(), L::denorm_min(),
                         T(-3),    L::lowest(), 88,   T(-100)};
    const auto rest =
        noise({static_cast<int64_t>(n)}, kFloat64, 20 + static_cast<uint64_t>(position))
            .to_vector<double>();
    for (size_t i = 0; i < n; ++i) {
      const size_t step = position % 2 == 0 ? i % 16 : i / 16 % 16;
      values[i] = i < 256 ? special[step] : static_cast<T>(rest[i] * 4);
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      const auto number = static_cast<int>(i * 7 + static_cast<size_t>(position) * 5) % 23;
      values[i] = static_cast<T>(std::is_signed_v<T> ? number - 11 : number);
    }
  }
  return values;
}

template <class T>
bool equal(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b);
}

// F of the elements at `in`.
template <class F, class T, class Out>
Out apply(const T* in) {
  if constexpr (F::arity == 1) return static_cast<Out>(F{}(in[0]));
  if constexpr (F::arity == 2) return static_cast<Out>(F{}(in[0], in[1]));
  if constexpr (F::arity == 3) return static_cast<Out>(F{}(in[0], in[1], in[2]));
  if constexpr (F::arity == 4) return static_cast<Out>(F{}(in[0], in[1], in[2], in[3]));
}

template <class T, class Out>
void kernel_matches(const Functor& f, Out (*applied)(const T* in)) {
  constexpr size_t n = 1111;  // two blocks and a tail that fills no vector
  std::vector<Array> inputs, strided;
  std::vector<std::vector<T>> columns;
  for (int i = 0; i < f.arity; ++i) {
    columns.push_back(operand<T>(i, n));
    inputs.push_back(Array::from(columns.back(), {static_cast<int64_t>(n)}));
    strided.push_back(awkward(inputs.back()));
  }
  const Array out = Array::empty({static_cast<int64_t>(n)}, kDTypeOf<Out>);
  run(f, inputs, kDTypeOf<T>, out);
  const Out* got = out.data<Out>();
  for (size_t i = 0; i < n; ++i) {
    T in[4] = {};
    for (size_t k = 0; k < columns.size(); ++k) in[k] = columns[k][i];
    const Out expected = applied(in);
    if (equal<Out>(got[i], expected)) continue;
    FAIL(f.name << " of element " << i << " (" << +in[0] << ", " << +in[1] << ", " << +in[2]
                << ") gives " << +got[i] << ", the functor " << +expected);
  }
  const Array into = awkward(Array::zeros(out.shape(), out.dtype()));
  run(f, strided, kDTypeOf<T>, into);
  const auto again = into.contiguous();
  for (size_t i = 0; i < n; ++i) REQUIRE(equal<Out>(again.data<Out>()[i], got[i]));
}

template <class T, class... Fs>
void every_kernel_matches_its_functor(TypeList<Fs...>) {
  const auto check = []<class F>(TypeTag<F>) {
    using Out = std::conditional_t<F::predicate, bool, T>;
    if constexpr (kernels::computes_in<F, T>()) {
      kernel_matches<T, Out>(kFunctors[kernels::MapList::index_of<F>()], apply<F, T, Out>);
    }
  };
  (check(TypeTag<Fs>{}), ...);
}

template <class T>
void every_kernel_matches_its_functor() {
  every_kernel_matches_its_functor<T>(kernels::MapList{});
}

TEST_CASE("every kernel gives its functor's bits in float32", "[core]") {
  every_kernel_matches_its_functor<float>();
}
TEST_CASE("every kernel gives its functor's bits in float64", "[core]") {
  every_kernel_matches_its_functor<double>();
}
TEST_CASE("every kernel gives its functor's value in int64", "[core]") {
  every_kernel_matches_its_functor<int64_t>();
}
TEST_CASE("every kernel gives its functor's value in int32", "[core]") {
  every_kernel_matches_its_functor<int32_t>();
}
TEST_CASE("every kernel gives its functor's value in uint8", "[core]") {
  every_kernel_matches_its_functor<uint8_t>();
}

TEST_CASE("integer remainders exist for every divisor", "[core]") {
  const Array x = Array::from(std::vector<int64_t>{INT64_MIN, INT64_MIN, 7, -7, 7}, {5});
  const Array y = Array::from(std::vector<int64_t>{-1, 0, -1, 4, -4}, {5});
  REQUIRE(map<kernels::Remainder>(x, y).to_vector<int64_t>() ==
          std::vector<int64_t>{0, 0, 0, 1, -1});
  const Array bytes = Array::from(std::vector<uint8_t>{255, 254}, {2});
  REQUIRE(map<kernels::Remainder>(Array::full({2}, 254, kUInt8), bytes).to_vector<int64_t>() ==
          std::vector<int64_t>{254, 0});
}

TEST_CASE("halves are computed in float and rounded once", "[core]") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Array a = noise({700}, dtype, 1), b = noise({700}, dtype, 2);
    const Array wide = map<kernels::Mul>(a.to(kFloat32), b.to(kFloat32)).to(dtype);
    REQUIRE(same(map<kernels::Mul>(a, b), wide));
    REQUIRE(same(map<kernels::Exp>(a), map<kernels::Exp>(a.to(kFloat32)).to(dtype)));
  }
}

TEST_CASE("operands broadcast by NumPy's rule", "[core]") {
  const Array column = Array::from(Floats{10, 20}, {2, 1}), row = Array::from(Floats{1, 2, 3}, {3});
  const Array sum = map<kernels::Add>(column, row);
  REQUIRE(sum.shape() == Shape{2, 3});
  REQUIRE(sum.to_vector<float>() == Floats{11, 12, 13, 21, 22, 23});
  REQUIRE(map<kernels::Add>(row, Array::full({}, 1)).to_vector<float>() == Floats{2, 3, 4});
  REQUIRE(map<kernels::Add>(Array::zeros({0, 3}), row).shape() == Shape{0, 3});
  REQUIRE(map<kernels::Add>(Array::zeros({2, 0}), column).shape() == Shape{2, 0});
  REQUIRE(map<kernels::Where>(column, row, 0.5).shape() == Shape{2, 3});
  REQUIRE(error_of([&] { map<kernels::Add>(row, Array::zeros({2})); }) ==
          "add: shapes do not broadcast: [3] and [2]");
}

TEST_CASE("every mix of layouts gives the same bits", "[core]") {
  const Array a = noise({6, 70, 9}, kFloat32, 1), b = noise({6, 70, 9}, kFloat32, 2);
  const Array expected = map<kernels::Atan2>(a, b);
  const auto layouts = [](const Array& x) {
    return std::vector<Array>{x, awkward(x), x.permute({1, 2, 0}).contiguous().permute({2, 0, 1}),
                              x.transpose(1, 2).contiguous().transpose(1, 2)};
  };
  for (const Array& x : layouts(a)) {
    for (const Array& y : layouts(b)) {
      REQUIRE(same(map<kernels::Atan2>(x, y), expected));
      const Array out = awkward(Array::zeros(a.shape()));
      map_into<kernels::Atan2>(out, x, y);
      REQUIRE(same(out, expected));
    }
  }
}

TEST_CASE("operands of different dtypes are read as the promoted one", "[core]") {
  const Array ints = Array::from(std::vector<int32_t>{1, -2, 3}, {3});
  const Array halves = Array::from(Floats{0.5f, 0.5f, 0.25f}, {3}).to(kFloat16);
  const Array sum = map<kernels::Add>(ints, halves);
  REQUIRE(sum.dtype() == kFloat16);
  REQUIRE(sum.to_vector<float>() == Floats{1.5f, -1.5f, 3.25f});
  REQUIRE(map<kernels::Div>(ints, ints).dtype() == kFloat32);
  REQUIRE(map<kernels::Less>(ints, halves).to_vector<bool>() ==
          std::vector<bool>{false, true, false});
  const Array flags = Array::from(std::vector<uint8_t>{1, 0, 1}, {3}).to(kBool);
  REQUIRE(map<kernels::Where>(flags, halves, ints.to(kUInt8)).dtype() == kFloat16);
}

TEST_CASE("an output may be one of the inputs, or overlap it", "[core]") {
  const Array x = Array::from(Floats{1, 2, 3, 4}, {4});
  map_into<kernels::Mul>(x, x, x);
  REQUIRE(x.to_vector<float>() == Floats{1, 4, 9, 16});
  // Shifted by one: as if the right side had been read first.
  map_into<kernels::Add>(x.slice(0, 1), x.slice(0, 0, 3), 100);
  REQUIRE(x.to_vector<float>() == Floats{1, 101, 104, 109});
  const Array square = Array::from(Floats{1, 2, 3, 4}, {2, 2});
  map_into<kernels::Add>(square, square, square.t());
  REQUIRE(square.to_vector<float>() == Floats{2, 5, 5, 8});
  const Array rows = Array::from(Floats{1, 2, 3, 4}, {2, 2});
  map_into<kernels::Sub>(rows, rows, rows.slice(0, 0, 1));
  REQUIRE(rows.to_vector<float>() == Floats{0, 0, 2, 2});
}

TEST_CASE("writing into an output keeps its dtype and is counted", "[core]") {
  const Array out = Array::zeros({2}, kFloat16);
  const uint32_t before = out.storage().version();
  map_into<kernels::Add>(out, Array::ones({2}), 0.5);
  REQUIRE(out.dtype() == kFloat16);
  REQUIRE(out.to_vector<float>() == Floats{1.5f, 1.5f});
  REQUIRE(out.storage().version() == before + 1);
  REQUIRE(error_of([&] { map_into<kernels::Add>(Array::zeros({2}, kInt64), out, 1); }) ==
          "add: result of float16 cannot be stored in int64; convert with to()");
  REQUIRE(error_of([&] { map_into<kernels::Add>(out, Array::ones({3, 2}), 1); }) != "");
}

TEST_CASE("scalars stand in for any operand but not for all", "[core]") {
  const Array x = Array::from(Floats{1, 2}, {2});
  REQUIRE(map<kernels::Sub>(10, x).to_vector<float>() == Floats{9, 8});
  REQUIRE(map<kernels::Clamp>(x, 1.25, 1.5).to_vector<float>() == Floats{1.25f, 1.5f});
  REQUIRE(error_of([] { map<kernels::Add>(1, 2); }) ==
          "add: needs at least one array among its operands");
  REQUIRE(error_of([] { map<kernels::Neg>(Array()); }) == "neg: operand 0 is undefined");
}

TEST_CASE("copies convert and broadcast between all layouts", "[core]") {
  for (const DType from : {kUInt8, kInt64, kFloat16, kFloat32}) {
    for (const DType to : {kInt32, kBFloat16, kFloat32, kFloat64}) {
      const Array x = make(
          {3, 1, 300}, [](int64_t i) { return i % 100; }, from);
      const Array out = awkward(Array::zeros({3, 4, 300}, to));
      backend(kCpu).run(call::Copy{x, out});
      const auto expected = x.expand({3, 4, 300}).to_vector<double>();
      REQUIRE(out.to_vector<double>() == expected);
    }
  }
}

}  // namespace
