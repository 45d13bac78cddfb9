#include <vector>

#include <hero/dist/backends/copy_bytes.h>
#include <hero/dist/backends/local/move.h>
#include <hero/dist/backends/ordered_reduce.h>

namespace hero::dist {
namespace {

// Copies other ranks' slices into this rank's output, beginning with the next rank, so that not all
// ranks read from the same rank at once.
template <class Copy>
void for_each_other(int parties, int me, const Copy& copy) {
  for (int i = 1; i <= parties; ++i) copy((me + i) % parties);
}

}  // namespace

void LocalMove::copy_part(const std::byte* from, int64_t from_begin, Chunk to) const {
  if (to.count == 0) return;
  const int64_t item = item_size(call_.dtype), bytes = to.count * item;
  const std::byte* const source = from + from_begin * item;
  std::byte* const target = call_.output + to.begin * item;
  if (exchange_ == nullptr) {
    copy_bytes(source, target, bytes, call_.size * item);
  } else if (source != target) {
    exchange_->copy(source, target, bytes);
  }
}

void LocalMove::reduce_part(Chunk part, bool in_place) const {
  if (part.count == 0) return;
  const int64_t begin = part.begin * item_size(call_.dtype);
  std::vector<const std::byte*> inputs;
  for (const Call& call : round_.calls) inputs.push_back(call.input + begin);
  std::byte* const output = call_.output + (in_place ? begin : 0);
  if (exchange_ == nullptr) {
    ordered_reduce(call_.fold(), inputs, output, part.count);
  } else {
    exchange_->combine(call_.fold(), inputs, output, part.count);
  }
}

void LocalMove::pull() const {
  if (!call_.moves) return;
  const bool root = me_ == call_.root;
  switch (call_.op) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return reduce_part(call_.counts.chunk(me_), call_.op == Collective::all_reduce);
    case Collective::reduce:
      return root ? reduce_part({0, call_.size}, true) : void();
    case Collective::gather:
    case Collective::all_gather:
    case Collective::split:
      if (call_.op == Collective::gather && !root) return;
      return for_each_other(parties(), me_,
                            [&](int i) { copy_part(call_of(i).input, 0, call_.counts.chunk(i)); });
    case Collective::broadcast:
      return root ? void() : copy_part(call_of(call_.root).input, 0, {0, call_.size});
    case Collective::scatter: {
      const Chunk own = call_.counts.chunk(me_);
      return copy_part(call_of(call_.root).input, own.begin, {0, own.count});
    }
    case Collective::all_to_all:
      return for_each_other(parties(), me_, [&](int i) {
        const Chunk from = call_of(i).send_counts.chunk(me_);
        copy_part(call_of(i).input, from.begin, call_.recv_counts.chunk(i));
      });
    case Collective::recv:
      return copy_part(call_of(0).input, 0, {0, call_.size});
    case Collective::send:
    case Collective::barrier:
      return;
  }
}

void LocalMove::pull_reduced() const {
  if (!call_.moves) return;
  for_each_other(parties(), me_, [&](int i) {
    const Chunk part = call_.counts.chunk(i);
    copy_part(call_of(i).output, part.begin, part);
  });
}

}  // namespace hero::dist
