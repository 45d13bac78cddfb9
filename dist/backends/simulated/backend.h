#pragma once
#include <memory>

#include <hero/dist/backends/backend.h>

namespace hero::dist {

class SimulatedWorld;

/// What simulated ranks of one world compare their calls with: those of the ranks that ran before.
std::shared_ptr<SimulatedWorld> make_simulated_world(int size);

/// One rank of a simulated world: calls on meta arrays complete at once and move nothing; those on
/// small cpu arrays act as if all ranks had said the same. A call that differs from what earlier
/// ranks stated is an Error: collectives at the same place, the two ends of a message, the counts
/// of an all_to_all from rank to rank. What the other rank never makes is one when the later of the
/// two ends.
std::shared_ptr<Backend> make_simulated_backend(const std::shared_ptr<SimulatedWorld>& world,
                                                int rank);

}  // namespace hero::dist
