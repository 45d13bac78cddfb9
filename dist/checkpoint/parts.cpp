#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/parts.h>
#include <hero/dist/data_parallel/sharded_module.h>

namespace hero::dist {
namespace {

ShardRange range_of(std::string_view line) {
  const std::optional<ShardRange> range = parse_part(line);
  check(range.has_value(), "checkpoint: a rank says that it holds '", line, "'");
  return *range;
}

std::vector<std::string_view> lines_in(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
  }
  return lines;
}

int64_t begin_of(const ShardRange& range) {
  if (range.boxes.empty()) return range.first;
  layout::Run run;
  layout::Runs runs = range.runs();
  return runs.next(run) ? run.whole : 0;
}

// The pieces of a value, from the ranges that all ranks hold of it.
std::vector<Piece> checked_pieces(const ShardedValue& value, std::vector<Piece> held) {
  std::stable_sort(held.begin(), held.end(), [](const Piece& a, const Piece& b) {
    return begin_of(a.range) < begin_of(b.range);
  });
  std::vector<const ShardRange*> ranges;
  for (const Piece& piece : held) ranges.push_back(&piece.range);
  const std::string fault = cover_fault(value.range.whole, ranges);
  check(fault.empty(), "checkpoint: the parts of '", value.name(), "' ", fault,
        "; all ranks must be under one strategy and between two steps");
  return held;
}

// [note: places that no rank sends] Which rank holds which elements of a shard follows from the
// units that cut it, on every rank alike. Whole values are rank 0's. What a program cut into boxes
// is known to those alone that hold them, and so are shards of a group that is a part of the
// communicator's ranks: nothing is computed of these.
class PieceOwners {
 public:
  explicit PieceOwners(const Communicator& world) {
    if (!world.defined()) return;
    for (const int rank : world.world_ranks()) numbers_.emplace(rank, numbers_.size());
  }

  // All pieces of a value; nothing where ranks must be asked.
  std::optional<std::vector<Piece>> pieces_of(const ShardedValue& value) {
    const Shape& whole = value.range.whole;
    if (partition(value.leaf) == nullptr || whole.numel() == 0) {
      return std::vector<Piece>{{0, {whole, {}, 0, whole.numel()}}};
    }
    const auto replica = std::dynamic_pointer_cast<ShardedModule>(parameter_owner(value.leaf));
    if (!replica || !has_all(*replica)) return {};
    const auto parts = replica->parts_of(value.leaf);
    if (!parts) return {};
    std::vector<Piece> pieces;
    for (const auto& [part, holders] : *parts) {
      const int rank = lowest_of(holders);
      check(rank >= 0, "checkpoint: no rank holds elements ", part.begin, " to ",
            part.begin + part.count - 1, " of '", value.name(),
            "'; save and load with all ranks among which the module is sharded");
      pieces.push_back({rank, {whole, {}, part.begin, part.count}});
    }
    check_own(value, pieces);
    return pieces;
  }

 private:
  static void check_own(const ShardedValue& value, const std::vector<Piece>& pieces) {
    const ShardRange& mine = value.range;
    const bool known = std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      return piece.range.first == mine.first && piece.range.count == mine.count;
    });
    check(known || mine.count == 0, "checkpoint: '", value.name(), "' holds ", part_text(mine),
          ", which is no shard that fully_shard() or ZeRO cut; leave the partitions of shards "
          "alone");
  }
  // Whether the module is sharded among all of the communicator's ranks, and perhaps others.
  bool has_all(const ShardedModule& replica) {
    const auto [found, fresh] = has_all_.emplace(&replica, false);
    if (!fresh) return found->second;
    const Groups& groups = replica.groups();
    const auto ranks = (groups.replicas.defined() ? groups.all : groups.shard).world_ranks();
    const auto here = std::count_if(ranks.begin(), ranks.end(),
                                    [&](int rank) { return numbers_.count(rank) > 0; });
    found->second = !numbers_.empty() && static_cast<size_t>(here) == numbers_.size();
    return found->second;
  }
  // Of those that hold the same, the lowest of the communicator's ranks; -1 where there is none.
  int lowest_of(const std::vector<int>& holders) const {
    int lowest = -1;
    for (const int holder : holders) {
      const auto found = numbers_.find(holder);
      if (found != numbers_.end() && (lowest < 0 || found->second < lowest)) lowest = found->second;
    }
    return lowest;
  }

  std::map<int, int> numbers_ = {};  // the communicator's ranks, by their numbers in the world
  std::map<const ShardedModule*, bool> has_all_ = {};
};

// What must be the same on all ranks, a line a piece.
void add_lines(const ShardedValue& value, std::string& lines) {
  const std::string name = value.name() + " " + hero::name(value.leaf.dtype()) + " ";
  if (value.pieces.empty())
    lines += name + to_string(value.range.whole) + " in parts that ranks tell\n";
  for (const Piece& piece : value.pieces) {
    lines += name + part_text(piece.range) + " on rank " + std::to_string(piece.rank) + "\n";
  }
}

// Other boxes than one that is all of it, which is what a stage of a pipeline has of its own.
bool is_cut_into_boxes(const Partition& part) {
  return !part.boxes.empty() && (part.boxes.size() > 1 || part.boxes[0].extent != part.whole);
}

