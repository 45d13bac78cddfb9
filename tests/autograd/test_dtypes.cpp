// What dtype, and what values, operations give for integers, bools, halves and numbers. Expected
// figures are PyTorch's (2.15).
#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Values = std::vector<double>;
using Integers = std::vector<int64_t>;
using Bools = std::vector<bool>;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Tensor bytes(std::initializer_list<int> values) { return tensor(values, {.dtype = kUInt8}); }
Tensor ints(std::initializer_list<int> values) { return tensor(values, {.dtype = kInt32}); }

// dtype and values at once, NaN like NaN.
void check_is(const Tensor& x, DType dtype, const Values& expected) {
  CHECK(x.dtype() == dtype);
  const Values values = x.to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO(i << ": " << values[i] << " " << expected[i]);
    CHECK((values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))));
  }
}

}  // namespace

TEST_CASE("clamp of integers keeps to the bounds given, within the dtype's range") {
  check_is(clamp(ints({-5, 0, 4}), 2, {}), kInt32, {2, 2, 4});
  check_is(clamp(ints({-5, 0, 4}), {}, 2), kInt32, {-5, 0, 2});
  check_is(clamp(ints({-5, 0, 4}), -(int64_t{1} << 40), int64_t{1} << 40), kInt32, {-5, 0, 4});
  check_is(clamp(bytes({1, 2, 200}), -3, 100), kUInt8, {1, 2, 100});
  check_is(clamp(bytes({1, 2, 200}), 0, 300), kUInt8, {1, 2, 200});
  check_is(clamp(bytes({1, 2, 200}), {}, 300), kUInt8, {1, 2, 200});
  check_is(clamp(bytes({1, 2, 200}), 2, {}), kUInt8, {2, 2, 200});
  const int64_t most = std::numeric_limits<int64_t>::max();
  CHECK(clamp(tensor({most, -most - 1}), {}, most).to_vector<int64_t>() ==
        Integers{most, -most - 1});
  check_is(clamp(tensor({true, false}), 0, 1), kInt64, {1, 0});
  check_is(clamp(tensor({true, false}), {}, false), kBool, {0, 0});
  check_is(clamp(tensor({5, 1}), 4, 2), kInt64, {2, 2});
  CHECK_THROWS_WITH(clamp(bytes({1}), 300, {}), ContainsSubstring("above all uint8"));
  CHECK_THROWS_WITH(clamp(bytes({1}), {}, -1), ContainsSubstring("below all uint8"));
  CHECK_THROWS_WITH(clamp(ints({1}), int64_t{1} << 40, {}), ContainsSubstring("above all int32"));
}

TEST_CASE("floating bounds make integers float32, and a bound of NaN gives NaN") {
  check_is(clamp(tensor({1, 2}), kInf, {}), kFloat32, {kInf, kInf});
  check_is(clamp(tensor({1, 2}), {}, -kInf), kFloat32, {-kInf, -kInf});
  check_is(clamp(tensor({1, 2}), 0.5, 1), kFloat32, {1, 1});
  check_is(clamp(bytes({1, 2}), 1.5, {}), kFloat32, {1.5, 2});
  check_is(clamp(tensor({true, false}), 0.5, {}), kFloat32, {1, 0.5});
  check_is(clamp(tensor({1, 2}), kNan, {}), kFloat32, {kNan, kNan});
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({1.0, kNan}, {.dtype = dtype});
    check_is(clamp(x, kNan, 1), dtype, {kNan, kNan});
    check_is(clamp(x, 0, kNan), dtype, {kNan, kNan});
    check_is(clamp(x, {}, kNan), dtype, {kNan, kNan});
    check_is(clamp(x, 0, 0.5), dtype, {0.5, kNan});
  }
  CHECK(std::signbit(clamp(tensor({-0.0}), 0.0, 1.0).item()));
}

TEST_CASE("clamp_ bounds as clamp does and keeps the dtype") {
  const Tensor x = bytes({1, 2, 200});
  check_is(x.clamp_(-3, 100), kUInt8, {1, 2, 100});
  CHECK_THROWS_WITH(x.clamp_(0.5, 100), ContainsSubstring("cannot be stored in uint8"));
  CHECK_THROWS_WITH(x.clamp_(300, 400), ContainsSubstring("above all uint8"));
  check_is(tensor({1.0, 2.0}).clamp_(kNan, 5), kFloat32, {kNan, kNan});
  const Tensor leaf = tensor({1.0, 2.0, 3.0}, {.requires_grad = true}), y = leaf * 1.0;
  y.clamp_(2.0, kNan);
  CHECK(std::isnan(y.to_vector<double>()[0]));
  sum(y).backward();
  CHECK(leaf.grad().to_vector<double>() == Values{0, 0, 0});
}

