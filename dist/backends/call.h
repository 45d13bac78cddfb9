#pragma once
// What one rank states when it takes part in a collective, and how statements are compared.
#include <cstddef>
#include <cstdint>
#include <memory>
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

/// What the ranks of a communicator do together: the collectives, and messages, which are met
/// alike. `split` is how ranks agree on groups; it carries no arrays.
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

/// How contributions become one, in the order that Order says. Halves are added up in float32 and
/// rounded once; integers wrap; for bool sum and max are "or", product and min "and".
/// `mean` divides the sum by the number of ranks, once, and exists for floating dtypes only.
enum class ReduceOp : uint8_t { sum, product, min, max, mean };

/// The same for the devices, in the words of core.
inline core::Combine combine_of(ReduceOp op) { return static_cast<core::Combine>(op); }

/// In which order a reduction of N ranks adds up. The first two give the same bits on every
/// backend.
///
/// `tree`: T[0, N) = T[0, p) + T[p, N), where T[r, r + 1) is rank r's contribution and p the
/// largest power of two below N. An aligned group of 2^k ranks is a subtree, so a sum within such
/// groups and then over them is the sum over all; one process adds up its micro-batches so with
/// optim::Accumulator. Up to three ranks it is the order of ranks.
/// `ranks`: rank 0's contribution, plus rank 1's, plus rank 2's, ...
/// `native`: that of the library which carries the backend (MPI, NCCL; see CallOptions), whose bits
/// are its own. The backends without one, local and simulated, add up in a tree.
enum class Order : uint8_t { tree, ranks, native };

const char* name(Collective op);
const char* name(ReduceOp op);
const char* name(Order order);

class Pending;

/// One rank's statement. Pointers are null where the rank has no such buffer or it is empty.
struct Call {
  Collective op = Collective::barrier;
  DType dtype = kFloat32;
  ReduceOp reduce = ReduceOp::sum;
  Order order = Order::tree;
  double divide_by = 0.0;   ///< a mean's divisor; 0: the number of ranks
  int root = -1;            ///< root's rank; -1 where there is none
  int64_t size = 0;         ///< elements that all ranks must agree on
  ChunkCounts counts;       ///< how `size` is cut; messages and barriers may leave it empty
  ChunkCounts send_counts;  ///< all_to_all only: elements to each rank
  ChunkCounts recv_counts;  ///< all_to_all only: elements from each rank
  std::string unit;         ///< the caller's name for what is moved
  std::string declared;     ///< what its rank has done before; see Communicator::declare()
  DType result = kFloat32;  ///< of a reduction's output: `dtype`, or float32 where that is a half
  Device device = kCpu;     ///< of both arrays
  Phase phase = PhaseScope::current();  ///< by which its rank's time-out goes
  bool awaited = false;                 ///< its rank waits for it at once
  bool moves = true;                    ///< false: the ranks only compare, the bytes go another way
  std::shared_ptr<Pending> after;       ///< the arrays may be used when that call is complete
  std::shared_ptr<core::Point> ready;   ///< on a device: from here on the arrays may be used
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  /// True for operations that reduce.
  bool reduces() const;
  /// Of those, how.
  core::Fold fold() const {
    return {combine_of(reduce), order != Order::ranks, dtype, result, divide_by};
  }
};

/// "all_reduce (call 3 of 'world', unit 'fc1')".
std::string describe(const Call& call, uint64_t sequence, const std::string& axis);

/// "rank 3", "ranks 0-2, 5".
std::string rank_list(std::span<const int> ranks);

/// "" when the statements of all ranks agree; else what differs, and who says what. `ranks[i]` is
/// the number by which errors know the rank of calls[i].
std::string disagreement(std::span<const Call> calls, std::span<const int> ranks);

/// What stands for a statement: two ranks' are the same exactly when disagreement() finds nothing
/// in what both must state alike. The ends of a message have the same one.
Digest digest_of(const Call& call);

/// What member `me` of a group says of an all_to_all's counts: all members' add up to nothing
/// exactly when every rank sends every other as many elements as that expects. Else nothing.
Digest balance_of(const Call& call, int me);

/// "" when rank `from` of an all_to_all sends rank `to` as many elements as that expects of it;
/// else what differs. `send` is what `from` stated, `recv` what `to` did; `ranks` as above.
std::string count_disagreement(const ChunkCounts& send, int from, const ChunkCounts& recv, int to,
                               std::span<const int> ranks);

}  // namespace hero::dist
