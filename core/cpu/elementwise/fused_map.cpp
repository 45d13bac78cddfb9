// Fused maps, run block by block: intermediate results stay in the first-level cache, as does a
// result of which only the sums are needed.
#include <algorithm>
#include <optional>
#include <vector>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/elementwise/map_kernels.h>
#include <hero/core/cpu/reduce/tree.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

constexpr size_t kMaxSlots = 16;  // blocks that are in use at a time
constexpr int kNoSlot = -1;

// Blocks of memory that are given out and taken back while a fused map is planned.
class Slots {
 public:
  int take() {
    const auto* const free = std::find(taken_, taken_ + kMaxSlots, false);
    check(free != taken_ + kMaxSlots, "a fused map has too many results at a time");
    taken_[free - taken_] = true;
    return static_cast<int>(free - taken_);
  }
  void give_back(int slot) {
    if (slot != kNoSlot) taken_[slot] = false;
  }

 private:
  bool taken_[kMaxSlots] = {};
};

struct Input {
  std::optional<BlockReader> reader;  // none for a number
  Scalar number;
  bool repeated = false;  // one element, taken for all
  int slot = kNoSlot;     // kNoSlot where the array is read in place, as far as its rows go
};

struct Step {
  MapKernel kernel;
  int16_t arity;
  std::array<int16_t, 4> from;
  unsigned repeated;
  int slot;  // kNoSlot where the result goes straight to its array, or to be summed
  int16_t out;
};

struct FusedMapPlan {
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<BlockWriter> writers;  // none where the result is summed
  DType compute;
  int64_t block;  // elements

  // Elements of this shape.
  FusedMapPlan(std::span<const FusedMapStep> list, std::span<const Operand> operands, DType dtype,
               const Shape& shape, std::span<const Array> outs)
      : compute(dtype), block(int64_t{sizeof(Scratch)} / item_size(dtype)) {
    for (const Array& out : outs) writers.emplace_back(out, dtype);
    Slots slots;
    inputs = std::vector<Input>(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      const Operand& operand = operands[i];
      Input& input = inputs[i];
      if (operand.array) input.reader.emplace(*operand.array, shape, dtype);
      input.number = operand.scalar;
      input.repeated = !operand.array || input.reader->constant();
      const bool in_place =
          !input.repeated && (input.reader->direct() || input.reader->has_rows(1));
      if (!in_place) input.slot = slots.take();
    }
    for (size_t i = 0; i < list.size(); ++i) add(list, i, slots);
  }

  // A result may take the place of what its step is the last one to take.
  void add(std::span<const FusedMapStep> list, size_t i, Slots& slots) {
    const FusedMapStep& step = list[i];
    unsigned repeated = 0;
    for (int k = 0; k < step.arity; ++k) {
      const int64_t from = step.from[static_cast<size_t>(k)];
      if (from < 0) {
        if (inputs[static_cast<size_t>(~from)].repeated) repeated |= 1u << k;
      } else if (!is_taken_after(list, i, static_cast<int>(from))) {
        slots.give_back(steps[static_cast<size_t>(from)].slot);
      }
    }
    if (!kernel_repeats(step.op.index, compute, repeated)) repeated = 0;
    const bool in_place =
        step.out >= 0 && (writers.empty() || writers[static_cast<size_t>(step.out)].has_rows());
    steps.push_back({map_kernel(step.op.index, compute), step.arity, step.from, repeated,
                     in_place ? kNoSlot : slots.take(), step.out});
  }

