#include <limits>
#include <string>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>
#include <hero/nn/container.h>
#include <hero/nn/linear.h>
#include <hero/nn/training/finite.h>

using Catch::Matchers::ContainsSubstring;
using hero::Tensor;
using hero::nn::finite_backward;
using hero::test::error_of;

TEST_CASE("a step whose numbers are finite is an ordinary step") {
  const Tensor w = hero::tensor({1.0, 2.0}, {.requires_grad = true});
  const Tensor loss = finite_backward(7, [&] { return sum(square(w)); }, {w});
  CHECK(loss.item() == 5.0);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2.0, 4.0});
}

TEST_CASE("the first operation that made a NaN is named, with the step and the module") {
  hero::nn::Sequential model{hero::nn::Linear(2, 3), hero::nn::Linear(3, 1)};
  const Tensor x = hero::ones({4, 2});
  const auto loss_of = [&] {
    const Tensor y = model(x);
    return mean(square(log(y - 1000.0) + 1.0));
  };
  const std::string error = error_of([&] { finite_backward(123, loss_of); });
  CHECK_THAT(error, ContainsSubstring("step 123: the loss is nan: "));
  CHECK_THAT(error, ContainsSubstring("log"));

  const hero::NoGrad no_grad;
  model.get_parameter("1.weight").fill_(std::numeric_limits<double>::quiet_NaN());
  CHECK_THAT(error_of([&] { finite_backward(124, loss_of); }), ContainsSubstring("1"));
}

TEST_CASE("a NaN that only backward makes is found in the gradients") {
  const Tensor w = hero::tensor({0.0, 4.0}, {.requires_grad = true});
  const auto loss_of = [&] { return sum(sqrt(w) * w); };  // 0 * infinity
  CHECK_THAT(error_of([&] { finite_backward(3, loss_of, {w}); }),
             ContainsSubstring("step 3: a gradient is not finite: ") && ContainsSubstring("sqrt"));
}

TEST_CASE("an infinite loss is named, and a mask of infinities is not blamed for a NaN") {
  const Tensor w =
      hero::tensor({1.0, 800.0, -1.0}, {.dtype = hero::kFloat64, .requires_grad = true});
  CHECK_THAT(error_of([&] { finite_backward(9, [&] { return sum(exp(w)); }); }),
             ContainsSubstring("step 9: the loss is infinite: exp"));
  const double infinity = std::numeric_limits<double>::infinity();
  const auto loss_of = [&] {
    const Tensor scores = masked_fill(w, w < 0.0, -infinity);
    return sum(log(exp(scores / 2.0) - 2.0));
  };
  CHECK_THAT(error_of([&] { finite_backward(9, loss_of); }),
             ContainsSubstring("step 9: the loss is nan: log"));
}

TEST_CASE("the step is run again with its own random numbers") {
  const Tensor w = hero::ones({1000}).requires_grad_();
  // only some draws give a logarithm of zero
  hero::manual_seed(4);
  const auto loss_of = [&] { return sum(log(dropout(w, 1e-4) * w)); };
  for (int64_t step = 1; step < 100; ++step) {
    const auto before = hero::default_generator().state();
    const std::string error = error_of([&] { finite_backward(step, loss_of); });
    if (error.empty()) continue;
    CHECK_THAT(error, ContainsSubstring("the loss is infinite: log"));
    CHECK(step > 1);
    CHECK(hero::default_generator().state().offset == before.offset + 1);
    return;
  }
  FAIL("no draw was bad");
}

TEST_CASE("a step that cannot be run again says so") {
  const Tensor w = hero::ones({1}).requires_grad_();
  int calls = 0;
  const auto loss_of = [&] { return sum(calls++ == 0 ? w / 0.0 : w); };
  CHECK_THAT(error_of([&] { finite_backward(5, loss_of); }),
             ContainsSubstring("depends on something else"));
}
