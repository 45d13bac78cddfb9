#pragma once
// One communicator of NCCL: its making and its end, its stream, its errors.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <hero/core/exchange.h>
#include <hero/cuda/cuda.h>
#include <hero/cuda/runtime/free_gate.h>
#include <hero/dist/backends/nccl/device_calls.h>
#include <hero/dist/backends/nccl/library.h>
#include <hero/dist/backends/timeouts.h>

namespace hero::dist::nccl {

/// Asked while the host waits for NCCL; throws where waiting is in vain.
using Patience = std::function<void()>;

/// Who a communicator is in errors: "rank 1 of 'world'".
struct Name {
  std::string axis;
  int rank = 0;
  std::string text() const;
};

class RankWatch;

/// What all communicators of a rank have in common.
struct Terms {
  Device device = {DeviceType::cuda, 0};
  Timeouts timeouts = {};                 ///< of waiting for NCCL
  bool shared = false;                    ///< ranks of the world share GPUs
  std::function<bool()> failed = {};      ///< whether a rank has failed; any thread may ask
  std::shared_ptr<RankWatch> watch = {};  ///< null: each communicator has its own
};

/// Makes a communicator, and returns when all its ranks do so: NCCL's call of that kind. Leaves
/// null for a rank that belongs to none.
using Make = std::function<ncclResult_t(ncclComm_t*)>;
/// By an id, for `size` ranks that all have it.
Make by_id(const Library& library, const ncclUniqueId& id, int size, int rank);
/// From a communicator whose ranks all do so and which no call uses meanwhile: ranks with one color
/// get one together, in the order of their keys; those with a negative one get none.
Make by_split(const Library& library, ncclComm_t parent, int color, int key);

/// A communicator that is being made, with which `first` is done then, if given; that throws. A
/// thread of its own waits for the other ranks, so nothing here blocks. A communicator that is not
/// taken is aborted, by that thread where it comes late. The current device is the rank's. Errors
/// of NCCL begin with `where`.
class Joining {
 public:
  using First = std::function<void(ncclComm_t)>;
  Joining(const Library& library, Make make, const std::string& where, First first = {});
  ~Joining();
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;
  /// Whether all ranks have come; an Error with NCCL's text when they never will.
  bool ready();
  ncclComm_t take();

 private:
  struct State;
  const Library& library_;
  const std::shared_ptr<State> state_;
};

/// Makes one and returns when it is ready; an Error of its own, of `patience`, or after the
/// time-out of joining, `timeout` seconds.
ncclComm_t connect(const Library& library, const Make& make, const std::string& where,
                   double timeout, const Patience& patience);

/// "NCCL reports: ...", with what it says of `status`; "" where that is no error. `comm` may be
/// null.
std::string nccl_error(const Library& library, ncclResult_t status, ncclComm_t comm);

/// An Error that begins with `where` where there is such a text.
void check_nccl(const Library& library, ncclResult_t status, ncclComm_t comm,
                const std::string& where);

/// A communicator and the stream on which its calls run, beside the rank's own and before it where
/// both could go on: what other ranks wait for does not queue behind large kernels.
class Comm {
 public:
  /// `stream`: on which its calls run, of high priority; without, its own.
  Comm(ncclComm_t handle, Name name, Terms terms, std::optional<cuda::Stream> stream = {});
  ~Comm();  ///< when it was destroyed or aborted
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  const Library& library() const { return library_; }
  const Name& name() const { return name_; }
  const Terms& terms() const { return terms_; }
  ncclComm_t handle() const { return handle_; }
  /// Its own is made with the first call, on the rank's thread: a GPU has few queues for streams.
  const cuda::Stream& stream();
  /// The stream as NCCL takes it.
  cudaStream_t queue() { return static_cast<cudaStream_t>(stream().handle()); }

  /// What NCCL was asked for in groups since the last such question, as work that waits for other
  /// ranks; null where it was asked for nothing.
  std::unique_ptr<cuda::AwaitedWork> take_awaited() { return std::move(awaited_); }
  /// Whether it was aborted, so that its work waits for nobody; lives on, and any thread may look.
  std::shared_ptr<const std::atomic<bool>> aborted() const { return aborted_; }

  /// Runs `calls`, which make any number of NCCL's calls, as one group, and returns when NCCL has
  /// them all in the stream; when a rank has failed, or after the time-out of the phase, the
  /// communicator is aborted. Throws as check_nccl().
  void group(const std::string& where, Phase phase, const std::function<void()>& calls);
  /// Whether the first group of calls, in which the ranks' hosts wait for each other, has been run.
  bool connected() const { return connected_; }
  /// Throws when a call that is under way has failed.
  void check_health(const std::string& where);
  /// Returns when the GPU has done all that the stream was asked for; as connect() where it never
  /// will.
  void finish(const Patience& patience);
  /// What the stream was asked for; [note: watched to the end] in rank_watch.h. Any thread.
  DeviceCalls& calls() { return calls_; }
  /// Any thread: what NCCL's own threads have met, as nccl_error(); "" also where it is aborted, or
  /// the rank's thread is about to hear itself.
  std::string async_error();
  /// Any thread: ends all that is under way, at once and with whatever values; the communicator is
  /// unusable then.
  void abort() noexcept;
  /// Returns when the GPU has done all that the stream was asked for; aborts the communicator where
  /// a rank has failed, or after the time-out of a step.
  void finish_or_abort() noexcept;
  /// Gives NCCL's communicator back, which frees memory, from within the gate of all devices. One
  /// that NCCL does not finalize within the time-out of a step is aborted.
  void destroy() noexcept;

 private:
  const Library& library_;
  const Name name_;
  const Terms terms_;
  std::optional<cuda::Stream> stream_;
  const std::shared_ptr<std::atomic<bool>> aborted_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<cuda::AwaitedWork> awaited_;
  std::mutex mutex_;  // of the handle: held by whoever gives it to NCCL
  ncclComm_t handle_;
  bool connected_ = false;
  DeviceCalls calls_;
};

/// [note: communicators are destroyed when no rank is waited for] To destroy a communicator frees
/// memory, for which the driver waits until the device is idle: NCCL keeps that of all ranks of a
/// process until the last of them destroys its own, and frees it on all their devices then. So a
/// communicator is destroyed in the gate of all devices ([note: memory goes back when no rank is
/// waited for] in cuda/runtime/free_gate.h), and nobody waits for the gate to open: where another
/// rank's work keeps it closed, which may wait for the next call of this rank, the communicator is
/// put by. Whichever rank of the process next begins a call, runs out of memory or ends destroys
/// it, if the gate is open then. When the last rank of a process ends, no work is left that could
/// close it.
struct Retire {
  void operator()(Comm* comm) const noexcept;
};
using CommOwner = std::unique_ptr<Comm, Retire>;

/// Destroys the communicators that were put by, while the gate is open. Any thread, outside a gate.
void destroy_retired() noexcept;

}  // namespace hero::dist::nccl
