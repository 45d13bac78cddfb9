#include <cstring>
#include <vector>

#include <hero/core/error.h>
#include <hero/dist/backends/ordered_reduce.h>
#include <hero/dist/backends/simulated/identical_inputs.h>

namespace hero::dist {
namespace {

constexpr const char* kNoValues = "simulated ranks have no values: make it on meta";

void check_said(const Call& call, const core::Array& said) {
  check(said.nbytes() <= kMostSaidBytes, name(call.op), ": the array is on cpu and has ",
        said.nbytes(), " bytes; up to ", kMostSaidBytes,
        " are taken for what all ranks say; otherwise ", kNoValues);
}

// Throws an Error if the parts have sizes that this rank cannot know from its own.
void check_even(const Call& call, bool even) {
  check(even, name(call.op), ": parts of different sizes on the cpu; ", kNoValues);
}

// Like memmove(), also of nothing.
void move_bytes(const std::byte* from, std::byte* to, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

void reduce_alike(const Call& call, const std::byte* from, std::byte* to, int64_t count,
                  int ranks) {
  if (count == 0 || to == nullptr) return;
  const bool repeats =
      call.reduce == ReduceOp::sum || call.reduce == ReduceOp::product || call.divide_by > 0.0;
  const std::vector<const std::byte*> inputs(repeats ? static_cast<size_t>(ranks) : 1, from);
  core::Fold fold = call.fold();
  if (!repeats) fold.op = core::Combine::max;  // of one input: itself
  ordered_reduce(fold, inputs, to, count);
}

void gather_alike(const Call& call, const core::Array& input, const core::Array& output,
                  int ranks) {
  if (!output.defined()) return;
  check_even(call, call.counts.all_equal());
  for (int i = 0; i < ranks; ++i) {
    const int64_t begin = call.counts.first(i) * item_size(call.dtype);
    move_bytes(call.input, call.output + begin, input.nbytes());
  }
}

}  // namespace

void set_as_if_identical(const Call& call, const core::Array& input, const core::Array& output,
                         int me, int ranks) {
  if (!input.defined() && !output.defined()) return;
  check_said(call, input.defined() ? input : output);
  const int64_t item = item_size(call.dtype);
  switch (call.op) {
    case Collective::all_reduce:
    case Collective::reduce:
      return reduce_alike(call, call.input, call.output, call.size, ranks);
    case Collective::reduce_scatter: {
      const Chunk own = call.counts.chunk(me);
      if (own.count == 0) return;
      return reduce_alike(call, call.input + own.begin * item, call.output, own.count, ranks);
    }
    case Collective::all_gather:
    case Collective::gather:
    case Collective::split:
      return gather_alike(call, input, output, ranks);
    case Collective::scatter: {
      check(input.defined(), name(call.op), ": rank ", me,
            " cannot know the root's array on the cpu; ", kNoValues);
      const Chunk own = call.counts.chunk(me);
      if (own.count == 0) return;
      return move_bytes(call.input + own.begin * item, call.output, own.count * item);
    }
    case Collective::all_to_all: {
      check_even(call, call.send_counts.all_equal() && call.recv_counts == call.send_counts);
      const int64_t bytes = call.send_counts.count(me) * item;
      for (int i = 0; i < ranks && bytes > 0; ++i) {
        move_bytes(call.input + me * bytes, call.output + i * bytes, bytes);
      }
      return;
    }
    case Collective::broadcast:  // the root's array is as this one
    case Collective::send:
    case Collective::recv:
    case Collective::barrier:
      return;
  }
}

void check_message(const Call& call) {
  check(call.device != kCpu, name(call.op), ": the array is on cpu; ", kNoValues);
}

}  // namespace hero::dist
