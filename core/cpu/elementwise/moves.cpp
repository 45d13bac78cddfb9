// Copies without conversion, of any strides. Elements count by their width alone. The dimensions
// are sorted by the target's memory and joined where both arrays allow it, and the last two make
// blocks: of contiguous lines, of matrices that are transposed tile by tile, or of elements that
// are moved one by one.
#include <algorithm>
#include <cstdlib>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/elementwise/move_blocks.h>
#include <hero/core/cpu/elementwise/moves.h>
#include <hero/core/cpu/streaming_stores.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// The last axis has the target's smallest step. One more than an array has dimensions, so that
// there are always two.
struct Paths {
  int count = 0;
  int64_t width = 0;  // bytes of an element
  Axis axes[kMaxDims + 1] = {};
};

Paths joined_paths(const Array& src, const Array& dst) {
  Paths paths;
  paths.width = item_size(dst.dtype());
  Axis* const axes = paths.axes;
  const int lead = dst.ndim() - src.ndim();
  for (int d = 0; d < dst.ndim(); ++d) {
    const int64_t size = dst.shape()[d];
    if (size == 1) continue;
    const bool repeated = d < lead || src.shape()[d - lead] == 1;
    const Axis axis{size, dst.strides()[d] * paths.width,
                    repeated ? 0 : src.strides()[d - lead] * paths.width};
    int at = paths.count++;
    for (; at > 0 && axes[at - 1].to < axis.to; --at) axes[at] = axes[at - 1];
    axes[at] = axis;
  }
  int kept = 0;
  for (int d = 0; d < paths.count; ++d) {
    const Axis axis = axes[d];
    Axis& last = axes[std::max(kept - 1, 0)];
    if (kept > 0 && last.to == axis.to * axis.size && last.from == axis.from * axis.size) {
      last = {last.size * axis.size, axis.to, axis.from};
    } else {
      axes[kept++] = axis;
    }
  }
  paths.count = kept;
  return paths;
}

// Neighbours that always move together count as one wider element.
void widen(Paths& paths) {
  const Axis last = paths.axes[paths.count - 1];
  const int64_t bytes = last.size * paths.width;
  const bool together = last.to == paths.width && last.from == paths.width;
  if (!together || (bytes & (bytes - 1)) != 0 || bytes > 16) return;
  paths.width = bytes;
  --paths.count;
}

// Whether the source's neighbours lie along another axis than the target's. This axis becomes the
// last but one.
bool turn_axes(Paths& paths) {
  Axis* const last = paths.axes + paths.count - 1;
  Axis* nearest = last;
  for (Axis* axis = paths.axes; axis != last; ++axis) {
    if (axis->from != 0 && std::abs(axis->from) < std::abs(nearest->from)) nearest = axis;
  }
  if (nearest == last) return false;
  std::rotate(nearest, nearest + 1, last);
  return true;
}

// The paths cut into blocks of about kGrain elements, numbered in the order of the axes.
struct Blocks {
  const Paths& paths;
  int64_t height, width;
  int64_t counts[kMaxDims + 1];
  int64_t total = 1;

  Blocks(const Paths& p, bool turns) : paths(p) {
    constexpr int64_t kTurned = 128;  // lines, which the second-level cache holds
    const int64_t lines = p.axes[p.count - 2].size, line = p.axes[p.count - 1].size;
    width = std::min(line, kGrain / (turns ? std::min(lines, kTurned) : 1));
    height = std::min(lines, kGrain / width);
    for (int d = 0; d < p.count; ++d) {
      const int64_t step = step_of(d);
      total *= counts[d] = (p.axes[d].size + step - 1) / step;
    }
  }
  int64_t step_of(int d) const {
    return d == paths.count - 1 ? width : d == paths.count - 2 ? height : 1;
  }

  [[gnu::noinline]] void run(BlockKernel kernel, Block block, int64_t begin, int64_t end) const {
    const int last = paths.count - 1;
    int64_t index[kMaxDims + 1], rest = begin;
    for (int d = last; d >= 0; --d) {
      index[d] = rest % counts[d];
      rest /= counts[d];
      move(block, d, index[d]);
    }
    for (int64_t at = begin; at < end; ++at) {
      block.lines.size = std::min(height, paths.axes[last - 1].size - index[last - 1] * height);
      block.line.size = std::min(width, paths.axes[last].size - index[last] * width);
      kernel(block);
      for (int d = last; d >= 0; --d) {
        move(block, d, 1);
        if (++index[d] < counts[d]) break;
        move(block, d, -counts[d]);
        index[d] = 0;
      }
    }
  }

 private:
  void move(Block& block, int d, int64_t by) const {
    block.to += by * step_of(d) * paths.axes[d].to;
    block.from += by * step_of(d) * paths.axes[d].from;
  }
};

}  // namespace

void move_elements(const Array& src, const Array& dst) {
  Paths paths = joined_paths(src, dst);
  if (paths.count > 1) widen(paths);
  while (paths.count < 2) {
    paths.axes[1] = paths.axes[0];
    paths.axes[0] = {1, paths.width, paths.width};
    ++paths.count;
  }
  const bool turns = turn_axes(paths);
  const Axis lines = paths.axes[paths.count - 2], line = paths.axes[paths.count - 1];
  const BlockKernel kernel = block_kernel(lines, line, paths.width, turns);
  const Blocks blocks(paths, turns);
  const Block first{lines, line, dst.bytes(), src.bytes(), paths.width, dst.nbytes()};
  const int64_t grain = std::max<int64_t>(1, kGrain / (blocks.height * blocks.width));
  parallel_for(blocks.total, grain, [&](int64_t begin, int64_t end) {
    blocks.run(kernel, first, begin, end);
    if (first.target_bytes > kTurnedBytes) end_copies();
  });
}

}  // namespace hero::core::cpu