// The first of the ranks among which a value is sharded; -1 where it is not, or cut into boxes.
int first_sharer(const ShardedValue& value) {
  const auto replica = std::dynamic_pointer_cast<ShardedModule>(parameter_owner(value.leaf));
  const Partition* const part = partition(value.leaf);
  if (!replica || part == nullptr || is_cut_into_boxes(*part)) return -1;
  return replica->groups().shard.world_ranks().front();
}

// Ranks tell each other what they hold of those values whose pieces nobody can compute. Where
// several groups of ranks have each sharded the same values, one may have cut them at other places
// than the next, as what lies beside them differs: the first group's pieces count.
std::vector<std::vector<Piece>> ask_for_pieces(const Communicator& world,
                                               const std::vector<ShardedValue*>& values,
                                               const std::string& mine) {
  const std::vector<std::string> texts = tell_all(world, mine);
  std::vector<std::vector<Piece>> pieces;
  std::vector<std::vector<std::string_view>> lines;
  for (const std::string& text : texts) lines.push_back(lines_in(text));
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<Piece> held;
    std::set<std::string_view> known;
    std::string_view sharer;  // of the first group that holds something
    for (size_t r = 0; r < lines.size(); ++r) {
      const std::string_view line = lines[r].at(i), by = line.substr(0, line.find(':'));
      const std::string_view part = line.substr(by.size() + 1);
      const ShardRange range = range_of(part);
      if (range.count == 0) continue;
      if (by != "-1" && sharer.empty()) sharer = by;
      if (by != "-1" && by != sharer) continue;
      if (known.insert(part).second) held.push_back({static_cast<int>(r), range});
    }
    pieces.push_back(checked_pieces(*values[i], std::move(held)));
  }
  return pieces;
}

// Whether a rank's answer is yes on all ranks. A collective.
bool all_say(const Communicator& world, bool yes) {
  const Array answer = Array::full({1}, yes ? 1 : 0, kInt64);
  world.all_reduce(answer, {.op = ReduceOp::min, .unit = "checkpoint"});
  return answer.item<int64_t>() == 1;
}

// Fills in the pieces of those values. Where every rank holds what it held when `exchanged` was
// filled in, all of them say so, and nothing else.
void exchange_pieces(const Communicator& world, const std::vector<ShardedValue*>& values,
                     ExchangedPieces& exchanged) {
  if (values.empty()) return;
  std::string names, mine;  // a line a value: equal texts are equal places
  for (const ShardedValue* value : values) {
    names += value->name() + " " + to_string(value->range.whole) + "\n";
    mine += std::to_string(first_sharer(*value)) + ":" + part_text(value->range) + "\n";
  }
  if (!all_say(world, exchanged.mine == names + mine)) {
    exchanged = {};
    exchanged.pieces = ask_for_pieces(world, values, mine);
    exchanged.mine = names + mine;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i]->pieces = exchanged.pieces[i];
    values[i]->exchanged = true;
  }
}

}  // namespace

std::vector<ShardedValue> sharded_values(nn::Module& module) {
  std::vector<ShardedValue> values;
  std::unordered_map<const detail::TensorImpl*, size_t> places;
  for (const auto& [name, slot] : module.slots()) {
    if (slot->kind == nn::Slot::Kind::buffer_not_saved || !slot->tensor.defined()) continue;
    const Tensor leaf = optimizer_leaves({slot->tensor}).front();
    const auto [place, fresh] = places.emplace(leaf.impl(), values.size());
    if (!fresh) {
      values[place->second].names.push_back(name);
      continue;
    }
    const Partition* part = partition(leaf);
    const ShardRange range = part != nullptr
                                 ? ShardRange{part->whole, part->boxes, part->first, leaf.numel()}
                                 : ShardRange{leaf.shape(), {}, 0, leaf.numel()};
    values.push_back({{name}, leaf, simplest(range)});
  }
  return values;
}

void check_use(const char* op, const std::vector<ShardedValue>& values, ValueUse use) {
  for (const ShardedValue& value : values) {
    check_own_values(op, value.name(), value.leaf, use);
    const auto replica = std::dynamic_pointer_cast<ShardedModule>(parameter_owner(value.leaf));
    if (replica) replica->check_not_summoned(op);
  }
}

void divide_work(const Communicator& world, std::vector<ShardedValue>& values, const char* op,
                 ValueUse use, ExchangedPieces& exchanged) {
  PieceOwners places(world);
  std::string lines;
  std::vector<ShardedValue*> unknown;
  agree(world, [&] {
    check_use(op, values, use);
    for (ShardedValue& value : values) {
      std::optional<std::vector<Piece>> pieces = places.pieces_of(value);
      if (pieces) value.pieces = std::move(*pieces);
      if (!pieces) unknown.push_back(&value);
      add_lines(value, lines);
    }
  });
  same_lines(world, "checkpoint: ranks hold different parts", lines,
             "build the same module on every rank, under one strategy, and save between two steps");
  exchange_pieces(world, unknown, exchanged);
}

}  // namespace hero::dist
