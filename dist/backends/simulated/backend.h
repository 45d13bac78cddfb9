#pragma once
#include <memory>

#include <hero/dist/backends/backend.h>

namespace hero::dist {

class SimulatedWorld;

/// Makes a simulated world, which keeps the calls of earlier ranks so that later ranks' calls are
/// compared with them. Ranks r with the same r / per_host lie on one host, so that reductions over
/// hosts are counted in the two levels that real ranks make (Backend::ranks_of_host()); with a
/// per_host of 0 there are no hosts, and all reductions are made in one level.
std::shared_ptr<SimulatedWorld> make_simulated_world(int size, int per_host = 0);

/// Makes the backend of one rank of a simulated world: calls on meta arrays complete at once and
/// move nothing; calls on small cpu arrays act as if all ranks had passed the same values. A call
/// that does not match the calls of earlier ranks throws an Error: a collective at the same
/// position, the other end of a message, the counts of an all_to_all. A send or recv that the other
/// rank never matches is an Error when the later of the two ranks ends.
std::shared_ptr<Backend> make_simulated_backend(const std::shared_ptr<SimulatedWorld>& world,
                                                int rank);

}  // namespace hero::dist
