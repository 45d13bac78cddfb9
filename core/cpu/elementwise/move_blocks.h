#pragma once
// Blocks of elements that are moved: what the paths of a copy come down to.
#include <cstddef>
#include <cstdint>

namespace hero::core::cpu {

/// A dimension of two arrays that are walked together; steps count bytes.
struct Axis {
  int64_t size, to, from;
};

/// Larger matrices are turned past the caches: their lines would leave the second level before
/// anyone reads them, and a line that is not written past the caches is read first.
constexpr int64_t kTurnedBytes = int64_t{8} << 20;

/// Lines of elements of `width` bytes.
struct Block {
  Axis lines, line;
  std::byte* to;
  const std::byte* from;
  int64_t width;
  int64_t target_bytes;  ///< of all blocks
};
using BlockKernel = void (*)(const Block& block);

/// For all blocks with these steps, which differ in size. `turns`: the source's neighbours lie
/// along `lines`.
BlockKernel block_kernel(const Axis& lines, const Axis& line, int64_t width, bool turns);

/// `count` elements of `width` bytes (1, 2, 4, 8 or 16), which lie so many bytes apart.
void move_line(int64_t width, int64_t count, const std::byte* from, int64_t from_step,
               std::byte* to, int64_t to_step);

}  // namespace hero::core::cpu
