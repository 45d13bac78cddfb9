#pragma once
#include <memory>

#include <hero/dist/engines/engine.h>

namespace hero::dist {

class SimulatedWorld;

/// What simulated ranks of one world compare their calls with: those of the first rank that ran.
std::shared_ptr<SimulatedWorld> make_simulated_world(int size);

/// One rank of a simulated world: calls on meta arrays complete at once and move nothing. A
/// collective that differs from what an earlier rank stated at the same place is an Error; messages
/// and the counts of all_to_all are not compared, as their other ends are not there.
std::shared_ptr<Engine> make_simulated_engine(const std::shared_ptr<SimulatedWorld>& world,
                                              int rank);

}  // namespace hero::dist