TEST_CASE("remainder is exact for large quotients and right for infinite divisors") {
  check_is(remainder(tensor({1e8, 5.0, -5.0}), 3), kFloat32, {1, 2, 1});
  const auto wide = [](std::initializer_list<double> v) { return tensor(v, {.dtype = kFloat64}); };
  check_is(remainder(wide({1e17, -1e17, 1e300}), 3), kFloat64, {1, 2, std::fmod(1e300, 3.0)});
  check_is(remainder(tensor({1.0}), tensor({0.1})), kFloat32, {std::fmod(1.0f, 0.1f)});
  check_is(remainder(wide({5, -5, 0, kInf, kNan}), kInf), kFloat64, {5, kInf, 0, kNan, kNan});
  check_is(remainder(wide({5, -5, 0, kInf, kNan}), -kInf), kFloat64, {-kInf, -5, 0, kNan, kNan});
  check_is(remainder(wide({5, -5, 0}), 0.0), kFloat64, {kNan, kNan, kNan});
  const Values zeros = remainder(wide({6, -6, 0, -0.0}), -3.0).to_vector<double>();
  CHECK(std::vector<bool>{std::signbit(zeros[0]), std::signbit(zeros[1]), std::signbit(zeros[2]),
                          std::signbit(zeros[3])} == Bools{false, true, false, true});
  check_is(remainder(tensor({7, -7}), tensor({-3, 3})), kInt64, {-2, 2});
  check_is(remainder(tensor({std::numeric_limits<int64_t>::min()}), -1), kInt64, {0});
  check_is(remainder(bytes({5, 6}), 300), kUInt8, {5, 6});
}

TEST_CASE("remainder's gradient by the divisor is the whole quotient, infinite divisors included") {
  const Tensor a = tensor({1e8, 5.0, -5.0, -5.0}, {.dtype = kFloat64});
  const Tensor b = tensor({3.0, kInf, kInf, 3.0}, {.dtype = kFloat64, .requires_grad = true});
  sum(remainder(a, b)).backward();
  CHECK(b.grad().to_vector<double>() == Values{-33333333, 0, 1, 2});
}

TEST_CASE("powers of integers are integers") {
  check_is(pow(tensor({3, 5}), tensor({20, 3})), kInt64, {3486784401.0, 125});
  check_is(pow(ints({3, 5}), tensor({20, 3})), kInt64, {3486784401.0, 125});
  check_is(pow(ints({3, 5}), tensor(40)), kInt32, {689956897, -1413876383});
  check_is(pow(bytes({2, 3}), bytes({9, 2})), kUInt8, {0, 9});
  check_is(pow(tensor({1, -1, 2, 0, -1}), tensor({-1, -3, -1, -1, -2})), kInt64, {1, -1, 0, 0, 1});
  check_is(pow(2, tensor({3, 10, -10, 0})), kInt64, {8, 1024, 0, 1});
  check_is(pow(2, tensor({true, false})), kInt64, {2, 1});
  check_is(pow(2.5, tensor({3})), kFloat32, {15.625});
  check_is(pow(tensor({true, false}), 2), kInt64, {1, 0});
  check_is(pow(tensor({true, false}), true), kBool, {1, 0});
  check_is(pow(tensor({true, false}), tensor({2, 0})), kInt64, {1, 1});
  check_is(pow(tensor({2, 3}), 2.0), kFloat32, {4, 9});
  check_is(pow(ints({3}), tensor(2.0)), kFloat32, {9});
  check_is(pow(tensor(2.0), ints({3})), kFloat32, {8});
  check_is(pow(tensor({0, 0}), tensor({0, 1})), kInt64, {1, 0});
  check_is(square(tensor({true, false})), kInt64, {1, 0});
  check_is(square(bytes({20})), kUInt8, {144});
  // Beyond what floats count exactly.
  const int64_t big = 3037000499;
  CHECK(pow(tensor({big}), tensor({2})).item<int64_t>() == big * big);
  CHECK(pow(tensor({-3}), tensor({39})).item<int64_t>() == -4052555153018976267);
  CHECK_THROWS_WITH(pow(tensor({2, 3}), -1), ContainsSubstring("to the negative power -1"));
  CHECK_THROWS_WITH(pow(tensor({true}), -1), ContainsSubstring("to the negative power -1"));
}

