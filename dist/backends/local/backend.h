#pragma once
#include <memory>
#include <vector>

#include <hero/dist/backends/backend.h>

namespace hero::dist {

class LocalWorld;

/// Makes the backend of one rank of a world of `world->size()` threads. Collectives read the other
/// ranks' arrays directly, without intermediate copies; the work of a rank is done by its own
/// thread, in wait(), test() and any other call that it makes.
std::shared_ptr<Backend> make_local_backend(const std::shared_ptr<LocalWorld>& world, int rank);

}  // namespace hero::dist
