#pragma once
// Communicator: what a rank says to the others. Every rank of a group makes the same calls in the
// same order; where they do not, every rank gets an Error that names the call and who differs.
// After such an error the whole world is unusable.
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/core/array.h>
#include <hero/dist/engines/call.h>
#include <hero/dist/engines/engine.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

/// A call that may not be complete. Until it is, its arrays must not be written, freed or, where
/// they are outputs, read. Dropping the handle is allowed: the call goes on during this rank's next
/// calls and is complete before the rank ends.
/// \snippet test_examples_ranks.cpp async
class Work {
 public:
  Work() = default;
  /// `observed`: the call's number with the core::Observer that heard of it; 0: none did.
  explicit Work(std::shared_ptr<Pending> pending, int64_t observed = 0)
      : pending_(std::move(pending)), observed_(observed) {}
  /// What the engine knows the call by; null when it is complete.
  const std::shared_ptr<Pending>& pending() const { return pending_; }
  /// Returns when the call is complete; harmless when it already is.
  void wait();
  /// Goes on as far as possible without waiting; true when the call is complete.
  bool test();

 private:
  std::shared_ptr<Pending> pending_;
  int64_t observed_ = 0;
};

/// How a collective is made. In Order::tree and Order::ranks the ranks exchange their contributions
/// and add up by themselves: every engine gives the same bits. A reduction in `Order::native` is
/// MPI's own: with Open MPI 4.1 faster for the smallest arrays only (docs/performance.md), and its
/// bits are its own: for float32 they differ from those of Order::ranks by up to (N - 1) 2^-23 of
/// the sum of magnitudes, by number of ranks, host and library, and what becomes of a NaN in min
/// and max is not said. Halves are an Error, as MPI does not know them, and so are more than 2^31 -
/// 1 elements. On GPUs of the nccl engine it is NCCL's own, for all dtypes, whose bits depend on
/// NCCL's choice of rings and trees. The engines without a library behind them, local and
/// simulated, take it as Order::tree.
struct CallOptions {
  ReduceOp op = ReduceOp::sum;  ///< reductions only
  Order order = Order::tree;    ///< reductions only
  double divide_by = 0.0;       ///< means only: divides the sum by this; 0: by the number of ranks
  bool async = false;           ///< true: returns at once, the Work tells when it is complete
  std::string unit = {};        ///< named in errors and in Traffic; "": the UnitScope's
  PartCounts counts = {};       ///< elements of each rank's part; empty: even parts
  Work after = {};              ///< reductions only: begins when this rank's other call is complete
};

/// How an all_to_all is made.
struct AllToAllOptions {
  bool async = false;
  std::string unit = {};
  PartCounts send_counts = {};  ///< elements to each rank; empty: even parts
  PartCounts recv_counts = {};  ///< elements from each rank; empty: even parts
};

/// Names what this thread's calls move while it lives.
class UnitScope {
 public:
  explicit UnitScope(std::string unit);
  ~UnitScope();
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;

 private:
  std::string previous_;
};

struct RankState;

/// One rank's end of a group: a cheap handle, for the rank's own thread. Arrays must be defined,
/// contiguous and of one dtype, on the cpu (simulated ranks: on meta, see simulate_ranks(); local:
/// on the cpu or on one GPU that the ranks share; nccl: on the cpu or on the rank's own GPU). On a
/// GPU a call is in order with what the rank's thread asks of its stream, and its host never waits
/// for the device. Their shapes do not matter, only their numbers of elements. Parts of an array
/// are laid out one behind the other in rank order. Wherever an operation has an output and an
/// input, these may not overlap, but the input of an all_gather or gather may be the output's own
/// part, and the output of a reduce_scatter or scatter the input's own part. All may be empty. A
/// default-made Communicator is undefined.
class Communicator {
 public:
  Communicator() = default;
  /// For engines; programs get theirs from launch(), run_ranks() or simulate_ranks().
  Communicator(std::shared_ptr<Engine> engine, std::shared_ptr<RankState> state, std::string axis);

