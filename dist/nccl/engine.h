#pragma once
#include <memory>

#include <hero/dist/engine.h>

namespace hero::dist::nccl {

/// The engine of a rank that has a GPU to itself (choose_gpu() says which), over one for the host,
/// which every rank of the host's world must wrap at the same time. Arrays of the host, and all
/// agreements between the ranks, go by `host`; those of the GPU by NCCL. `timeout`: seconds to wait
/// for NCCL.
std::shared_ptr<Engine> make_engine(std::shared_ptr<Engine> host, int local_rank, int local_size,
                                    double timeout);

}  // namespace hero::dist::nccl
