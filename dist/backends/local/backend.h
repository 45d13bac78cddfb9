#pragma once
#include <memory>
#include <vector>

#include <hero/dist/backends/backend.h>

namespace hero::dist {

class LocalWorld;

/// This rank's end of a world of `world->size()` threads. Collectives read the other ranks' memory
/// where it lies: nothing is copied in between, and a rank's work is done by its own thread, in
/// wait(), test() and any other call it makes.
std::shared_ptr<Backend> make_local_backend(const std::shared_ptr<LocalWorld>& world, int rank);

}  // namespace hero::dist
