#include <array>
#include <vector>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// The places of ascending positions: the division is made once for each line of the last dimension.
class PlaceInLine {
 public:
  explicit PlaceInLine(const Shape& shape) : shape_(shape), size_(shape.back()) {}
  void write(int64_t position, int64_t* to) {
    const int last = shape_.size() - 1;
    if (position >= end_) {
      int64_t line = position / size_;
      end_ = (line + 1) * size_;
      for (int d = last - 1; d >= 0; --d) {
        before_[d] = line % shape_[d];
        line /= shape_[d];
      }
    }
    for (int d = 0; d < last; ++d) to[d] = before_[d];
    to[last] = position - (end_ - size_);
  }

 private:
  const Shape& shape_;
  int64_t size_, end_ = 0;
  int64_t before_[kMaxDims] = {};
};

}  // namespace

Array CpuBackend::run(const call::Nonzero& call) {
  const int64_t n = call.x.numel();
  if (n == 0) return Array::empty({0, call.x.ndim()}, kInt64);
  const BlockReader reader(call.x, call.x.shape(), kBool);
  const int64_t chunks = (n + kGrain - 1) / kGrain;
  // First how many lie in each chunk, then each chunk knows where its rows begin.
  std::vector<int64_t> starts(static_cast<size_t>(chunks) + 1);
  const auto blocks = [&](int64_t begin, int64_t end, auto&& body) {
    Scratch scratch;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      body(at, count, reader.read(at, count, scratch.bytes));
    }
  };
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    int64_t found = 0;
    blocks(begin, end, [&](int64_t, int64_t count, const std::byte* flags) {
      for (int64_t i = 0; i < count; ++i) found += flags[i] != std::byte{0};
    });
    starts[static_cast<size_t>(begin / kGrain) + 1] = found;
  });
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  Array result = Array::empty({starts.back(), call.x.ndim()}, kInt64);
  if (result.numel() == 0) return result;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    int64_t* row =
        result.data<int64_t>() + starts[static_cast<size_t>(begin / kGrain)] * call.x.ndim();
    PlaceInLine place(call.x.shape());
    blocks(begin, end, [&](int64_t at, int64_t count, const std::byte* flags) {
      // Without a branch, which would be foreseen wrongly half of the time.
      std::array<int16_t, kBlock> found;
      int64_t some = 0;
      for (int64_t i = 0; i < count; ++i) {
        found[static_cast<size_t>(some)] = static_cast<int16_t>(i);
        some += flags[i] != std::byte{0};
      }
      for (int64_t k = 0; k < some; ++k) {
        place.write(at + found[static_cast<size_t>(k)], row);
        row += call.x.ndim();
      }
    });
  });
  return result;
}

}  // namespace hero::core::cpu
