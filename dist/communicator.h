#pragma once
// Communicator: how a rank communicates with the others. Every rank of a group makes the same calls
// in the same order; if one does not, every rank gets an Error that names the call and the rank
// that differs. After such an error the whole world is unusable.
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/core/array.h>
#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

/// A call that may not be complete yet. Until it is, its arrays must not be written or freed, and
/// its outputs must not be read. You may drop the handle: the call then continues during this
/// rank's next calls and is complete before the rank ends.
/// \snippet test_examples_ranks.cpp async
class Work {
 public:
  /// A call that is complete.
  Work() = default;
  /// For backends. `observed` is the number of the call in the core::Observer that observes it; 0
  /// if none does.
  explicit Work(std::shared_ptr<Pending> pending, int64_t observed = 0)
      : pending_(std::move(pending)), observed_(observed) {}
  /// The backend's record of the call; null if it is complete.
  const std::shared_ptr<Pending>& pending() const { return pending_; }
  /// For communicators: tells the recorder when the program waits for the call, and when it is
  /// complete.
  void record(FlightEntry entry);
  /// Waits until the call is complete; does nothing if it already is.
  void wait();
  /// Continues the call as far as possible without waiting. Returns true if it is complete.
  bool test();

 private:
  std::shared_ptr<Pending> pending_;
  void record_end();
  int64_t observed_ = 0;
  FlightEntry flight_ = {};
};

/// Options of a collective. For Order::tree and Order::ranks, the ranks exchange their
/// contributions and add them up themselves, so every backend gives the same bits. (Over NCCL
/// integers and bools, which have the same result in any order, are left to it.)
///
/// Order::native is the reduction of the library behind the backend. MPI's is faster only for the
/// smallest arrays with Open MPI 4.1 (docs/performance.md). Its bits depend on the number of ranks,
/// the host and the library: for float32 they differ from those of Order::ranks by up to (N - 1)
/// 2^-23 of the sum of magnitudes, and it is unspecified what min and max do with NaN. It throws an
/// Error for half precision, which MPI does not have, and for more than 2^31 - 1 elements. On GPUs
/// of the nccl backend it is NCCL's reduction, for all dtypes, whose bits depend on the rings and
/// trees that NCCL chooses. The backends without a library, local and simulated, treat it as
/// Order::tree.
struct CallOptions {
  ReduceOp op = ReduceOp::sum;  ///< for reductions: what is computed
  Order order = Order::tree;    ///< for reductions: the order of the additions
  double divide_by = 0.0;       ///< for means: the divisor of the sum; 0: the number of ranks
  bool async = false;           ///< true: return at once; Work tells when it is complete
  std::string unit = {};        ///< name in errors and in Traffic; "": that of the UnitScope
  ChunkCounts counts = {};      ///< elements in each rank's part; empty: equal parts
  Work after = {};              ///< for reductions: begin when this call is complete
};

/// Options of an all_to_all.
struct AllToAllOptions {
  bool async = false;            ///< true: return at once; Work tells when it is complete
  std::string unit = {};         ///< name in errors and in Traffic; "": that of the UnitScope
  ChunkCounts send_counts = {};  ///< elements to each rank; empty: equal parts
  ChunkCounts recv_counts = {};  ///< elements from each rank; empty: equal parts
};

/// While it lives, it gives a unit name to the calls of this thread.
class UnitScope {
 public:
  /// Begins the scope.
  explicit UnitScope(std::string unit);
  ~UnitScope();
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

 private:
  std::string previous_;
};

struct RankState;

