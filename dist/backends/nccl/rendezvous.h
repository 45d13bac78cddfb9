#pragma once
// What ranks agree on over the host's backend before NCCL moves a byte.
#include <memory>
#include <span>
#include <string>

#include <hero/core/device.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/nccl/comm.h>

namespace hero::dist::nccl {

/// The ranks of `host` among themselves once more: their calls of `host` are counted from 0 still.
std::shared_ptr<Backend> rendezvous_of(Backend& host, const std::string& axis);

struct ChosenGpu {
  Device device;
  bool shared = false;  ///< two of the ranks, this one or others, have the same
};

/// The GPU of this rank, which is number `local_rank` of the `local_size` ranks on its machine: the
/// one with that number among those that its process sees; where a launcher shows every process
/// only its own, the number is counted round. An Error on all ranks, which all call this, where one
/// sees no GPU, or two have the same one and NCCL does not let them share it, or they are threads
/// of a process that loads a kernel when it is first launched, for which the driver may wait for
/// the GPU.
ChosenGpu choose_gpu(Backend& rendezvous, int local_rank, int local_size);

/// A group's communicators. Calls of one run one after the other, so reductions have one of their
/// own: what is gathered ahead never waits for one. Null for a rank of no group.
struct Comms {
  CommOwner gathers;     ///< for all other calls, too
  CommOwner reductions;  ///< null where the group is one rank, which waits for nobody

  Comm& of(const Call& call) const { return call.reduces() && reductions ? *reductions : *gathers; }
};

/// The communicators of all ranks of `rendezvous`, by an id, all of which call this: an Error on
/// all where one fails or ends meanwhile.
Comms make_communicators(Backend& rendezvous, const std::string& axis, const Terms& terms);

/// The ranks of the group to which this rank of a parent group belongs, in their order;
/// `rendezvous` is null, and there are no members, for a rank that belongs to none.
struct Subset {
  std::span<const int> members;
  Backend* rendezvous = nullptr;
};

/// The communicators of groups of a parent's ranks, all of which call this, each for its own: split
/// from the parent's, where this NCCL can, so that no group starts from nothing; else as
/// make_communicators(). `parent` is whose ranks `rendezvous` are. `meanwhile` is done again and
/// again while the rank waits for the others. An Error on all where one fails or ends meanwhile.
Comms split_communicators(const Comms& parent, Backend& rendezvous, const Subset& subset,
                          const std::string& axis, const Patience& meanwhile);

}  // namespace hero::dist::nccl
