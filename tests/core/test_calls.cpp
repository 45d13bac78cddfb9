// What the calls of kernels do not let a caller forget.
#include <type_traits>

#include <support/catch.h>

#include <hero/core/device/calls.h>

namespace {

using namespace hero::core;

// Whether a braced list of so many arrays, without the kind of cell, makes a step.
template <class Step, class... Arrays>
concept made_of = requires(Arrays... arrays) {
  Step{arrays...};
};

}  // namespace

TEST_CASE("a step of a recurrent cell is made with its kind alone", "[core]") {
  STATIC_REQUIRE(!std::is_default_constructible_v<call::CellStep>);
  STATIC_REQUIRE(!std::is_default_constructible_v<call::CellStepBack>);
  STATIC_REQUIRE(!made_of<call::CellStep>);
  STATIC_REQUIRE(!made_of<call::CellStep, hero::Array>);
  STATIC_REQUIRE(made_of<call::CellStep, CellKind, hero::Array>);
  const call::CellStep step{.kind = CellKind::gru};
  CHECK(step.kind == CellKind::gru);
}