/// One rank's handle of a group of ranks. It is cheap to copy, and for the rank's own thread.
///
/// Arrays must be defined, contiguous and of one dtype. They are on the cpu; or, on the local
/// backend, on a GPU that all ranks share; or, on the nccl backend, on the rank's own GPU; or, for
/// simulated ranks, on meta (see simulate_ranks()). On a GPU a call is ordered with the other work
/// in the stream of the rank's thread, and the host never waits for the device. The shapes of
/// arrays do not matter, only their numbers of elements. The parts of an array lie one after the
/// other in the order of ranks. The output and the input of an operation must not overlap, except
/// that the input of an all_gather or gather may be the rank's own part of the output, and the
/// output of a reduce_scatter or scatter its own part of the input. Arrays may be empty.
///
/// A default-constructed Communicator is undefined.
class Communicator {
 public:
  Communicator() = default;
  /// For backends; programs get theirs from launch(), run_ranks() or simulate_ranks().
  Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<RankState> state,
               std::string axis);

  /// True if this is a group of ranks, and not undefined.
  bool defined() const { return static_cast<bool>(backend_); }
  /// This rank's number in the group, from 0.
  int rank() const { return backend().rank(); }
  /// The number of ranks in the group.
  int size() const { return backend().size(); }
  /// This rank's number in the whole world.
  int world_rank() const { return backend().world_ranks()[static_cast<size_t>(rank())]; }
  /// The numbers of the group's ranks in the whole world, in the order of the group.
  std::span<const int> world_ranks() const { return backend().world_ranks(); }
  /// The name of this group in errors and in Traffic: "world", or a mesh's axis.
  const std::string& axis() const { return axis_; }
  /// The backend that makes the calls.
  BackendKind backend_kind() const { return backend().kind(); }
  /// This rank's own GPU on the nccl backend; the cpu on others.
  Device device() const { return backend().device(); }

  /// Replaces x by the reduction of all ranks' x, on every rank.
  Work all_reduce(const Array& x, const CallOptions& options = {}) const;
  /// Like all_reduce(), but only on rank `root`; the others keep their x.
  Work reduce(const Array& x, int root, const CallOptions& options = {}) const;
  /// Sets output to this rank's part of the reduction of all inputs. For inputs of half precision
  /// the output may be float32: the sum is then not rounded, so that further sums can be added to
  /// it.
  Work reduce_scatter(const Array& output, const Array& input,
                      const CallOptions& options = {}) const;
  /// Sets output to all inputs, one after the other.
  /// \snippet test_examples_ranks.cpp all_gather
  Work all_gather(const Array& output, const Array& input, const CallOptions& options = {}) const;
  /// Sets x to the root's x.
  Work broadcast(const Array& x, int root, const CallOptions& options = {}) const;
  /// Sets output to this rank's part of the root's input; on other ranks the input may be
  /// undefined.
  Work scatter(const Array& output, const Array& input, int root,
               const CallOptions& options = {}) const;
  /// Sets the root's output to all inputs, one after the other; on other ranks the output may be
  /// undefined.
  Work gather(const Array& output, const Array& input, int root,
              const CallOptions& options = {}) const;
  /// Sends part j of this rank's input to rank j, where it becomes part rank() of the output.
  Work all_to_all(const Array& output, const Array& input,
                  const AllToAllOptions& options = {}) const;
  /// Sends x to rank `to`, which must call recv() with as many elements; without async it returns
  /// when that has happened. The n-th send to a rank matches its n-th recv from this rank.
  /// \snippet test_examples_ranks.cpp send
  Work send(const Array& x, int to, const CallOptions& options = {}) const;
  /// Receives x from rank `from`, which must call send() with as many elements.
  Work recv(const Array& x, int from, const CallOptions& options = {}) const;
  /// Returns when every rank of the group has called it.
  void barrier(const CallOptions& options = {}) const;

  /// Attaches the text `what` to this rank's next collective in this group, whichever it is (not to
  /// a send or recv): a short description of something that all ranks must do in the same way, such
  /// as "clip_grad_norm to 1". If another rank attaches a different text to the call, or none,
  /// every rank gets an Error that lists the texts. It needs no message of its own, since ranks
  /// compare every call anyway.
  /// \snippet test_examples_ranks.cpp declare
  void declare(const std::string& what) const;

  /// Divides the group: ranks with the same color form a group, in the order of (key, rank); a rank
  /// with a negative color belongs to none and gets an undefined Communicator. All ranks of this
  /// group must call it. Throws an Error on simulated ranks, which cannot ask the others.
  Communicator split(int color, int key, const std::string& axis = "split") const;
  /// Makes the group of these ranks, in this order. All ranks of this group must call it: members
  /// of the new group with their list, others with an empty one, which gives an undefined
  /// Communicator.
  Communicator group(std::span<const int> ranks, const std::string& axis = "group") const;

  /// What this rank has sent, in all its groups.
  Traffic& traffic() const;
  /// A stream for this rank's output: rank 0 prints, and the text of other ranks is dropped; or,
  /// with prefixes, every rank prints, and its lines begin with "[rank] ".
  std::ostream& out() const;

 private:
  friend class CommunicatorGroup;
  Backend& backend() const;
  void check_rank(Collective op, const char* what, int rank) const;
  void check_array(Collective op, const char* what, const Array& array) const;
  void check_pair(Collective op, const Array& output, const Array& input) const;
  void check_devices(Collective op, const Array& output, const Array& input) const;
  void check_counts(Collective op, const ChunkCounts& counts) const;
  Call make_call(Collective op, const Array& x, int64_t total, const CallOptions& options) const;
  Work post(Call call, const Array& output, const Array& input, bool async) const;
  std::vector<int64_t> exchange(std::span<const int64_t> words) const;

  std::shared_ptr<Backend> backend_;
  std::shared_ptr<RankState> state_;
  std::string axis_;
};

}  // namespace hero::dist
