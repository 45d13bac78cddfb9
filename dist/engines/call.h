#pragma once
// What one rank states when it takes part in a collective, and how statements are compared.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/dtype.h>
#include <hero/core/exchange.h>
#include <hero/core/kernels/combine.h>

namespace hero::dist {

/// The operations of a communicator. `split` is how ranks agree on groups; it carries no arrays.
enum class Op : uint8_t {
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
inline constexpr int kOpCount = 12;

/// How contributions become one: always in rank order 0, 1, ..., N - 1. Halves are added up in
/// float32 and rounded once; integers wrap; for bool sum and max are "or", product and min "and".
/// `mean` divides the sum by the number of ranks, once, and exists for floating dtypes only.
enum class ReduceOp : uint8_t { sum, product, min, max, mean };

/// The same for the devices, in the words of core.
inline core::Combine combine_of(ReduceOp op) { return static_cast<core::Combine>(op); }

/// Who decides in which order a reduction adds up. `ranks`: rank order, the same bits on every
/// engine. `native`: the library that carries the engine (MPI's own reductions; see CallOptions).
enum class Order : uint8_t { ranks, native };

const char* name(Op op);
const char* name(ReduceOp op);
const char* name(Order order);

/// A slice of a packed buffer, in elements.
struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};

/// One rank's statement. Pointers are null where the rank has no such buffer or it is empty.
struct Call {
  Op op = Op::barrier;
  DType dtype = kFloat32;
  ReduceOp reduce = ReduceOp::sum;
  Order order = Order::ranks;
  int root = -1;                     ///< root's rank; -1 where there is none
  int64_t size = 0;                  ///< elements that all ranks must agree on
  std::vector<int64_t> counts;       ///< each rank's elements; empty: even parts
  std::vector<int64_t> send_counts;  ///< all_to_all only: elements to each rank
  std::vector<int64_t> recv_counts;  ///< all_to_all only: elements from each rank
  std::string unit;                  ///< the caller's name for what is moved
  bool accumulate = false;  ///< reduce_scatter only: the sum begins with the output's values
  Device device = kCpu;     ///< of both arrays
  bool moves = true;        ///< false: the ranks only compare, the bytes go another way
  std::shared_ptr<core::Point> ready;  ///< on a device: from here on the arrays may be used
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  /// True for operations that reduce.
  bool reduces() const;
};

/// Part `i` of `size` elements cut for `ranks` ranks: by counts, or evenly with the first parts one
/// longer.
Part part_of(std::span<const int64_t> counts, int64_t size, int ranks, int i);

/// "all_reduce (call 3 of 'world', unit 'fc1')".
std::string describe(const Call& call, uint64_t sequence, const std::string& axis);

/// "rank 3", "ranks 0-2, 5".
std::string rank_list(std::span<const int> ranks);

/// "" when the statements of all ranks agree; else what differs, and who says what. `ranks[i]` is
/// the number by which errors know the rank of calls[i].
std::string disagreement(std::span<const Call> calls, std::span<const int> ranks);

}  // namespace hero::dist
