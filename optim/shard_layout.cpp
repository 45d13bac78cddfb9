#include <algorithm>

#include <hero/autograd/sharding/partition.h>
#include <hero/core/device/backend.h>
#include <hero/core/error.h>
#include <hero/optim/shard_layout.h>

namespace hero::optim {

namespace {

std::vector<layout::Run> runs_of(const ShardLayout& layout) {
  layout::Runs runs(layout.whole, layout.boxes, layout.first, layout.shape.numel());
  std::vector<layout::Run> list;
  for (layout::Run run; runs.next(run);) list.push_back(run);
  return list;
}

// The elements `now` that are among `then`, in the order of `now`: `whole` of a run is where it
// begins in `then`, and `part` where it begins in `now`.
std::vector<layout::Run> common_runs(const ShardLayout& then, const ShardLayout& now) {
  std::vector<layout::Run> common;
  if (then.whole != now.whole) return common;
  std::vector<layout::Run> held = runs_of(then);
  std::sort(held.begin(), held.end(),
            [](const layout::Run& a, const layout::Run& b) { return a.whole < b.whole; });
  for (const layout::Run& run : runs_of(now)) {
    for (int64_t at = run.whole; at < run.whole + run.count;) {
      const auto next = std::upper_bound(
          held.begin(), held.end(), at,
          [](int64_t element, const layout::Run& each) { return element < each.whole; });
      if (next == held.begin()) break;
      const layout::Run& from = *std::prev(next);
      const int64_t end = std::min(run.whole + run.count, from.whole + from.count);
      if (end <= at) break;
      common.push_back({from.part + at - from.whole, run.part + at - run.whole, end - at});
      at = end;
    }
  }
  return common;
}

int64_t elements(const std::vector<layout::Run>& runs) {
  int64_t count = 0;
  for (const layout::Run& run : runs) count += run.count;
  return count;
}

bool is_all(const std::vector<layout::Run>& common, const ShardLayout& then,
            const ShardLayout& now) {
  return then.whole == now.whole && elements(common) == now.shape.numel();
}

// Every element stays at its layout.
bool stays(const std::vector<layout::Run>& common, const ShardLayout& then,
           const ShardLayout& now) {
  return then.shape.numel() == now.shape.numel() &&
         std::all_of(common.begin(), common.end(),
                     [](const layout::Run& run) { return run.whole == run.part; });
}

}  // namespace

ShardLayout shard_layout_of(const Tensor& leaf) {
  ShardLayout layout = {.shape = leaf.shape(), .whole = whole_shape(leaf)};
  if (const Partition* part = partition(leaf)) {
    layout.boxes = part->boxes;
    layout.first = part->first;
  }
  return layout;
}

bool has_layout(const ShardLayout& layout, const Tensor& leaf) {
  if (layout.shape != leaf.shape()) return false;
  const Partition* part = partition(leaf);
  if (part == nullptr) {
    return layout.whole == leaf.shape() && layout.boxes.empty() && layout.first == 0;
  }
  return layout.whole == part->whole && layout.first == part->first && layout.boxes == part->boxes;
}

bool is_same_place(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  const Partition *const left = partition(a), *const right = partition(b);
  if (left == nullptr || right == nullptr) return left == right;
  return left->whole == right->whole && left->first == right->first && left->boxes == right->boxes;
}

std::string describe(const ShardLayout& layout) {
  const int64_t count = layout.shape.numel();
  const std::string whole = "a parameter of shape " + to_string(layout.whole);
  if (layout.shape == layout.whole && layout.boxes.empty()) return whole;
  if (count == 0) return "no element of " + whole;
  return "elements " + std::to_string(layout.first) + " to " +
         std::to_string(layout.first + count - 1) +
         (layout.boxes.empty() ? "" : " of " + layout::text(layout.boxes)) + " of " + whole;
}

bool covers(const ShardLayout& then, const ShardLayout& now) {
  return is_all(common_runs(then, now), then, now);
}

Array recut(const Array& array, const ShardLayout& then, const ShardLayout& now) {
  const std::vector<layout::Run> common = common_runs(then, now);
  check(array.shape() == then.shape && is_all(common, then, now), "recut: an array of shape ",
        array.shape(), " with ", describe(then), " does not have ", describe(now));
  const Array from = array.contiguous().reshape({array.numel()});
  if (stays(common, then, now)) return from.reshape(now.shape);
  const Array to = Array::empty({now.shape.numel()}, array.dtype(), array.device());
  for (const layout::Run& run : common) {
    core::backend(array.device())
        .run(core::call::Copy{from.slice(0, run.whole, run.whole + run.count),
                              to.slice(0, run.part, run.part + run.count)});
  }
  return to.reshape(now.shape);
}

}  // namespace hero::optim
