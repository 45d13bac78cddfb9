#pragma once
#include <memory>

#include <hero/dist/backends/backend.h>

namespace hero::dist {

class MpiWorld;

/// Makes this process's backend in a world of MPI processes. Its rank's thread only begins calls
/// and waits; the world's own thread moves the bytes, so communication goes on while the rank
/// computes.
std::shared_ptr<Backend> make_mpi_backend(const std::shared_ptr<MpiWorld>& world);

}  // namespace hero::dist