  bool defined() const { return static_cast<bool>(engine_); }
  int rank() const { return engine().rank(); }
  int size() const { return engine().size(); }
  /// This rank's number in the whole world.
  int world_rank() const { return engine().world_ranks()[static_cast<size_t>(rank())]; }
  /// The members' numbers in the whole world, in their order here.
  std::span<const int> world_ranks() const { return engine().world_ranks(); }
  /// The name of this group in errors and in Traffic: "world", or a mesh's axis.
  const std::string& axis() const { return axis_; }
  EngineKind engine_kind() const { return engine().kind(); }
  /// nccl: this rank's own GPU; other engines: the cpu.
  Device device() const { return engine().device(); }

  /// x becomes the reduction of all ranks' x, on every rank, in place.
  Work all_reduce(const Array& x, const CallOptions& options = {}) const;
  /// As all_reduce, on rank `root` alone; the others keep theirs.
  Work reduce(const Array& x, int root, const CallOptions& options = {}) const;
  /// output becomes this rank's part of the reduction of all inputs. The output of halves may be
  /// float32, for sums that go on elsewhere: then it is not rounded.
  Work reduce_scatter(const Array& output, const Array& input,
                      const CallOptions& options = {}) const;
  /// output becomes all inputs, one behind the other.
  /// \snippet test_examples_ranks.cpp all_gather
  Work all_gather(const Array& output, const Array& input, const CallOptions& options = {}) const;
  /// x becomes the root's x.
  Work broadcast(const Array& x, int root, const CallOptions& options = {}) const;
  /// output becomes this rank's part of the root's input; the others may leave theirs undefined.
  Work scatter(const Array& output, const Array& input, int root,
               const CallOptions& options = {}) const;
  /// The root's output becomes all inputs; the others may leave theirs undefined.
  Work gather(const Array& output, const Array& input, int root,
              const CallOptions& options = {}) const;
  /// Part j of this rank's input becomes part rank() of rank j's output.
  Work all_to_all(const Array& output, const Array& input,
                  const AllToAllOptions& options = {}) const;
  /// x goes to rank `to`, whose recv with as many elements must come: a send without async returns
  /// when it has. The n-th send to a rank meets its n-th recv from this one.
  /// \snippet test_examples_ranks.cpp send
  Work send(const Array& x, int to, const CallOptions& options = {}) const;
  Work recv(const Array& x, int from, const CallOptions& options = {}) const;
  /// Returns when every rank has come here.
  void barrier(const CallOptions& options = {}) const;

  /// Ranks with the same color form a group, in order of (key, rank); a negative color belongs to
  /// none and gets an undefined Communicator. All ranks of this group must call it; an Error on
  /// simulated ranks, which cannot ask the others.
  Communicator split(int color, int key, const std::string& axis = "split") const;
  /// The group of these ranks in this order. All ranks of this group must call it: members with
  /// their own list, others with an empty one, which gives an undefined Communicator.
  Communicator group(std::span<const int> ranks, const std::string& axis = "group") const;

  /// What this rank has sent, over all its groups.
  Traffic& traffic() const;
  /// This rank's output: rank 0 prints; the others' text is dropped or, with prefixes, every rank's
  /// lines begin with "[rank] ".
  std::ostream& out() const;

 private:
  Engine& engine() const;
  void check_rank(Collective op, const char* what, int rank) const;
  void check_array(Collective op, const char* what, const Array& array) const;
  void check_pair(Collective op, const Array& output, const Array& input) const;
  void check_devices(Collective op, const Array& output, const Array& input) const;
  void check_counts(Collective op, const PartCounts& counts) const;
  Call make_call(Collective op, const Array& x, int64_t total, const CallOptions& options) const;
  Work post(Call call, const Array& output, const Array& input, bool async) const;
  std::vector<int64_t> exchange(std::span<const int64_t> words) const;

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<RankState> state_;
  std::string axis_;
};

}  // namespace hero::dist
