#pragma once
// Moving blocks of elements: the last step of every copy.
#include <cstddef>
#include <cstdint>

namespace hero::core::cpu {

/// A dimension of two arrays that are walked together; steps count bytes.
struct Axis {
  int64_t size, to, from;
};

/// Larger matrices are transposed with stores that bypass the caches: their lines would leave the
/// second-level cache before they are read again, and a normal store first reads its line.
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

/// Moves all blocks with these steps, which differ in size. `turns`: elements that are neighbours
/// in the source are neighbours along `lines`.
BlockKernel block_kernel(const Axis& lines, const Axis& line, int64_t width, bool turns);

/// Moves `count` elements of `width` bytes (1, 2, 4, 8 or 16), which are these numbers of bytes
/// apart.
void move_line(int64_t width, int64_t count, const std::byte* from, int64_t from_step,
               std::byte* to, int64_t to_step);

}  // namespace hero::core::cpu