  // `room`: where a result goes that is summed.
  void run(int64_t begin, int64_t end, std::byte* room = nullptr) const {
    Scratch scratch[kMaxSlots];
    const auto memory = [&](int slot) { return slot == kNoSlot ? nullptr : scratch[slot].bytes; };
    std::vector<const std::byte*> read(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].repeated) continue;
      read[i] = memory(inputs[i].slot);
      repeat(inputs[i], std::min(block, end - begin), memory(inputs[i].slot));
    }
    std::vector<std::byte*> results(steps.size());
    for (int64_t at = begin; at < end;) {
      int64_t count = std::min(block, end - at);
      for (size_t i = 0; i < steps.size(); ++i) {
        results[i] = memory(steps[i].slot);
        if (steps[i].out < 0) continue;
        if (writers.empty()) {
          results[i] = room + (at - begin) * item_size(compute);
          continue;
        }
        const BlockWriter::Row to = writer(steps[i]).row(at, results[i]);
        results[i] = to.first;
        count = std::min(count, to.count);
      }
      count = read_block(at, count, memory, read);
      for (size_t i = 0; i < steps.size(); ++i) {
        const Step& step = steps[i];
        const std::byte* blocks[4];
        for (int k = 0; k < step.arity; ++k) {
          const int64_t from = step.from[static_cast<size_t>(k)];
          blocks[k] =
              from < 0 ? read[static_cast<size_t>(~from)] : results[static_cast<size_t>(from)];
        }
        step.kernel(count, blocks, step.repeated, results[i]);
        if (step.out >= 0 && step.slot != kNoSlot) writer(step).commit(at, count, results[i]);
      }
      at += count;
    }
  }

  const BlockWriter& writer(const Step& step) const {
    return writers[static_cast<size_t>(step.out)];
  }

  // Inputs from `at` on, of which there are `most` or, where a row ends before, fewer: how many.
  template <class Memory>
  int64_t read_block(int64_t at, int64_t most, const Memory& memory,
                     std::vector<const std::byte*>& read) const {
    int64_t count = most;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].slot != kNoSlot) continue;
      const BlockReader::Row row = inputs[i].reader->row(at);
      read[i] = row.first;
      count = std::min(count, row.count);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].slot == kNoSlot || inputs[i].repeated) continue;
      read[i] = inputs[i].reader->read(at, count, memory(inputs[i].slot));
    }
    return count;
  }

  void repeat(const Input& input, int64_t count, std::byte* to) const {
    if (input.reader) {
      input.reader->read(0, count, to);
    } else {
      fill_block(to, count, compute, input.number);
    }
  }
};

// The sum of n elements of T, and of such sums of the nodes of a row.
struct Sums {
  void (*of_node)(const std::byte* from, int64_t n, std::byte* to);
  void (*of_row)(int64_t n, int64_t most, std::byte* parts, std::byte* to);
};
template <class T>
constexpr Sums kSums = {
    [](const std::byte* from, int64_t n, std::byte* to) {
      *reinterpret_cast<T*>(to) = reduce_tree<Add>(reinterpret_cast<const T*>(from), n, T(0));
    },
    [](int64_t n, int64_t most, std::byte* parts, std::byte* to) {
      T* next = reinterpret_cast<T*>(parts);
      *reinterpret_cast<T*>(to) = *join_rows(n, most, 1, next, join_neighbours<Add, T>);
    }};

// The sums of rows of n elements each, by parts of rows that are nodes of their trees.
void sum_rows_of(const FusedMapPlan& plan, const Sums& sums, int64_t rows, int64_t n,
                 std::byte* out) {
  constexpr int64_t kMost = 2048;  // elements at a time
  const int64_t item = item_size(plan.compute);
  std::vector<std::pair<int64_t, int64_t>> nodes;
  split_rows(0, n, kMost, nodes);
  const auto count = static_cast<int64_t>(nodes.size());
  const Workspace<std::byte> parts(count == 1 ? 0 : rows * count * item);
  std::byte* const to = count == 1 ? out : parts.data();
  const auto node = [&](int64_t task) { return nodes[static_cast<size_t>(task % count)]; };
  parallel_for(rows * count, std::max<int64_t>(1, kGrain / nodes[0].second),
               [&](int64_t begin, int64_t end) {
                 const Workspace<std::byte> room(kMost * item);
                 for (int64_t task = begin; task < end;) {
                   int64_t last = task, size = 0;
                   while (last < end && size + node(last).second <= kMost) {
                     size += node(last++).second;
                   }
                   const int64_t first = task / count * n + node(task).first;
                   plan.run(first, first + size, room.data());
                   for (const std::byte* from = room.data(); task < last; ++task) {
                     sums.of_node(from, node(task).second, to + task * item);
                     from += node(task).second * item;
                   }
                 }
               });
  for (int64_t r = 0; r < rows && count > 1; ++r) {
    sums.of_row(n, kMost, to + r * count * item, out + r * item);
  }
}

}  // namespace

void BasicKernels::run(const call::FusedMapSum& call) {
  const int64_t rows = call.out.numel(), n = rows > 0 ? call.shape.numel() / rows : 0;
  if (n == 0) return run(call::Fill{call.out, 0});
  const FusedMapPlan plan(call.steps, call.inputs, call.compute, call.shape, {});
  sum_rows_of(plan, call.compute == kFloat64 ? kSums<double> : kSums<float>, rows, n,
              call.out.bytes());
}

void BasicKernels::run(const call::FusedMap& call) {
  const int64_t n = call.outs[0].numel();
  if (n == 0) return;
  const FusedMapPlan plan(call.steps, call.inputs, call.compute, call.outs[0].shape(), call.outs);
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) { plan.run(begin, end); });
}

}  // namespace hero::core::cpu
