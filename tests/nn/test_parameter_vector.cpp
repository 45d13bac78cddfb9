// Parameters as one vector, and back.
#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/nn/linear.h>
#include <hero/nn/parameter_vector.h>

using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;
using namespace hero;

TEST_CASE("parameters become a vector with their gradients, and take their values from one") {
  manual_seed(1);
  nn::Linear a(3, 2), b(3, 2);
  const Tensor vector = nn::parameters_to_vector(a.parameters());
  CHECK(vector.shape() == Shape{8});
  CHECK(equal(vector.slice(0, 0, 6), a.parameters()[0].reshape({6})));
  (vector * vector).sum().backward();
  CHECK(equal(a.parameters()[1].grad(), 2.0 * a.parameters()[1].detach()));
  nn::vector_to_parameters(vector, b.parameters());
  CHECK(equal(nn::parameters_to_vector(b.parameters()), vector));
  CHECK(b.parameters()[0].is_leaf());
}

TEST_CASE("a vector that does not fit writes nothing") {
  nn::Linear a(3, 2);
  const Tensor before = nn::parameters_to_vector(a.parameters()).detach().clone();
  CHECK_THROWS_WITH(
      nn::vector_to_parameters(zeros({7}), a.parameters()),
      Equals("vector_to_parameters: a vector [7] does not fit 8 elements of parameters"));
  CHECK(equal(nn::parameters_to_vector(a.parameters()), before));
  CHECK_THROWS_WITH(nn::parameters_to_vector({}), StartsWith("parameters_to_vector: there are no"));
  CHECK_THROWS_WITH(nn::parameters_to_vector({ones({2}), ones({2}, kFloat64)}),
                    Equals("parameters_to_vector: parameter 1 is float64 on cpu, the first one is "
                           "float32 on cpu"));
}
