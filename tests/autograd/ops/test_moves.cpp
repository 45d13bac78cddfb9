// flip, roll and pad against the position that each element of the result is read from.
#include <algorithm>
#include <functional>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

namespace {

using namespace hero;
using namespace hero::test;

// Position -> position in one dimension; -1 where there is no element.
using From = std::function<int64_t(int64_t)>;

// Neighbours differ, whatever the dtype.
Array values_of(const Shape& shape, DType dtype) {
  const int64_t most = dtype == kBool ? 2 : 251;
  return make(
      shape, [=](int64_t i) { return static_cast<double>(i * 37 / 5 % most); }, dtype);
}

// The elements of x that stand where `from` says, dimension by dimension.
Array read(const Array& x, const Shape& shape, const std::vector<From>& from) {
  return make(
      shape,
      [&](int64_t at) {
        Dims position = Dims::filled(shape.size(), 0);
        for (int d = shape.size() - 1; d >= 0; --d) {
          position[d] = from[static_cast<size_t>(d)](at % shape[d]);
          at /= shape[d];
        }
        Array one = x;
        for (int64_t place : position) one = one.select(0, place);
        return one.item();
      },
      x.dtype());
}

// A tensor of the values over memory with gaps if `gaps`.
Tensor tensor_of(const Array& x, bool gaps) { return Tensor(gaps ? awkward(x) : x); }

void check_move(const Array& x, const Shape& shape, const std::vector<From>& from,
                const std::function<Tensor(const Tensor&)>& f) {
  for (const bool gaps : {false, true}) {
    const Tensor result = f(tensor_of(x, gaps));
    INFO(x.dtype() << " " << x.shape() << " gaps " << gaps);
    CHECK(same(result.array(), read(x, shape, from)));
    CHECK(result.array().storage_ref() != x.storage_ref());
  }
}

const Shape kShapes[] = {{4, 3, 5}, {1, 7, 2}, {2, 33, 40}};
const DType kTypes[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

TEST_CASE("flip and roll read the right elements of every dtype and layout") {
  for (const DType dtype : kTypes) {
    for (const Shape& shape : kShapes) {
      const Array x = values_of(shape, dtype);
      const auto same_place = [](int64_t at) { return at; };
      const auto turned = [&](int d) { return [=](int64_t at) { return shape[d] - 1 - at; }; };
      const auto rolled = [&](int d, int64_t by) {
        return [=](int64_t at) { return ((at - by) % shape[d] + shape[d]) % shape[d]; };
      };
      check_move(x, shape, {same_place, same_place, turned(2)},
                 [](const Tensor& t) { return flip(t, {2}); });
      check_move(x, shape, {turned(0), turned(1), turned(2)}, [](const Tensor& t) {
        return flip(t, {0, 1, -1});
      });
      check_move(x, shape, {rolled(0, 1), same_place, rolled(2, -4)}, [](const Tensor& t) {
        return roll(t, {1, -4}, {0, 2});
      });
      check_move(x, shape, {same_place, rolled(1, 7), same_place}, [](const Tensor& t) {
        return roll(t, {2, 5}, {1, 1});
      });
      check_move(x, shape, {same_place, same_place, same_place},
                 [](const Tensor& t) { return roll(t, {0}, {1}); });
    }
  }
}

TEST_CASE("pad continues the elements in every mode, and cuts") {
  for (const DType dtype : kTypes) {
    const Shape shape{3, 4, 6};
    const Array x = values_of(shape, dtype);
    const auto same_place = [](int64_t at) { return at; };
    const auto frame = [&](int d, int64_t before, PadMode mode) -> From {
      const int64_t size = shape[d];
      return [=](int64_t at) {
        const int64_t from = at - before;
        if (mode == PadMode::replicate) return std::clamp<int64_t>(from, 0, size - 1);
        if (mode == PadMode::circular) return (from + size) % size;
        return from < 0 ? -from : from < size ? from : 2 * (size - 1) - from;
      };
    };
    for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
      check_move(x, {3, 4 + 3, 6 + 5}, {same_place, frame(1, 1, mode), frame(2, 3, mode)},
                 [=](const Tensor& t) {
                   return pad(t, {3, 2, 1, 2}, mode);
                 });
      check_move(x, {3, 4, 6 + 4}, {same_place, same_place, frame(2, 0, mode)},
                 [=](const Tensor& t) {
                   return pad(t, {0, 4, 0, 0}, mode);
                 });
      if (mode == PadMode::circular) continue;  // what is cut off does not repeat
      check_move(x, {3, 4 + 1, 6 - 4}, {same_place, frame(1, -2, mode), frame(2, 1, mode)},
                 [=](const Tensor& t) {
                   return pad(t, {1, -5, -2, 3}, mode);
                 });
      check_move(x, {3, 4, 6 - 3}, {same_place, same_place, frame(2, -2, mode)},
                 [=](const Tensor& t) {
                   return pad(t, {-2, -1}, mode);
                 });
    }
  }
}

// Written part by part.
TEST_CASE("pad frames large tensors as small ones") {
  const Tensor x = Tensor(noise({3, 4, 150, 200}));
  const auto of = [&](const Tensor& t, PadMode mode) { return pad(t, {1, 2, 2, 1}, mode, 3.0); };
  for (const PadMode mode :
       {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    const Tensor result = of(x, mode);
    for (int64_t n = 0; n < 3; ++n) {
      for (int64_t c = 0; c < 4; ++c) {
        CHECK(same(result.array().select(0, n).select(0, c),
                   of(Tensor(x.array().select(0, n).select(0, c).contiguous()), mode).array()));
      }
    }
  }
}

TEST_CASE("flip, roll and pad have right gradients of both orders") {
  const auto input = [] { return tensor_of(noise({2, 4, 5}, kFloat64), true); };
  const auto checked = [&](const std::function<Tensor(const Tensor&)>& f) {
    const auto g = [&](const std::vector<Tensor>& in) { return f(in[0]) * f(in[0]); };
    const Tensor x(input().array(), true);
    CHECK(gradcheck(g, {x}));
    CHECK(gradgradcheck(g, {x}));
  };
  checked([](const Tensor& x) { return flip(x, {0, 2}); });
  checked([](const Tensor& x) { return roll(x, {1, -2}, {0, 2}); });
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    checked([=](const Tensor& x) { return pad(x, {3, 2, 1, 2}, mode); });
    checked([=](const Tensor& x) { return pad(x, {1, -2, -1, 2}, mode); });
  }
}

}  // namespace
