#pragma once
#include <memory>

#include <hero/dist/engines/engine.h>

namespace hero::dist::nccl {

// [note: agreed means asked]
// A collective first goes to NCCL, in the stream of its communicator, and then to the host's engine
// as a statement without bytes. When that is complete, all ranks have asked NCCL for this very
// call. Only then does a rank's own stream wait for the communicator's. So work of the GPU never
// waits for what may not come: where ranks differ, or one has ended, the host's engine says it in
// the words of every engine, and the communicators are aborted, which frees their streams.
// A call that all have asked for goes on whatever fails afterwards: another rank may wait for it on
// its GPU, and no word from the host reaches it there. So who gives up lets such calls end first.
// A message is stated when it begins, goes to NCCL when both ends have begun it, and is stated
// again. A rank asks for all such messages before any wait() ends.

/// The engine of a rank that has a GPU to itself (choose_gpu() says which), over one for the host,
/// which every rank of the host's world must wrap at the same time. Arrays of the host, and all
/// agreements between the ranks, go by `host`; those of the GPU by NCCL. `timeout`: seconds to wait
/// for NCCL.
std::shared_ptr<Engine> make_engine(std::shared_ptr<Engine> host, int local_rank, int local_size,
                                    double timeout);

}  // namespace hero::dist::nccl
