// What is written by indices where nothing is recorded takes no second copy of the tensor.
#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"

#include <hero/autograd/ops.h>
#include <hero/core/ledger.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

struct Written {
  std::string name;
  std::function<void(const Tensor& x)> in_place;
  std::function<Tensor(const Tensor& x)> copy;
};

Tensor numbers(const Shape& shape, DType dtype) { return (rand(shape) * 9.0).to(dtype); }

// x is [kRows, kColumns].
constexpr int64_t kRows = 4096, kColumns = 256;

std::vector<Written> all_writes(DType dtype) {
  const Tensor rows = tensor({7, 0, 4095, 7}), values = numbers({4, kColumns}, dtype);
  const Tensor ids = tensor({{3, 1, 3, 0, 255}, {0, 0, 0, 9, 0}}), few = numbers({2, 5}, dtype);
  const Tensor tall = tensor({{5, 4000}, {5, 1}, {2, 1}}), high = numbers({3, 2}, dtype);
  const Tensor mask = rand({kRows, kColumns}) < 0.001, many = numbers({40000}, dtype);
  const Tensor number = values({0, 0});
  std::vector<Written> list;
#define HERO_WRITTEN(function, ...)                                               \
  list.push_back({#function, [=](const Tensor& x) { x.function##_ __VA_ARGS__; }, \
                  [=](const Tensor& x) { return x.function __VA_ARGS__; }})
  HERO_WRITTEN(index_fill, (0, rows, 3));
  HERO_WRITTEN(index_fill, (1, tensor({2, -1}), 3));
  HERO_WRITTEN(index_fill, (0, rows, number));
  HERO_WRITTEN(index_copy, (0, rows, values));
  HERO_WRITTEN(index_add, (0, rows, values, 2.0));
  HERO_WRITTEN(index_put, ({rows}, values));
  HERO_WRITTEN(index_put, ({rows}, values, true));
  HERO_WRITTEN(index_put, (std::vector<Tensor>{rows, tensor({1, 2, 3, 1})}, number, true));
  HERO_WRITTEN(scatter, (1, ids, few));
  HERO_WRITTEN(scatter, (1, ids, 3));
  HERO_WRITTEN(scatter, (0, tall, 3, ScatterReduce::sum));
  HERO_WRITTEN(scatter_add, (1, ids, few));
  HERO_WRITTEN(scatter_add, (0, tall, high));
  HERO_WRITTEN(masked_fill, (mask, number));
  HERO_WRITTEN(masked_scatter, (mask, many));
  HERO_WRITTEN(put, (tensor({5, -1, 5}), values.slice(1, 0, 3)[0], true));
  HERO_WRITTEN(put, (tensor({5, -1, 5}), values.slice(1, 0, 3)[0], false));
  for (const bool self : {true, false}) {
    for (const ScatterReduce reduce :
         {ScatterReduce::sum, ScatterReduce::amax, ScatterReduce::amin, ScatterReduce::prod}) {
      if (reduce == ScatterReduce::prod && is_half(dtype)) continue;  // goes through float32
      HERO_WRITTEN(scatter_reduce, (0, tall, high, reduce, self));
      HERO_WRITTEN(scatter_reduce, (1, ids, few, reduce, self));
    }
  }
#undef HERO_WRITTEN
  return list;
}

}  // namespace

TEST_CASE("writing by indices in place takes memory of the size of the index") {
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kInt64, kUInt8}) {
    const Tensor given = numbers({kRows, kColumns}, dtype);
    for (const Written& write : all_writes(dtype)) {
      CAPTURE(dtype, write.name);
      const Tensor expected = write.copy(given), x = given.clone();
      Ledger ledger;
      {
        const LedgerScope scope(ledger);
        write.in_place(x);
      }
      CHECK(ledger.peak() <= 64 << 10);  // x has 1 to 8 MiB
      CHECK(equal(x, expected));
    }
  }
}

