#pragma once
// What ranks agree on over the host's engine before NCCL moves a byte.
#include <memory>
#include <string>

#include <hero/core/device.h>
#include <hero/dist/engines/engine.h>
#include <hero/dist/engines/nccl/comm.h>

namespace hero::dist::nccl {

/// The ranks of `host` among themselves once more: their calls of `host` are counted from 0 still.
std::shared_ptr<Engine> meeting_of(Engine& host, const std::string& axis);

/// The GPU of this rank, which is number `local_rank` of the `local_size` ranks on its machine: the
/// one with that number among those that its process sees; where a launcher shows every process
/// only its own, the number is counted round. An Error on all ranks, which all call this, where two
/// have the same GPU or one sees none.
Device choose_gpu(Engine& meeting, int local_rank, int local_size);

/// The communicator of all ranks of `meeting`, which all call this: an Error on all where one fails
/// or ends meanwhile. `timeout`: seconds to wait for NCCL.
std::unique_ptr<Comm> meet(Engine& meeting, const std::string& axis, Device device, double timeout);

}  // namespace hero::dist::nccl