TEST_CASE("masked_fill keeps the dtype and takes what fits it") {
  const Tensor mask = tensor({true, false});
  check_is(masked_fill(tensor({true, false}), mask, 0), kBool, {0, 0});
  check_is(masked_fill(tensor({false, false}), mask, 2.5), kBool, {1, 0});
  check_is(masked_fill(tensor({1, 2}), mask, -2.7), kInt64, {-2, 2});
  check_is(masked_fill(bytes({1, 2}), mask, -1), kUInt8, {255, 2});
  check_is(masked_fill(tensor({1.0, 2.0}, {.dtype = kFloat16}), mask, -kInf), kFloat16, {-kInf, 2});
  check_is(masked_fill(tensor(1.0), mask, 2), kFloat32, {2, 1});
  check_is(masked_fill(tensor({1, 2}), mask, tensor(1.5)), kInt64, {1, 2});
  check_is(masked_fill(tensor({1.0, 2.0}), mask, tensor(1.5, {.dtype = kFloat64})), kFloat32,
           {1.5, 2});
  for (const double value : {kNan, kInf, 1e30}) {
    CHECK_THROWS_WITH(masked_fill(tensor({1, 2}), mask, value), ContainsSubstring("fit int64"));
  }
  CHECK_THROWS_WITH(masked_fill(bytes({1, 2}), mask, 300), ContainsSubstring("fit uint8"));
  CHECK_THROWS_WITH(masked_fill(tensor({1.0, 2.0}, {.dtype = kFloat16}), mask, 1e10),
                    ContainsSubstring("fit float16"));
  CHECK_THROWS_WITH(masked_fill(tensor({1, 2}), mask, tensor({1})),
                    ContainsSubstring("has shape [1]"));
}

TEST_CASE("the tensor that masked_fill takes gets the gradient of what it filled, in its dtype") {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = tensor({-1.0, 0.0, 1.0, 2.0}, {.requires_grad = true});
    const Tensor value = tensor(0.5, {.dtype = dtype, .requires_grad = true});
    sum(masked_fill(x, tensor({true, false, true, true}), value)).backward();
    CHECK(x.grad().to_vector<double>() == Values{0, 1, 0, 0});
    check_is(value.grad(), dtype, {3});
  }
}

TEST_CASE("numbers that a dtype does not hold are refused, not wrapped") {
  CHECK_THROWS_WITH(full({2}, 300, {.dtype = kUInt8}), ContainsSubstring("300 does not fit uint8"));
  CHECK_THROWS_WITH(full({2}, 1e300), ContainsSubstring("does not fit float32"));
  CHECK_THROWS_WITH(full({2}, 65510.0, {.dtype = kFloat16}), ContainsSubstring("fit float16"));
  CHECK_THROWS_WITH(full_like(ints({1}), int64_t{1} << 31), ContainsSubstring("fit int32"));
  CHECK_THROWS_WITH(tensor(kNan, {.dtype = kInt64}), ContainsSubstring("does not fit int64"));
  CHECK_THROWS_WITH(tensor({1, 300}, {.dtype = kUInt8}), ContainsSubstring("300 does not fit"));
  CHECK_THROWS_WITH(bytes({1}).fill_(300), ContainsSubstring("fill_: 300 does not fit uint8"));
  CHECK_THROWS_WITH(tensor({1}).fill_(kNan), ContainsSubstring("does not fit int64"));
  CHECK_THROWS_WITH(where(tensor({true}), bytes({1}), 300), ContainsSubstring("fit uint8"));
  CHECK_THROWS_WITH(where(tensor({true}), -256, bytes({1})), ContainsSubstring("fit uint8"));
  CHECK_THROWS_WITH(pad(bytes({1}), {1, 1}, PadMode::constant, 300), ContainsSubstring("uint8"));
  CHECK_THROWS_WITH(scatter(bytes({1}), 0, tensor({0}), 300), ContainsSubstring("scatter: 300"));
  check_is(full({2}, -5, {.dtype = kUInt8}), kUInt8, {251, 251});
  check_is(full({2}, 2.7, {.dtype = kInt64}), kInt64, {2, 2});
  check_is(full({2}, kInf, {.dtype = kFloat16}), kFloat16, {kInf, kInf});
  check_is(tensor({1}).fill_(2.7), kInt64, {2});
}