TEST_CASE("tensors of any layout are written to by indices in place") {
  for (const DType dtype : {kFloat32, kFloat16, kInt64}) {
    for (const Written& write : all_writes(dtype)) {
      CAPTURE(dtype, write.name);
      const Tensor turned = numbers({kColumns, kRows}, dtype).t();
      const Tensor part = numbers({kRows, 2 * kColumns}, dtype).slice(1, 0, 2 * kColumns, 2);
      for (const Tensor& x : {turned, part}) {
        const Tensor expected = write.copy(x.clone());
        write.in_place(x);
        CHECK(equal(x, expected));
      }
      const Tensor one_row = numbers({1, kColumns}, dtype).expand({kRows, kColumns});
      CHECK_THROWS_WITH(write.in_place(one_row), ContainsSubstring("lie in one place"));
    }
  }
  // Sources and indices in the memory that is written to are read first.
  const Tensor x = tensor({1, 2, 3, 0});
  CHECK(equal(x.clone().scatter_(0, tensor({1, 2, 3, 0}), x), tensor({0, 1, 2, 3})));
  Tensor y = x.clone();
  y.scatter_(0, y, y);
  CHECK(equal(y, scatter(x, 0, x, x)));
  y = x.clone();
  y.slice(0, 1).index_copy_(0, tensor({0, 1, 2}), y.slice(0, 0, 3));
  CHECK(equal(y, tensor({1, 1, 2, 3})));
  y = x.clone();
  y.masked_scatter_(tensor({true, false, true, true}), y.slice(0, 1));
  CHECK(equal(y, tensor({2, 2, 3, 0})));
  for (const auto reduce : {ScatterReduce::sum, ScatterReduce::mean, ScatterReduce::prod,
                            ScatterReduce::amax, ScatterReduce::amin}) {
    for (const bool self : {true, false}) {
      const Tensor index = tensor({1, 2, 3, 0}), part = tensor({2, 0, 3});
      CAPTURE(static_cast<int>(reduce), self);
      y = x.clone();
      CHECK(equal(y.scatter_reduce_(0, index, y, reduce, self),
                  scatter_reduce(x, 0, index, x, reduce, self)));
      y = x.clone();
      CHECK(equal(y.scatter_reduce_(0, part, y.slice(0, 1), reduce, self),
                  scatter_reduce(x, 0, part, x.slice(0, 1), reduce, self)));
      y = x.clone();
      CHECK(equal(y.scatter_reduce_(0, y, index, reduce, self),
                  scatter_reduce(x, 0, x, index, reduce, self)));
    }
  }
  // Numbers.
  const Tensor number = tensor(5.0);
  number.index_fill_(0, tensor({0}), 2);
  CHECK(number.item() == 2.0);
  number.index_copy_(0, tensor({0}), tensor({4.0}));
  CHECK(number.item() == 4.0);
  number.scatter_(0, tensor(0), tensor(3.0));
  CHECK(number.item() == 3.0);
  number.put_(tensor({0, 0}), tensor({3.0, 4.0}), true);
  CHECK(number.item() == 10.0);
}

TEST_CASE("what cannot be written by indices leaves the tensor as it was") {
  const Tensor x = numbers({4, 6}, kFloat32), before = x.clone();
  const Tensor ids = tensor({{0, 1, 9}}), fits = tensor({{0, 1, 3}}), src = ones({1, 3});
  CHECK_THROWS_WITH(x.scatter_(0, ids, src), ContainsSubstring("index 9"));
  CHECK_THROWS_WITH(x.scatter_add_(0, ids, src), ContainsSubstring("index 9"));
  CHECK_THROWS_WITH(x.index_fill_(0, tensor({1, 4}), 1), ContainsSubstring("index 4"));
  CHECK_THROWS_WITH(x.index_copy_(0, tensor({1, 4}), ones({2, 6})), ContainsSubstring("index 4"));
  CHECK_THROWS_WITH(x.index_add_(0, tensor({1, 4}), ones({2, 6})), ContainsSubstring("index 4"));
  CHECK_THROWS_WITH(x.index_put_({tensor({1, 4})}, ones({2, 6})), ContainsSubstring("index 4"));
  CHECK_THROWS_WITH(x.put_(tensor({1, 24}), ones({2})), ContainsSubstring("index 24"));
  CHECK_THROWS_WITH(x.masked_scatter_(x >= 0, ones({3})), ContainsSubstring("3 elements for 24"));
  for (const bool self : {true, false}) {
    const auto reduce = ScatterReduce::amax;
    CHECK_THROWS_WITH(x.scatter_reduce_(0, ids, src, reduce, self), ContainsSubstring("index 9"));
    CHECK_THROWS_WITH(x.scatter_reduce_(0, fits, ones({1, 2}), reduce, self),
                      ContainsSubstring("larger than the source"));
    CHECK_THROWS_WITH(x.scatter_reduce_(0, fits, ones({1, 3}, kFloat64), reduce, self),
                      ContainsSubstring("src is float64"));
  }
  CHECK(equal(x, before));
}

TEST_CASE("halves that few places of a large tensor get are added up in float32") {
  // In float16, 2048 + 1 is 2048; 2048 + 3 is 2052, and in float32 2051, which rounds to 2052.
  for (const int64_t size : {8, 4096}) {
    const Tensor x = zeros({size}, kFloat16);
    x[3].fill_(2048);
    x.scatter_add_(0, tensor({3, 3, 5, 3}), ones({4}, kFloat16));
    CHECK(x[3].item() == 2052.0);
    CHECK(x[5].item() == 1.0);
    const Tensor y = zeros({3, size}, kBFloat16);
    y.select(1, 2).fill_(256);
    y.index_add_(1, tensor({2, 2, 2}), ones({3, 3}, kBFloat16), 1.0);
    CHECK(equal(y.select(1, 2), full({3}, 260.0, {.dtype = kBFloat16})));  // 259 in float32
  }
}
