#include <algorithm>
#include <tuple>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/parts.h>

namespace hero::dist {
namespace {

// The pieces of one value among what all ranks hold of it; buffers and whole values are rank 0's.
std::vector<Piece> pieces_of(const Held& value, std::vector<Piece> held) {
  const int64_t numel = value.place.whole.numel();
  if (numel == 0) return {{0, 0, 0}};
  std::sort(held.begin(), held.end(), [](const Piece& a, const Piece& b) {
    return std::tuple(a.first, -a.count, a.rank) < std::tuple(b.first, -b.count, b.rank);
  });
  std::vector<Piece> chosen;
  int64_t at = 0;
  for (const Piece& piece : held) {
    const bool known =
        !chosen.empty() && chosen.back().first == piece.first && chosen.back().count == piece.count;
    if (piece.count == 0 || known) continue;
    check(piece.first == at, "checkpoint: the parts of '", value.name(), "' ",
          piece.first < at ? "overlap" : "leave a hole", " at element ", std::min(at, piece.first),
          "; all ranks must be on one rung and between two steps");
    at += piece.count;
    chosen.push_back(piece);
  }
  check(at == numel, "checkpoint: the parts of '", value.name(), "' end at element ", at, " of ",
        numel);
  return chosen;
}

}  // namespace

std::vector<Held> held_by(nn::Module& module) {
  std::vector<Held> values;
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind == nn::Slot::Kind::buffer_not_saved || !slot->tensor.defined()) continue;
    const Tensor& leaf = slot->tensor;
    const auto known = std::find_if(values.begin(), values.end(),
                                    [&](const Held& v) { return is_same(v.leaf, leaf); });
    if (known != values.end()) {
      known->names.push_back(name);
      continue;
    }
    const Partition* part = partition(leaf);
    const Place place = part != nullptr ? Place{part->whole, part->first, leaf.numel()}
                                        : Place{leaf.shape(), 0, leaf.numel()};
    values.push_back({{name}, leaf, place});
  }
  return values;
}

void divide_work(const Communicator& world, std::vector<Held>& values) {
  const int ranks = size_of(world);
  const auto n = static_cast<int64_t>(values.size());
  std::vector<int64_t> places;
  for (const Held& value : values) {
    places.push_back(value.place.first);
    places.push_back(value.place.count);
  }
  if (ranks > 1) {
    const Array all = Array::empty({ranks * n * 2}, kInt64);
    world.all_gather(all, Array::from(places, {n * 2}), {.unit = "checkpoint"});
    places = all.to_vector<int64_t>();
  }
  for (int64_t i = 0; i < n; ++i) {
    std::vector<Piece> held;
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<size_t>((r * n + i) * 2);
      held.push_back({r, places[at], places[at + 1]});
    }
    Held& value = values[static_cast<size_t>(i)];
    value.pieces = pieces_of(value, std::move(held));
  }
}

}  // namespace hero::dist
