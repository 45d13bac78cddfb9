#pragma once
// What one rank states when it takes part in a collective, and how statements are compared.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <hero/core/device.h>
#include <hero/core/dtype.h>
#include <hero/core/exchange.h>
#include <hero/core/kernels/combine.h>
#include <hero/dist/backends/chunk_counts.h>
#include <hero/dist/backends/digest.h>
#include <hero/dist/backends/timeouts.h>

namespace hero::dist {

/// The operations of a communicator: the collectives, and messages (send, recv), which the backends
/// match and compare in the same way. In `split` ranks agree on new groups; it has no arrays.
enum class Collective : uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  scatter,
  gather,
  all_to_all,
  send,
  recv,
  barrier,
  split,
};
inline constexpr int kCollectiveCount = 12;

/// How a reduction combines the ranks' contributions, in the order given by Order. Half precision
/// is added up in float32 and rounded once; integers wrap; for bool, sum and max are "or", product
/// and min are "and". `mean` divides the sum by the number of ranks, once, and exists for floating
/// dtypes only.
enum class ReduceOp : uint8_t { sum, product, min, max, mean };

/// The corresponding operation of core, which the kernels take.
inline core::Combine combine_of(ReduceOp op) { return static_cast<core::Combine>(op); }

/// In which order a reduction of N ranks adds up. The first two give the same bits on every
/// backend.
///
/// `tree`: T[0, N) = T[0, p) + T[p, N), where T[r, r + 1) is rank r's contribution and p the
/// largest power of two below N. An aligned group of 2^k ranks is a subtree, so a sum within such
/// groups and then over the groups is bitwise equal to the sum over all ranks. optim::Accumulator
/// adds up the micro-batches of one process in the same order. For up to three ranks `tree` equals
/// `ranks`. `ranks`: rank 0's contribution, plus rank 1's, plus rank 2's, ... `native`: the order
/// of the library behind the backend (MPI, NCCL; see CallOptions), which gives other bits. The
/// backends without a library, local and simulated, treat it as `tree`.
enum class Order : uint8_t { tree, ranks, native };

const char* name(Collective op);
const char* name(ReduceOp op);
const char* name(Order order);

class Pending;
class FlightRecorder;

/// Where a call is noted, if it is: see FlightRecorder.
struct FlightEntry {
  std::shared_ptr<FlightRecorder> recorder = {};
  uint64_t number = 0;
};

/// One rank's statement. Pointers are null where the rank has no such buffer or it is empty.
struct Call {
  Collective op = Collective::barrier;
  DType dtype = kFloat32;
  ReduceOp reduce = ReduceOp::sum;
  Order order = Order::tree;
  double divide_by = 0.0;   ///< a mean's divisor; 0: the number of ranks
  int ranks_of_host = 0;    ///< two_levels(): the h ranks of each host; otherwise 0
  int root = -1;            ///< root's rank; -1 where there is none
  int64_t size = 0;         ///< number of elements, the same on all ranks
  ChunkCounts counts;       ///< how `size` is cut; messages and barriers may leave it empty
  ChunkCounts send_counts;  ///< all_to_all only: elements to each rank
  ChunkCounts recv_counts;  ///< all_to_all only: elements from each rank
  std::string unit;         ///< the caller's name for the data, such as that of an FSDP unit
  std::string declared;  ///< text that must be the same on all ranks; see Communicator::declare()
  /// Dtype of a reduction's output: `dtype`, or also kFloat32 if that is half precision.
  DType result = kFloat32;
  Device device = kCpu;                 ///< device of both arrays
  Phase phase = PhaseScope::current();  ///< selects the time-out, see Timeouts
  bool awaited = false;                 ///< true: its rank waits for it at once
  /// False: the ranks only compare their statements; another backend moves the data.
  bool moves = true;
  /// The number by which errors name the call; absent: its place in its group.
  std::optional<uint64_t> number = {};
  /// The arrays may be used when that call is complete; null: at once.
  std::shared_ptr<Pending> after;
  /// On a device: the event in the stream after which the arrays may be used.
  std::shared_ptr<core::DeviceEvent> ready;
  FlightEntry flight = {};  ///< the entry of the call in its rank's flight recorder
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  /// Whether the operation is a reduction.
  bool reduces() const;
  /// For reductions: the elements that rank i adds up for all ranks. In a reduce the root adds up
  /// all of them; otherwise rank i adds up chunk i of `counts`. (In an all_reduce of floating
  /// numbers, the nccl backend chooses other parts.)
  Chunk summed_by(int i) const;
  /// Whether it is a reduction in Order::tree of ranks that lie on several hosts as ranks_of_host()
  /// says (hosts.h). It is then added up within each host first: for every rank with index j in its
  /// host, the rank with index j adds up what its host contributes, in partial_dtype(), and that
  /// rank adds up the partial sums of the hosts. These are subtrees, so the bits are the same.
  bool two_levels() const { return ranks_of_host > 0; }
  /// The dtype of a host's partial results: float32 for what of half precision is added up, so that
  /// it is rounded once; otherwise `dtype`.
  DType partial_dtype() const;
  /// For reductions: how contributions are combined.
  core::Fold fold() const {
    return {combine_of(reduce), order != Order::ranks, dtype, result, divide_by};
  }
  /// In two levels: how those of a host are combined, into partial_dtype(), and then the partial
  /// results of the hosts; `ranks` is the number of ranks on all hosts.
  core::Fold fold_within() const;
  core::Fold fold_over_hosts(int ranks) const;
};

/// "all_reduce (call 3 of 'world', unit 'fc1')".
std::string describe(const Call& call, uint64_t sequence, const std::string& axis);

/// "rank 3", "ranks 0-2, 5".
std::string rank_list(std::span<const int> ranks);

/// Returns "" if the statements of all ranks agree; otherwise a text that says what differs and
/// what each rank states. `ranks[i]` is the number by which errors name the rank of calls[i].
std::string disagreement(std::span<const Call> calls, std::span<const int> ranks);

/// The digest of a statement. Two ranks' digests are equal exactly if disagreement() finds no
/// difference in the fields that must be the same on all ranks. A send and its matching recv have
/// the same digest.
Digest digest_of(const Call& call);

/// The balance of member `me` of a group for an all_to_all: the balances of all members add up to
/// zero exactly if every rank sends to every other rank as many elements as that rank expects. Zero
/// for other operations.
Digest balance_of(const Call& call, int me);

/// Returns "" if rank `from` of an all_to_all sends to rank `to` as many elements as `to` expects;
/// otherwise a text that says what differs. `send` are the send_counts that `from` stated, `recv`
/// the recv_counts that `to` stated; `ranks` as in disagreement().
std::string count_disagreement(const ChunkCounts& send, int from, const ChunkCounts& recv, int to,
                               std::span<const int> ranks);

}  // namespace hero::dist
