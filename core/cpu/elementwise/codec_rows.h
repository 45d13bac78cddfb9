#pragma once
// Rows of codecs in stretches of blocks, and their elements as floats; for codec.cpp.
#include <algorithm>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/streaming_stores.h>
#include <hero/core/kernels/codecs.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

inline constexpr int64_t kCodecBlock = codecs::kBlock;

// Blocks of a row: elements [begin, begin + count) of the array. Only at the end of a row or of the
// array are there fewer elements than the blocks hold, and none behind the array.
struct Stretch {
  int64_t row, first_block, blocks, begin, count;
  int64_t elements_of(int64_t block) const {
    return std::clamp<int64_t>(count - block * kCodecBlock, 0, kCodecBlock);
  }
};

// Calls body(stretch) for all blocks of all rows, up to `most` blocks at a time.
template <class Body>
void each_stretch(int64_t rows, int64_t row, int64_t n, int64_t most, const Body& body) {
  const int64_t blocks = (row + kCodecBlock - 1) / kCodecBlock;
  const int64_t in_row = (blocks + most - 1) / most;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::min(row, most * kCodecBlock));
  parallel_for(rows * in_row, grain, [&](int64_t first, int64_t last) {
    int64_t r = first / in_row, at = first % in_row;  // divisions take as long as a block
    for (int64_t i = first; i < last; ++i) {
      const int64_t block = at * most, begin = r * row + block * kCodecBlock;
      const int64_t end = std::min({begin + most * kCodecBlock, (r + 1) * row, n});
      body(Stretch{r, block, std::min(most, blocks - block), begin,
                   std::max<int64_t>(end - begin, 0)});
      if (++at == in_row) at = 0, ++r;
    }
    end_copies();  // of stretches that went past the caches
  });
}

struct alignas(64) BlockValues {
  float at[kBlock];
};

// Up to kBlock elements as floats: x's own memory if x is float32.
class FloatSource {
 public:
  explicit FloatSource(const Array& x) : reader_(x, x.shape(), kFloat32), n_(x.numel()) {}
  const float* read(int64_t begin, int64_t count, BlockValues& values) const {
    return reinterpret_cast<const float*>(
        reader_.read(begin, count, reinterpret_cast<std::byte*>(values.at)));
  }
  // Begins to bring `count` elements into the first-level cache, some way behind those that read()
  // found at `from`, where it gives x's memory.
  void fetch_ahead(const float* from, int64_t begin, int64_t count) const {
    constexpr int64_t kAhead = 4 * kBlock;
    if (!reader_.direct() || begin + kAhead + count > n_) return;
    for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(from + kAhead + i);
  }
  // The same of a block, with zeros behind the last of `count` elements.
  const float* read_block(int64_t begin, int64_t count, BlockValues& values) const {
    if (count == kCodecBlock) return read(begin, count, values);
    if (count > 0) {  // else there is no address
      const float* const from = read(begin, count, values);
      if (from != values.at) std::copy_n(from, count, values.at);
    }
    std::fill(values.at + count, values.at + kCodecBlock, 0.0f);
    return values.at;
  }

 private:
  BlockReader reader_;
  int64_t n_;
};

}  // namespace hero::core::cpu