TEST_CASE("a number in front of a tensor or beside one has all its digits") {
  const Tensor x = tensor({0.03, 7.0}, {.dtype = kFloat64});
  check_is(remainder(0.1, x), kFloat64, {std::fmod(0.1, 0.03), 0.1});
  check_is(300 % bytes({7, 200}), kUInt8, {2, 44});
  check_is(remainder(0.5, tensor({1, 2})), kFloat32, {0.5, 0.5});
  check_is(copysign(ints({1, -2}), -1e300), kFloat32, {-1, -2});
  check_is(xlogy(tensor({0.0, 1.0}), 1e300), kFloat32, {0, kInf});
  check_is(searchsorted(tensor({1, 2, 3}), 2.5), kInt64, {2});
  check_is(searchsorted(bytes({1, 2, 3}), -1), kInt64, {0});
  check_is(searchsorted(bytes({1, 2, 3}), 300), kInt64, {3});
}

TEST_CASE("clamp refuses a bound of floats that would make all of them infinite") {
  const Tensor x = tensor({-1.0, 2.0}, {.dtype = kFloat16});
  CHECK_THROWS_WITH(clamp(x, 1e5, {}), ContainsSubstring("lower bound 100000 is above all"));
  CHECK_THROWS_WITH(x.clone().clamp_({}, -1e5), ContainsSubstring("is below all float16"));
  check_is(clamp(x, -1e5, 1e5), kFloat16, {-1, 2});
  check_is(clamp(x, {}, -kInf), kFloat16, {-kInf, -kInf});
}

TEST_CASE("a number alone makes a tensor of its kind") {
  check_is(tensor(3), kInt64, {3});
  check_is(tensor(int64_t{1} << 62), kInt64, {0x1p62});
  check_is(tensor(true), kBool, {1});
  check_is(tensor(3.0), kFloat32, {3});
  check_is(tensor(3.0f), kFloat32, {3});
  check_is(tensor(3, {.dtype = kFloat64}), kFloat64, {3});
  check_is(tensor({1, 2}) * tensor(2), kInt64, {2, 4});
  CHECK(tensor(3).ndim() == 0);
  CHECK_THROWS_WITH(tensor(3, {.requires_grad = true}), ContainsSubstring("floating"));
  check_is(full({2}, 9), kInt64, {9, 9});
  check_is(full({2}, true), kBool, {1, 1});
  check_is(full({2}, 9.0), kFloat32, {9, 9});
  check_is(full({2}, 9, {.dtype = kBool}), kBool, {1, 1});
  check_is(zeros({1}), kFloat32, {0});
  check_is(ones({1}), kFloat32, {1});
}

TEST_CASE("vectors and rows of every kind make tensors") {
  check_is(tensor(std::vector<double>{0.1}), kFloat32, {static_cast<double>(0.1f)});
  check_is(tensor(std::vector<double>{0.1}, {.dtype = kFloat64}), kFloat64, {0.1});
  check_is(tensor(std::vector<float>{0.5f}), kFloat32, {0.5});
  check_is(tensor(std::vector<int>{1, 2}), kInt64, {1, 2});
  check_is(tensor(std::vector<int64_t>{1, 2}), kInt64, {1, 2});
  check_is(tensor(std::vector<bool>{true, false}), kBool, {1, 0});
  check_is(tensor({{true, false}, {false, true}}), kBool, {1, 0, 0, 1});
  check_is(tensor({{int64_t{1}, int64_t{2}}}), kInt64, {1, 2});
  CHECK(tensor({{true, false}, {false, true}}).shape() == Shape{2, 2});
  check_is(tensor({true, false}, {.dtype = kFloat32}), kFloat32, {1, 0});
}

TEST_CASE("sums of products, bounds and thresholds of integers are integers") {
  check_is(addcmul(tensor({1}), tensor({2}), tensor({3})), kInt64, {7});
  check_is(addcmul(tensor({1}), tensor({2}), tensor({3}), 2), kInt64, {13});
  check_is(addcmul(tensor({1}), tensor({2}), tensor({3}), 1.5), kInt64, {7});
  check_is(addcmul(ints({1}), ints({2}), ints({3}), 2.0), kInt32, {13});
  check_is(addcmul(tensor({1.0}), tensor({2}), tensor({3}), 1.5), kFloat32, {10});
  check_is(hardtanh(tensor({-5, 0, 5})), kInt64, {-1, 0, 1});
  check_is(hardtanh(tensor({-5, 0, 5}), -2.7, 2.7), kInt64, {-2, 0, 2});
  check_is(hardtanh(bytes({5}), -1, 3), kUInt8, {3});
  check_is(threshold(tensor({-5, 0, 5}), 1, 7), kInt64, {7, 7, 5});
  check_is(threshold(tensor({-5, 0, 5}), 0.5, 1.5), kInt64, {1, 1, 5});
  check_is(threshold(tensor({-5, 0, 5}), -0.5, -1.5), kInt64, {-1, -1, 5});
  check_is(relu6(tensor({-5, 0, 9})), kInt64, {0, 0, 6});
  check_is(relu6(bytes({9})), kUInt8, {6});
}

