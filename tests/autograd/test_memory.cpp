#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;

namespace {

// The most bytes an operation holds beyond its operands, measured by the ledger.
template <class F>
int64_t extra_bytes(Ledger& ledger, F&& call) {
  const int64_t before = ledger.live();
  ledger.reset_peak();
  const auto result = call();
  return ledger.peak() - before;
}

}  // namespace

TEST_CASE("an operation allocates its result and no more") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const NoGrad no_grad;
  const Tensor x = rand({64, 1000}), y = rand({64, 1000}), row = rand({1000});
  const Tensor w = rand({1000, 32});
  const int64_t same = x.array().nbytes();
  const auto extra = [&](auto&& call) { return extra_bytes(ledger, call); };

  CHECK(extra([&] { return x + y; }) == same);
  CHECK(extra([&] { return x * 2.0; }) == same);
  CHECK(extra([&] { return x + row; }) == same);
  CHECK(extra([&] { return x.t() * 3.0; }) == same);
  CHECK(extra([&] { return x + x.to(kFloat32); }) == same);
  CHECK(extra([&] { return exp(x); }) == same);
  CHECK(extra([&] { return gelu(x); }) == same);
  CHECK(extra([&] { return clamp(x, 0.2, 0.8); }) == same);
  CHECK(extra([&] { return addcmul(x, x, y, 0.5); }) == same);
  CHECK(extra([&] { return softmax(x, 1); }) == same);
  CHECK(extra([&] { return log_softmax(x, 0); }) == same);
  CHECK(extra([&] { return cumsum(x, 1); }) == same);
  CHECK(extra([&] { return cat({x, y}, 1); }) == 2 * same);
  CHECK(extra([&] { return x.t().contiguous(); }) == same);
  CHECK(extra([&] { return x > 0.5; }) == x.numel());
  CHECK(extra([&] { return matmul(x, w); }) == 64 * 32 * 4);
  CHECK(extra([&] { return matmul(x.t(), y); }) == 1000 * 1000 * 4);
  CHECK(extra([&] { return x.reshape({1000, 64}); }) == 0);
  // Reductions hold their result, and a centre of the same size where they need one.
  CHECK(extra([&] { return sum(x, {1}); }) == 64 * 4);
  CHECK(extra([&] { return sum(x, {0}); }) == 1000 * 4);
  CHECK(extra([&] { return amax(x, {0}); }) == 1000 * 4);
  CHECK(extra([&] { return mean(x, {1}); }) <= 2 * 64 * 4);
  CHECK(extra([&] { return norm(x, 2.0, {1}); }) <= 2 * 64 * 4);
  CHECK(extra([&] { return var(x, {.dims = {1}}); }) <= 4 * 64 * 4);  // sum, mean, squares, result
  CHECK(extra([&] { return logsumexp(x, {1}); }) <= 4 * 64 * 4);
}

TEST_CASE("arithmetic between dtypes converts as it reads, without a copy") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const Tensor x = rand({1000}), h = rand({1000}).to(kBFloat16),
               n = ones({1000}, {.dtype = kInt32});
  CHECK(extra_bytes(ledger, [&] { return x * h; }) == 4000);
  CHECK(extra_bytes(ledger, [&] { return h * n; }) == 2000);
}

TEST_CASE("recording saves what backward needs and backward gives it back") {
  Ledger ledger;
  {
    const LedgerScope scope(ledger);
    const Tensor x = rand({1000}, {.requires_grad = true});
    const int64_t before = ledger.live();
    Tensor y = exp(x);  // saves its output, which y holds anyway
    CHECK(ledger.live() - before == 4000);
    y = y + 1.0;  // saves nothing; exp's output lives on in the graph
    CHECK(ledger.live() - before == 8000);
    y.sum().backward();
    CHECK(ledger.live() - before == 8000);  // y and the gradient
  }
  CHECK(ledger.live() == 0);
}

