#include "support/catch.h"

#include <hero/nn/nn.h>
#include <hero/optim/optim.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

TEST_CASE("of many names that do not fit, errors show the first ones and a count") {
  nn::Sequential deep;
  for (int i = 0; i < 12; ++i) deep.append<nn::Linear>(2, 2, {.bias = false});
  CHECK_THROWS_WITH(
      deep.load_state_dict({}),
      ContainsSubstring("6.weight, 7.weight .. and 4 more") && !ContainsSubstring("8.weight"));
  CHECK_THROWS_WITH(deep.get_submodule("head"), ContainsSubstring("7 .. and 4 more"));
  CHECK_THROWS_WITH(deep.get_parameter("head"), ContainsSubstring("7.weight .. and 4 more"));
  optim::SGD sgd(deep.parameters(), {.lr = 0.1, .momentum = 0.9});
  deep(ones({1, 2})).sum().backward();
  sgd.step();
  optim::StateDict renamed = sgd.state_dict();
  for (auto& entry : renamed) entry.name += "_";
  CHECK_THROWS_WITH(sgd.load_state_dict(renamed), ContainsSubstring("state.0.step_ .. and "));
}
