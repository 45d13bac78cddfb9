#pragma once
// The interface behind a communicator: it matches the ranks' calls and moves their bytes.
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <hero/core/array.h>
#include <hero/dist/backends/call.h>

namespace hero::dist {

/// The implementations of a communicator. `local`: ranks are threads of this process. `simulated`:
/// meta arrays, no peers. `mpi`: ranks are processes, on any hosts, where the build has found MPI.
/// `nccl`: threads or processes, each with a GPU of its own, whose arrays NCCL moves; where the
/// build has found CUDA and NCCL.
enum class BackendKind : uint8_t { local, simulated, mpi, nccl };

const char* name(BackendKind kind);

/// "local", "simulated", "mpi", "nccl"; an Error for any other text.
BackendKind parse_backend(const std::string& text);

/// Throws an Error that says what to install if this build lacks the backend.
void require_backend(BackendKind kind);

/// A call that has begun. Only the thread of its rank uses it, except where a member says
/// otherwise.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Continues the call as far as possible without waiting. Returns true when it is complete: the
  /// outputs are written, and no rank reads the inputs any more.
  virtual bool test() = 0;
  /// Waits until the call is complete. Throws an Error if it cannot become complete.
  virtual void wait() = 0;
  /// Whether the call is known to be complete; does not continue it. For a call without data
  /// (Call::moves is false), any thread may ask.
  virtual bool complete() const = 0;
  /// Whether the flight recorder is told of the call's end by the thread that sees it on the
  /// device, which may be after wait() has returned.
  virtual bool records_end() const { return false; }
  /// Whether the call cannot become complete, because the ranks' statements differ, a rank has
  /// failed or ended without it, or the time-out has passed since its rank began to wait at
  /// `since`. If so, all ranks are told. Any thread may ask, for a call without data (Call::moves
  /// is false).
  virtual bool in_vain(std::chrono::steady_clock::time_point since) {
    (void)since;
    return false;
  }
};

/// One rank's handle of a group. Every rank makes the same calls in the same order; each backend
/// checks that the calls agree, and throws an Error on all ranks if they do not. Only the thread of
/// its rank uses it, except where a member says otherwise.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendKind kind() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The members' numbers in the whole world, by which errors name them.
  virtual std::span<const int> world_ranks() const = 0;
  /// The device on which the rank's arrays may lie, in addition to host memory; kCpu: none.
  virtual Device device() const { return kCpu; }
  /// The number of ranks of each host, if reductions of this group are made in two levels; see
  /// hosts.h.
  virtual int ranks_of_host() const { return 0; }
  /// Begins a call; `input` and `output` are kept alive until it is complete. For send and recv,
  /// `root` is the other rank. A call with Call::after takes its place in the order of calls at
  /// once, but its arrays are used, and the other ranks are told of it, only when the call `after`
  /// is complete.
  virtual std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) = 0;
  /// Makes the group of these members of this group, in this order; this rank is one of them. The
  /// ranks have agreed on the lists in the call just before.
  virtual std::shared_ptr<Backend> group(std::span<const int> members, const std::string& axis) = 0;
  /// Called in place of group() on a rank that belongs to none of the groups that the other ranks
  /// make.
  virtual void group_of_others(const std::string& axis) { (void)axis; }
  /// Whether a rank of the world is known to have failed, so that this rank's next call will fail,
  /// too; any thread may ask. A backend that ends all processes of such a world may always return
  /// false.
  virtual bool has_failed() const { return false; }
  /// Completes all calls that this rank has begun, in all groups.
  virtual void drain() = 0;
  /// After a failure: drops all calls that this rank has begun, so that no rank reads or writes its
  /// arrays any more.
  virtual void abandon() = 0;
  /// For a backend whose wait() returns before the other ranks have confirmed the call: waits until
  /// they have, for every call that this rank has waited for. Throws an Error if they cannot.
  virtual void confirm() {}

  /// Sets the text that this rank declares with its next collective of this group; see
  /// Communicator::declare().
  void declare(const std::string& what);
  std::string take_declared() { return std::exchange(declared_, {}); }

 private:
  std::string declared_ = {};
};

/// Makes the nccl backend of a rank that has a GPU of its own. `host` is the backend for the same
/// ranks that communicates through host memory; ranks of this machine are numbered from 0 to
/// local_size - 1. A collective.
using NcclBackendMaker = std::shared_ptr<Backend> (*)(std::shared_ptr<Backend> host, int local_rank,
                                                      int local_size, const Timeouts& timeouts);
/// Registers the function that makes nccl backends; the library of that backend calls it, if the
/// build has one.
void set_nccl_backend(NcclBackendMaker make);
/// Makes an nccl backend by the registered function. Throws an Error that says what is missing if
/// there is none.
std::shared_ptr<Backend> make_nccl_backend(std::shared_ptr<Backend> host, int local_rank,
                                           int local_size, const Timeouts& timeouts);

}  // namespace hero::dist
