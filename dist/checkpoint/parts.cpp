#include <algorithm>
#include <set>
#include <string_view>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/checkpoint/parts.h>

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

// The pieces of one value among what all ranks hold of it; buffers and whole values are rank 0's.
std::vector<Piece> pieces_of(const Held& value, std::vector<Piece> held) {
  const Shape& whole = value.range.whole;
  if (whole.numel() == 0) return {{0, {whole, {}, 0, 0}}};
  std::stable_sort(held.begin(), held.end(), [](const Piece& a, const Piece& b) {
    return begin_of(a.range) < begin_of(b.range);
  });
  std::vector<const ShardRange*> ranges;
  for (const Piece& piece : held) ranges.push_back(&piece.range);
  const std::string fault = cover_fault(whole, ranges);
  check(fault.empty(), "checkpoint: the parts of '", value.name(), "' ", fault,
        "; all ranks must be on one rung and between two steps");
  return held;
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
    const ShardRange range = part != nullptr
                                 ? ShardRange{part->whole, part->boxes, part->first, leaf.numel()}
                                 : ShardRange{leaf.shape(), {}, 0, leaf.numel()};
    values.push_back({{name}, leaf, simplest(range)});
  }
  return values;
}

void divide_work(const Communicator& world, std::vector<Held>& values) {
  std::string mine;  // a line a value: equal texts are equal places
  for (const Held& value : values) mine += part_text(value.range) + "\n";
  const std::vector<std::string> texts = tell_all(world, mine);
  std::vector<std::vector<std::string_view>> lines;
  for (const std::string& text : texts) {
    lines.push_back(lines_in(text));
    check(lines.back().size() == lines.front().size(), "checkpoint: rank 0 holds ",
          lines.front().size(), " values, rank ", lines.size() - 1, " ", lines.back().size(),
          "; build the same module on every rank");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<Piece> held;
    std::set<std::string_view> known;
    Shape whole;
    for (size_t r = 0; r < lines.size(); ++r) {
      if (!known.insert(lines[r][i]).second) continue;
      const ShardRange range = range_of(lines[r][i]);
      if (r == 0) whole = range.whole;
      check(range.whole == whole, "checkpoint: '", values[i].name(), "' is ", whole,
            " on rank 0 and ", range.whole, " on rank ", r,
            "; build the same module on every rank");
      if (range.count > 0) held.push_back({static_cast<int>(r), range});
    }
    values[i].pieces = pieces_of(values[i], std::move(held));
  }
}

}  // namespace hero::dist
