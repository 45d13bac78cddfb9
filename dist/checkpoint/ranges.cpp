#include <algorithm>
#include <charconv>
#include <queue>

#include <hero/core/error.h>
#include <hero/dist/checkpoint/ranges.h>

namespace hero::dist {
namespace {

constexpr std::string_view kOf = " of ", kIn = " in ";

// Parses a text from its beginning. Each function returns false if the text continues differently.
class PlaceReader {
 public:
  explicit PlaceReader(std::string_view text) : rest_(text) {}

  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool number(int64_t& value) {
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) return false;
    rest_.remove_prefix(static_cast<size_t>(stop - rest_.data()));
    return true;
  }
  // Sizes whose product can be counted; a scalar has none.
  bool shape(Shape& shape) {
    if (done() || rest_.starts_with(kIn)) return true;
    int64_t padded = 1;  // sizes of 0 count as 1, so that no product overflows
    do {
      int64_t size = 0;
      if (shape.size() == kMaxDims || !number(size) ||
          __builtin_mul_overflow(padded, std::max<int64_t>(size, 1), &padded)) {
        return false;
      }
      shape.push_back(size);
    } while (take(","));
    return true;
  }
  bool box(const Shape& whole, Box& box) {
    for (int d = 0; d < whole.size(); ++d) {
      int64_t offset = 0, extent = 0;
      if ((d > 0 && !take(",")) || !number(offset) || !take(":") || !number(extent)) return false;
      box.offset.push_back(offset);
      box.extent.push_back(extent);
    }
    return layout::is_inside(whole, box);
  }
  bool boxes(const Shape& whole, std::vector<Box>& boxes) {
    do {
      if (!box(whole, boxes.emplace_back())) return false;
    } while (take(";"));
    return true;
  }

 private:
  std::string_view rest_;
};

// The number of elements; nothing where it cannot be counted, as boxes may share elements.
std::optional<int64_t> numel_of(const ShardRange& range) {
  if (range.boxes.empty()) return range.whole.numel();
  int64_t sum = 0;
  for (const Box& box : range.boxes) {
    if (__builtin_add_overflow(sum, box.extent.numel(), &sum)) return std::nullopt;
  }
  return sum;
}

// The runs of a range for each of its boxes: there they come in the order of the array.
void add_runs(const ShardRange& range, std::vector<layout::Runs>& all) {
  if (range.boxes.empty()) return all.push_back(range.runs());
  int64_t skip = range.first, left = range.count;
  for (const Box& box : range.boxes) {
    const int64_t size = box.extent.numel(), begin = std::min(skip, size);
    const int64_t count = std::min(size - begin, left);
    if (count > 0) all.emplace_back(range.whole, std::vector<Box>{box}, begin, count);
    skip -= begin;
    left -= count;
  }
}

}  // namespace

ShardRange simplest(ShardRange range) {
  if (range.boxes.empty()) return range;
  layout::Runs runs = range.runs();
  layout::Run run;
  if (!runs.next(run) || run.count == range.count) return {range.whole, {}, run.whole, run.count};
  return range;
}

std::string place_text(const ShardRange& range) {
  std::string text = std::to_string(range.first) + std::string(kOf);
  for (int i = 0; i < range.whole.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(range.whole[i]);
  }
  if (!range.boxes.empty()) text += std::string(kIn) + layout::text(range.boxes);
  return text;
}

std::optional<ShardRange> parse_place(std::string_view text, int64_t count) {
  ShardRange range = {{}, {}, 0, count};
  PlaceReader reader(text);
  if (!reader.number(range.first) || !reader.take(kOf) || !reader.shape(range.whole)) return {};
  if (reader.take(kIn) && !reader.boxes(range.whole, range.boxes)) return {};
  const std::optional<int64_t> numel = numel_of(range);
  if (!reader.done() || !numel || count < 0 || range.first > *numel - count) return {};
  return range;
}

std::string part_text(const ShardRange& range) {
  return std::to_string(range.count) + "@" + place_text(range);
}

std::optional<ShardRange> parse_part(std::string_view text) {
  PlaceReader reader(text);
  int64_t count = 0;
  if (!reader.number(count) || !reader.take("@")) return {};
  return parse_place(reader.rest(), count);
}

// [note: the cover] The runs of all ranges, one at a time and in the order of the array: of each
// box the next one waits in a queue. So thousands of ranks' places need no list of all runs.
std::string cover_fault(const Shape& whole, const std::vector<const ShardRange*>& ranges) {
  std::vector<layout::Runs> boxes;
  for (const ShardRange* range : ranges) add_runs(*range, boxes);
  using Next = std::pair<int64_t, size_t>;  // where a run begins, and of which box it is
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  std::vector<layout::Run> next(boxes.size());
  const auto advance = [&](size_t box) {
    if (boxes[box].next(next[box])) queue.emplace(next[box].whole, box);
  };
  for (size_t box = 0; box < boxes.size(); ++box) advance(box);
  int64_t at = 0;
  while (!queue.empty()) {
    const auto [begin, box] = queue.top();
    queue.pop();
    if (begin != at) {
      return (begin < at ? "overlap" : "leave a hole") + std::string(" at element ") +
             std::to_string(std::min(at, begin));
    }
    at += next[box].count;
    advance(box);
  }
  if (at == whole.numel()) return "";
  return "end at element " + std::to_string(at) + " of " + std::to_string(whole.numel());
}

}  // namespace hero::dist
