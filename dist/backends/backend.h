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

/// What can carry a communicator. `local`: ranks are threads of this process. `simulated`: meta
/// arrays, no peers. `mpi`: ranks are processes, on any hosts, where the build has found MPI.
/// `nccl`: threads or processes, each with a GPU of its own, whose arrays NCCL moves; where the
/// build has found CUDA and NCCL.
enum class BackendKind : uint8_t { local, simulated, mpi, nccl };

const char* name(BackendKind kind);

/// "local", "simulated", "mpi", "nccl"; an Error for any other text.
BackendKind parse_backend(const std::string& text);

/// An Error that says what to install when this build lacks the backend.
void require_backend(BackendKind kind);

/// A call that has begun. Belongs to its rank's thread.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Goes on as far as possible without waiting; true when the call is complete: the outputs are
  /// written and nobody reads the inputs any more.
  virtual bool test() = 0;
  /// Returns when the call is complete; an Error where it never will be.
  virtual void wait() = 0;
  /// Whether it is known to be complete; does nothing for it. Any thread may ask this of a call
  /// that moves nothing.
  virtual bool complete() const = 0;
  /// Any thread may ask, of a call that moves nothing and for which its rank has waited from
  /// `since` on: whether it will never be complete, as the ranks differ, one of them has failed or
  /// ended without it, or the time-out is over. All ranks hear of it then.
  virtual bool in_vain(std::chrono::steady_clock::time_point since) {
    (void)since;
    return false;
  }
};

/// One rank's end of a group. Every rank makes the same calls in the same order; each backend
/// checks that they agree and raises on all ranks where they do not. Belongs to its rank's thread.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendKind kind() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The members' numbers in the whole world, by which errors name them.
  virtual std::span<const int> world_ranks() const = 0;
  /// Where the rank's arrays may lie beside the host's memory; else kCpu.
  virtual Device device() const { return kCpu; }
  /// Begins a call; `input` and `output` are kept alive until it is complete. For send and recv,
  /// `root` is the other rank. A call `after` another takes its place in the order of calls at
  /// once, but its arrays are left alone, and the others are told of it, when that one is complete.
  virtual std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) = 0;
  /// The group of these ranks of this group, in this order, to which this rank belongs; the ranks
  /// have agreed on the lists in the call just before.
  virtual std::shared_ptr<Backend> group(std::span<const int> members, const std::string& axis) = 0;
  /// In its place, for a rank of this group that belongs to none of those which the others make.
  virtual void group_of_others(const std::string& axis) { (void)axis; }
  /// Whether a rank of the world is known to have failed, so that this one's next call will; any
  /// thread may ask. A backend that ends the processes of such a world need not know.
  virtual bool has_failed() const { return false; }
  /// Completes everything this rank has begun, in all groups.
  virtual void drain() = 0;
  /// Gives up everything this rank has begun, after a failure: its arrays are its own again.
  virtual void abandon() = 0;
  /// Where wait() does not wait for the other ranks' word: returns when it has come, for every call
  /// that this rank has waited for; an Error where it never will.
  virtual void confirm() {}

  /// What the rank says with its next collective of this group; see Communicator::declare().
  void declare(const std::string& what);
  std::string take_declared() { return std::exchange(declared_, {}); }

 private:
  std::string declared_ = {};
};

/// Makes the backend of a rank with a GPU of its own over one for the host; ranks of this machine
/// are numbered from 0 to local_size - 1. A call of all ranks.
using NcclBackendMaker = std::shared_ptr<Backend> (*)(std::shared_ptr<Backend> host, int local_rank,
                                                      int local_size, const Timeouts& timeouts);
/// For the library of the nccl backend, where the build has one.
void set_nccl_backend(NcclBackendMaker make);
/// An Error that says what is missing where there is none.
std::shared_ptr<Backend> make_nccl_backend(std::shared_ptr<Backend> host, int local_rank,
                                           int local_size, const Timeouts& timeouts);

}  // namespace hero::dist
