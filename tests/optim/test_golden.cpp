#include "optim/trajectory.h"

TEST_CASE("optimizers follow the reference trajectories in float64") {
  hero_test::follow_all(hero::kCpu);
}
