// Losses of distances of one's own.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/loss.h>

using Catch::Matchers::Equals;
using namespace hero;

TEST_CASE("a triplet loss takes any distance, by default that of the other one") {
  manual_seed(2);
  const Tensor a = randn({4, 3}), b = randn({4, 3}), c = randn({4, 3});
  CHECK(equal(nn::TripletMarginWithDistanceLoss()(a, b, c), nn::TripletMarginLoss()(a, b, c)));
  const auto far = [](const Tensor& x, const Tensor& y) { return abs(x - y).sum(1); };
  nn::TripletMarginWithDistanceLoss loss({.distance_function = far, .reduction = Reduction::none});
  CHECK(allclose(loss(a, b, c), clamp(far(a, b) - far(a, c) + 1.0, 0.0, {})));
  CHECK_THROWS_WITH(triplet_margin_with_distance_loss(a, b, ones({4, 2})),
                    Equals("triplet_margin_with_distance_loss: shapes differ: [4, 3] and [4, 2]; "
                           "reshape or expand one"));
}
