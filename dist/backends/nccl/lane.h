#pragma once
// Messages from one rank to another, on GPUs.
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <hero/core/array.h>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/nccl/comm.h>

namespace hero::dist::nccl {

/// A communicator of a sender (its rank 0) and a receiver (its rank 1), made and connected with
/// their first message. Calls of one communicator run one after the other: with a communicator for
/// each lane no message ever waits for one of another lane, whatever the order in which ranks send
/// and receive.
class Lane {
 public:
  /// Both ends make theirs; `rendezvous` carries NCCL's id, in messages between the two. Never
  /// blocks.
  Lane(Backend& rendezvous, int from, int to, const std::string& axis, Terms terms);
  /// The communicator, null until both have joined. Never blocks.
  Comm* ready();
  /// Joins no more, where it has not. What it was joining is aborted by the thread that is
  /// returned, if any: that may wait for the device, as in RankWatch::abort().
  std::optional<std::thread> leave() noexcept;

 private:
  const Name name_;
  const Terms terms_;
  const cuda::Stream stream_;
  core::Array first_byte_;  // until it is there
  core::Array id_;
  std::shared_ptr<Pending> id_here_;
  std::unique_ptr<cuda::AwaitedWork> connecting_;  // as long as the first byte may wait
  std::unique_ptr<Joining> joining_;
  CommOwner comm_;
};

/// 128 bytes that name a communicator to all who will make it, as an array of the host.
core::Array make_id(const std::string& axis);
ncclUniqueId id_in(const core::Array& bytes);

}  // namespace hero::dist::nccl
