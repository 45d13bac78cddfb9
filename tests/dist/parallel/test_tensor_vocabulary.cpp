// The cross entropy of logits whose classes lie with several ranks.
#include <cmath>
#include <string>
#include <vector>

#include "dist/parallel/boxes.h"
#include "support/catch.h"

#include <hero/autograd/autograd.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Eleven classes in two runs, of each of which every rank has a share: two boxes a rank.
Tensor cut_classes(const Tensor& whole, const dist::Communicator& world) {
  const Tensor leaf = Tensor(whole.array().clone()).requires_grad_();
  const auto group = std::make_shared<dist::CommunicatorGroup>(world);
  cut(leaf, boxes_of(whole.shape(), 0, {6, 5}, world, group), 0);
  return leaf;
}

Tensor class_numbers() { return Tensor(Array::from(std::vector<int64_t>{0, 10, 4, -100, 6}, {5})); }

double farthest(const Array& a, const Array& b) {
  return amax(abs(Tensor(a).to(kFloat64) - Tensor(b).to(kFloat64))).item();
}

std::string classes_error(const LinearCrossEntropyOptions& options, const Tensor& target) {
  return errors_of(2, [&](dist::Communicator& world) {
    const Tensor weight = cut_classes(Tensor(noise({11, 3})), world);
    linear_cross_entropy(Tensor(noise({5, 3})), weight, target, options);
  })[1];
}

}  // namespace

TEST_CASE("cross entropy over classes of several ranks is that of all classes", "[tensor]") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      CAPTURE(ranks, static_cast<int>(reduction));
      dist::run_ranks(ranks, [&](dist::Communicator& world) {
        const Tensor values = Tensor(noise({11, 3}, kFloat64, 2)) * 20.0;  // exp alone overflows
        const Tensor whole = Tensor(values.array()).requires_grad_();
        const Tensor mine = cut_classes(values, world);
        const Tensor x = Tensor(noise({5, 3}, kFloat64, 5)).requires_grad_();
        const Tensor y = Tensor(x.array().clone()).requires_grad_();
        const LinearCrossEntropyOptions options = {.reduction = reduction};
        const Tensor expected = linear_cross_entropy(x, whole, class_numbers(), options);
        const Tensor got = linear_cross_entropy(y, mine, class_numbers(), options);
        expected.backward();
        got.backward();
        // float64, sums of eleven exponentials in another order, of values below 1000
        expect(farthest(got.array(), expected.array()) < 1e-12, "the loss");
        expect(farthest(y.grad().array(), x.grad().array()) < 1e-12, "the gradient of x");
        expect(farthest(mine.grad().array(), slice_of(whole.grad().array(), mine)) < 1e-12,
               "the gradient of the weight");
      });
    }
  }
}

TEST_CASE("cross entropy of large logits over several ranks keeps their digits", "[tensor]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const Tensor weight = cut_classes(full({11, 3}, 1e7), world);
    const double loss = linear_cross_entropy(ones({5, 3}), weight, class_numbers()).item();
    expect(std::abs(loss - std::log(11.0)) < 1e-6, "a loss of ", loss);
  });
}

TEST_CASE("cross entropy over classes of several ranks agrees with finite differences",
          "[tensor]") {
  dist::run_ranks(2, [](dist::Communicator& world) {
    const Tensor weight = cut_classes(Tensor(noise({11, 3}, kFloat64, 2)), world);
    weight.requires_grad_(false);
    const Tensor x = Tensor(noise({5, 3}, kFloat64, 5)).requires_grad_();
    const auto loss = [&](const std::vector<Tensor>& in) {
      return linear_cross_entropy(in[0], weight, class_numbers());
    };
    gradcheck(TensorFunction(loss), {x});
    gradgradcheck(TensorFunction(loss), {x});
  });
}

TEST_CASE("cross entropy over classes of several ranks refuses what it does not know", "[tensor]") {
  const Tensor target = class_numbers();
  CHECK_THAT(classes_error({.label_smoothing = 0.1}, target),
             ContainsSubstring("takes neither bias nor label smoothing"));
  CHECK_THAT(classes_error({.linear_bias = Tensor(noise({11}))}, target),
             ContainsSubstring("takes neither bias nor label smoothing"));
  CHECK_THAT(classes_error({.reduction = Reduction::none}, target),
             ContainsSubstring("Reduction::none is not there"));
  CHECK_THAT(classes_error({}, Tensor(Array::from(std::vector<int64_t>{0, 1, 2, 3, 11}, {5}))),
             ContainsSubstring("11"));
  CHECK_THAT(classes_error({}, Tensor(Array::zeros({4}, kInt64))),
             ContainsSubstring("weight [11, 3] and target [4] do not fit"));
  const auto errors = errors_of(2, [&](dist::Communicator& world) {
    const Tensor weight = Tensor(noise({11, 4})).requires_grad_();
    cut(weight, boxes_of({11, 4}, 1, {4}, world, std::make_shared<dist::CommunicatorGroup>(world)),
        1);
    linear_cross_entropy(Tensor(noise({5, 4})), weight, target);
  });
  CHECK_THAT(errors[0], ContainsSubstring("only whole rows of it can be cut"));
}