TEST_CASE("addcdiv divides in the widest of its dtypes and rounds once") {
  const Tensor half2 = tensor({2.0}, {.dtype = kFloat16}),
               half3 = tensor({3.0}, {.dtype = kFloat16});
  check_is(addcdiv(tensor({1.0}), half2, half3), kFloat32,
           {static_cast<double>(1.0f + 2.0f / 3.0f)});
  check_is(addcdiv(tensor({1.0}, {.dtype = kBFloat16}), half2, half3), kFloat32,
           {static_cast<double>(1.0f + 2.0f / 3.0f)});
  const auto once = static_cast<double>(static_cast<float>(Float16(1.0f + 2.0f / 3.0f)));
  check_is(addcdiv(tensor({1.0}, {.dtype = kFloat16}), half2, tensor(3.0)), kFloat16, {once});
  const Tensor a = tensor({2.0}, {.dtype = kFloat16, .requires_grad = true});
  sum(addcdiv(tensor({1.0}), a, half3)).backward();
  CHECK(a.grad().dtype() == kFloat16);
}

TEST_CASE("any and all of bytes are bytes; sum_to adds integers up in int64") {
  check_is(any(bytes({5, 2})), kUInt8, {1});
  check_is(all(bytes({1, 0})), kUInt8, {0});
  check_is(all(tensor({{5, 2}}, {.dtype = kUInt8}), {1}), kUInt8, {1});
  check_is(any(tensor({5, 2})), kBool, {1});
  check_is(all(tensor({true, false})), kBool, {0});
  check_is(sum_to(ones({3}, {.dtype = kInt32}), {1}), kInt64, {3});
  check_is(sum_to(ones({2, 3}, {.dtype = kInt32}), {3}), kInt64, {2, 2, 2});
  check_is(sum_to(ones({3}, {.dtype = kBool}), {1}), kInt64, {3});
  check_is(sum_to(ones({3}, {.dtype = kInt32}), {3}), kInt32, {1, 1, 1});
  CHECK_THROWS_WITH(sum_to(ones({3}), {-1}), ContainsSubstring("does not broadcast"));
  CHECK_THROWS_WITH(sum_to(ones({4}), {2}), ContainsSubstring("does not broadcast"));
  CHECK_THROWS_WITH(sum_to(ones({}), {1}), ContainsSubstring("does not broadcast"));
}

TEST_CASE("arange and linspace of integers lose fractions where PyTorch does") {
  check_is(arange(1, 2.5, 0.5, {.dtype = kInt64}), kInt64, {1, 1, 1});
  check_is(arange(1.7, 5.2, 1.5, {.dtype = kInt64}), kInt64, {1, 2, 3});
  check_is(arange(5, 0, -1.5, {.dtype = kInt64}), kInt64, {5, 4, 3, 2});
  check_is(arange(0, 2, 0.5, {.dtype = kInt32}), kInt32, {0, 0, 0, 0});
  check_is(arange(0.5, 3, 1, {.dtype = kUInt8}), kUInt8, {0, 1, 2});
  check_is(arange(2.5, {.dtype = kInt64}), kInt64, {0, 1, 2});
  check_is(arange(0, 1.5, 0.5, {.dtype = kBFloat16}), kBFloat16, {0, 0.5, 1});
  const Integers cut = linspace(4.3, 0, 50, {.dtype = kInt64}).to_vector<int64_t>();
  CHECK(Integers(cut.begin(), cut.begin() + 14) ==
        Integers{4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2});
  check_is(linspace(0.5, 10.9, 4, {.dtype = kInt64}), kInt64, {0, 3, 6, 10});
  check_is(linspace(-5, 5, 7, {.dtype = kInt32}), kInt32, {-5, -3, -1, 0, 1, 3, 5});
  check_is(linspace(5, 0, 7, {.dtype = kUInt8}), kUInt8, {5, 4, 3, 2, 1, 0, 0});
  check_is(linspace(0.9, 10, 1, {.dtype = kInt64}), kInt64, {0});
  CHECK_THROWS_WITH(linspace(0, 300, 3, {.dtype = kUInt8}), ContainsSubstring("fit uint8"));
  CHECK_THROWS_WITH(arange(1e30, 2e30, 1e29, {.dtype = kInt64}), ContainsSubstring("fit int64"));
}