TEST_CASE("cross entropy of a product by chunks holds a twentieth of what all logits need") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  constexpr int64_t kRows = 2048, kClasses = 3000, kInputs = 8;
  const Tensor x = rand({kRows, kInputs}, {.requires_grad = true});
  const Tensor w = rand({kClasses, kInputs}, {.requires_grad = true});
  const Tensor target = remainder(arange(kRows) * 7, kClasses);
  const auto peak_of = [&](auto&& loss) {
    return extra_bytes(ledger, [&] { return grad({loss()}, {x, w}); });
  };
  const int64_t whole = peak_of([&] { return cross_entropy(linear(x, w), target); });
  const int64_t chunks =
      peak_of([&] { return linear_cross_entropy(x, w, target, {.batch_chunk_size = 64}); });
  CHECK(whole >= 2 * kRows * kClasses * 4);  // logits and their gradient
  CHECK(chunks * 20 <= whole);
}

TEST_CASE("cross entropy of a product with a frozen weight has smaller chunks and the same bits") {
  Ledger ledger;
  const LedgerScope scope(ledger);
  constexpr int64_t kRows = 600, kClasses = 60000, kInputs = 8;  // chunks of 279 rows
  const Tensor x = rand({kRows, kInputs}, {.requires_grad = true});
  const Tensor w = rand({kClasses, kInputs});
  const Tensor target = remainder(arange(kRows) * 77, kClasses);
  Tensor own, large;
  const int64_t chunks =
      extra_bytes(ledger, [&] { return own = grad({linear_cross_entropy(x, w, target)}, {x})[0]; });
  const int64_t whole = extra_bytes(ledger, [&] {
    return large = grad({linear_cross_entropy(x, w, target, {.batch_chunk_size = 1024})}, {x})[0];
  });
  CHECK(whole >= kRows * kClasses * 4);
  CHECK(chunks <= 280 * kClasses * 4 + 1000000);
  CHECK(equal(own, large));
}

TEST_CASE("memory of the program's own is used in place, until graphs that saved it are gone") {
  std::vector<float> memory = {1, 2, 3, 4};
  void* freed = nullptr;
  const auto note = [&freed](void* data) { freed = data; };
  Ledger ledger;
  const LedgerScope scope(ledger);
  Tensor w = tensor({1.0, 1.0}, {.requires_grad = true});
  Tensor loss;
  {
    const Tensor x = from_blob(memory.data(), {2, 2}, note);
    CHECK(ledger.live() == w.array().nbytes());
    x.mul_(10.0);
    loss = (x * w).sum();
  }
  CHECK(memory == std::vector<float>{10, 20, 30, 40});
  CHECK(freed == nullptr);
  loss.backward();
  loss = Tensor();
  CHECK(freed == memory.data());
  CHECK(equal(w.grad(), tensor({40.0, 60.0})));

  std::vector<int64_t> numbers = {5, 6};
  CHECK(equal(from_blob(numbers.data(), 2, {.dtype = kInt64}), tensor({5, 6})));
  CHECK(from_blob(nullptr, {0, 3}).numel() == 0);
  CHECK(from_blob(memory.data(), {4}, {.requires_grad = true}).requires_grad());
  using Catch::Matchers::Equals;
  CHECK_THROWS_WITH(from_blob(nullptr, {2, 3}),
                    Equals("from_blob: data is null, and shape [2, 3] has 6 elements"));
  CHECK_THROWS_WITH(from_blob(reinterpret_cast<char*>(memory.data()) + 1, {2}),
                    Equals("from_blob: data is not aligned for float32, whose elements take 4 "
                           "bytes; copy it to memory that is"));
  CHECK_THROWS_WITH(from_blob(memory.data(), {-1}), Catch::Matchers::StartsWith("from_blob:"));
  CHECK_THROWS_WITH(from_blob(numbers.data(), {2}, {.dtype = kInt64, .requires_grad = true}),
                    Catch::Matchers::StartsWith("from_blob: requires_grad"));
}
