// Moving blocks of contiguous lines, of matrices that are transposed, and of single elements.
#include <algorithm>
#include <cstring>
#include <utility>

#include <hero/core/cpu/elementwise/move_blocks.h>
#include <hero/core/cpu/streaming_stores.h>

namespace hero::core::cpu {

namespace {

// Elements of `width` bytes at any address.
template <int width>
struct Element;
template <>
struct Element<1> {
  typedef uint8_t type [[gnu::may_alias]];
};
template <>
struct Element<2> {
  typedef uint16_t type [[gnu::may_alias, gnu::aligned(1)]];
};
template <>
struct Element<4> {
  typedef uint32_t type [[gnu::may_alias, gnu::aligned(1)]];
};
template <>
struct Element<8> {
  typedef uint64_t type [[gnu::may_alias, gnu::aligned(1)]];
};
template <>
struct Element<16> {
  typedef uint64_t type [[gnu::vector_size(16), gnu::may_alias, gnu::aligned(1)]];
};
static_assert(alignof(Element<16>::type) == 1 && alignof(Element<8>::type) == 1);

// Smaller targets come from caches.
constexpr int64_t kAskedBytes = int64_t{1} << 20;

// Asks for what will be read a few lines later. Processors foresee lines of a few hundred bytes
// badly when they come from the last to the first, or backwards.
void ask_ahead(const Block& block, int64_t i, int64_t first, int64_t bytes) {
  constexpr int64_t kAhead = 4, kLong = 4096;
  if (i + kAhead >= block.lines.size || bytes > kLong) return;
  const std::byte* const from = block.from + (i + kAhead) * block.lines.from + first;
  for (int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(from + at);
}

// One line behind the other, each in one piece.
void copy_lines(const Block& block) {
  constexpr int64_t kVector = 32, kLong = 4096, kPast = 192;
  const int64_t bytes = block.line.size * block.width;
  const bool streaming_stores = block.target_bytes > kCachedBytes && bytes >= kPast;
  const bool loops = bytes >= kVector && bytes < kLong;  // faster than a call of memcpy
  for (int64_t i = 0; i < block.lines.size; ++i) {
    std::byte* const to = block.to + i * block.lines.to;
    const std::byte* const from = block.from + i * block.lines.from;
    if (block.target_bytes > kAskedBytes) ask_ahead(block, i, 0, bytes);
    if (streaming_stores) {
      copy_streaming(from, to, bytes);
    } else if (loops) {
      // The last vector ends with the line, and may write again what the one before it wrote.
      for (int64_t at = 0; at < bytes - kVector; at += kVector) {
        std::memcpy(to + at, from + at, kVector);
      }
      std::memcpy(to + bytes - kVector, from + bytes - kVector, kVector);
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }
}

template <int width>
void move_line_of(int64_t count, const std::byte* from_bytes, int64_t from_step,
                  std::byte* to_bytes, int64_t to_step) {
  using T = typename Element<width>::type;
  T* const to = reinterpret_cast<T*>(to_bytes);
  const T* const from = reinterpret_cast<const T*>(from_bytes);
  if (to_step == width && from_step == 0) {
    const T value = *from;
    for (int64_t i = 0; i < count; ++i) to[i] = value;
  } else if (to_step == width && from_step == -width) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = from[-i];
  } else {
    for (int64_t i = 0; i < count; ++i) {
      *reinterpret_cast<T*>(to_bytes + i * to_step) =
          *reinterpret_cast<const T*>(from_bytes + i * from_step);
    }
  }
}

using LineMover = void (*)(int64_t, const std::byte*, int64_t, std::byte*, int64_t);
LineMover line_mover(int64_t width) {
  switch (width) {
    case 1:
      return &move_line_of<1>;
    case 2:
      return &move_line_of<2>;
    case 4:
      return &move_line_of<4>;
    case 8:
      return &move_line_of<8>;
    default:
      return &move_line_of<16>;
  }
}

// A few lines side by side, so that each is read or written once from its start to its end.
template <int width, int count>
void move_together(const Axis& lines, const Axis& line, const std::byte* from, std::byte* to) {
  using T = typename Element<width>::type;
  for (int64_t i = 0; i < line.size; ++i, from += line.from, to += line.to) {
#pragma GCC unroll 4
    for (int k = 0; k < count; ++k) {
      *reinterpret_cast<T*>(to + k * lines.to) = *reinterpret_cast<const T*>(from + k * lines.from);
    }
  }
}

using FewMover = void (*)(const Axis&, const Axis&, const std::byte*, std::byte*);
template <int count>
FewMover few_mover(int64_t width) {
  switch (width) {
    case 1:
      return &move_together<1, count>;
    case 2:
      return &move_together<2, count>;
    case 4:
      return &move_together<4, count>;
    case 8:
      return &move_together<8, count>;
    default:
      return &move_together<16, count>;
  }
}

// One by one, along the longer axis where the other one is short.
void move_each(const Block& block) {
  constexpr int64_t kShort = 16;
  const bool across = block.line.size < kShort && block.lines.size > block.line.size;
  const Axis outer = across ? block.line : block.lines, inner = across ? block.lines : block.line;
  // Lines that are written one after the other, repeated or backwards, take whole vectors.
  const bool dense = inner.to == block.width && (inner.from == 0 || inner.from == -block.width);
  if (!dense && outer.size >= 2 && outer.size <= 4) {
    const FewMover move = outer.size == 2   ? few_mover<2>(block.width)
                          : outer.size == 3 ? few_mover<3>(block.width)
                                            : few_mover<4>(block.width);
    return move(outer, inner, block.from, block.to);
  }
  const LineMover move = line_mover(block.width);
  const int64_t bytes = inner.size * block.width;
  const bool asks = dense && !across && inner.from < 0 && block.target_bytes > kAskedBytes;
  for (int64_t i = 0; i < outer.size; ++i) {
    if (asks) ask_ahead(block, i, block.width - bytes, bytes);
    move(inner.size, block.from + i * outer.from, inner.from, block.to + i * outer.to, inner.to);
  }
}

template <int width>
struct Lanes {
  typedef typename Element<width>::type type [[gnu::vector_size(16)]];
  static constexpr int count = 16 / width;
};

// The lower or upper lanes of two vectors, in turns.
template <int first, class Vector, int... lane>
Vector interleave(Vector x, Vector y, std::integer_sequence<int, lane...>) {
  constexpr int lanes = sizeof...(lane);
  return __builtin_shufflevector(x, y, (first + lane / 2 + lane % 2 * lanes)...);
}

// Turns a square of as many lines as a vector has lanes.
template <int width>
[[gnu::always_inline]] inline void turn_square(const std::byte* from, int64_t from_step,
                                               std::byte* to, int64_t to_step) {
  using Vector = typename Lanes<width>::type;
  constexpr int lanes = Lanes<width>::count;
  constexpr std::make_integer_sequence<int, lanes> all{};
  Vector lines[lanes], mixed[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) std::memcpy(&lines[i], from + i * from_step, 16);
#pragma GCC unroll 4
  for (int step = 1; step < lanes; step *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < lanes / 2; ++i) {
      mixed[2 * i] = interleave<0>(lines[i], lines[i + lanes / 2], all);
      mixed[2 * i + 1] = interleave<lanes / 2>(lines[i], lines[i + lanes / 2], all);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) lines[i] = mixed[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) std::memcpy(to + i * to_step, &lines[i], 16);
}

// `rows` x `columns` of the target into a tile whose rows are cache lines; the source's columns are
// in one piece.
template <int width>
void turn_tile(int64_t rows, int64_t columns, const std::byte* from, int64_t from_step,
               std::byte* tile) {
  constexpr int64_t lanes = Lanes<width>::count;
  const int64_t whole_rows = rows - rows % lanes, whole_columns = columns - columns % lanes;
  for (int64_t c = 0; c < whole_columns; c += lanes) {
    for (int64_t r = 0; r < whole_rows; r += lanes) {
      turn_square<width>(from + c * from_step + r * width, from_step,
                         tile + r * kCacheLine + c * width, kCacheLine);
    }
  }
  const auto move_rest = [&](int64_t row, int64_t last_row, int64_t column) {
    const Axis lines{last_row - row, kCacheLine, width};
    const Axis line{columns - column, width, from_step};
    if (lines.size == 0 || line.size == 0) return;
    move_each({lines, line, tile + row * kCacheLine + column * width,
               from + row * width + column * from_step, width, 0});
  };
  move_rest(0, whole_rows, whole_columns);
  move_rest(whole_rows, rows, 0);
}

template <int width>
void turn_block(const Block& block) {
  constexpr int64_t kTile = kCacheLine / width;
  alignas(kCacheLine) std::byte tile[kTile * kCacheLine];
  for (int64_t row = 0; row < block.lines.size; row += kTile) {
    const int64_t rows = std::min(kTile, block.lines.size - row);
    for (int64_t column = 0; column < block.line.size; column += kTile) {
      const int64_t columns = std::min(kTile, block.line.size - column);
      turn_tile<width>(rows, columns, block.from + row * width + column * block.line.from,
                       block.line.from, tile);
      std::byte* to = block.to + row * block.lines.to + column * width;
      for (int64_t r = 0; r < rows; ++r, to += block.lines.to) {
        const std::byte* const line = tile + r * kCacheLine;
        if (columns < kTile) {
          std::memcpy(to, line, static_cast<size_t>(columns * width));
        } else if (block.target_bytes > kTurnedBytes &&
                   reinterpret_cast<uintptr_t>(to) % kCacheLine == 0) {
          stream_line(line, to);
        } else {
          std::memcpy(to, line, kCacheLine);
        }
      }
    }
  }
}

BlockKernel turn_kernel(int64_t width) {
  switch (width) {
    case 1:
      return &turn_block<1>;
    case 2:
      return &turn_block<2>;
    case 4:
      return &turn_block<4>;
    default:
      return &turn_block<8>;
  }
}

}  // namespace

BlockKernel block_kernel(const Axis& lines, const Axis& line, int64_t width, bool turns) {
  constexpr int64_t kLine = 32;  // bytes; shorter lines are not worth a loop of their own
  const int64_t lanes = 16 / width;
  if (line.to == width && line.from == width && (line.size * width >= kLine || lines.size == 1)) {
    return &copy_lines;
  }
  const bool is_matrix = turns && line.to == width && lines.from == width;
  const bool is_small = lines.size < lanes || line.size < lanes;
  return is_matrix && !is_small && lanes > 1 ? turn_kernel(width) : &move_each;
}

void move_line(int64_t width, int64_t count, const std::byte* from, int64_t from_step,
               std::byte* to, int64_t to_step) {
  line_mover(width)(count, from, from_step, to, to_step);
}

}  // namespace hero::core::cpu
