#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/core/error.h>
#include <hero/core/kernels/draws.h>
#include <hero/core/random.h>
#include <hero/core/random/philox_words.h>
#include <hero/core/threads/thread_state.h>

namespace hero {
namespace {

constexpr int kBlocks = 64;  // a batch: 1 KiB of words
static_assert(kBlocks % core::kPhiloxGroup == 0);

// Fills `out` with elements of which kPerBlock share a block: `convert` turns the words of some
// blocks into their values, and the part that the caller asked for is kept.
template <int kPerBlock, class T, class Convert>
void fill(std::span<T> out, RandomStream stream, int64_t first_index, const Convert& convert) {
  uint32_t words[4 * kBlocks];
  T values[kBlocks * kPerBlock];
  const auto first = static_cast<uint64_t>(first_index);
  const uint64_t end = first + out.size();
  for (uint64_t at = first; at < end;) {
    const uint64_t block = at / kPerBlock;
    const uint64_t needed = (end - block * kPerBlock + kPerBlock - 1) / kPerBlock;
    const int blocks = static_cast<int>(std::min<uint64_t>(needed, kBlocks));
    core::philox_words(stream, block, blocks, words);
    const uint64_t skip = at - block * kPerBlock;
    const uint64_t count =
        std::min<uint64_t>(static_cast<uint64_t>(blocks) * kPerBlock - skip, end - at);
    T* const to = out.data() + (at - first);
    const bool all = count == kBlocks * kPerBlock;
    convert(words, all ? to : values, blocks);
    if (!all) std::copy_n(values + skip, count, to);
    at += count;
  }
}

// Four elements a block, one word each.
template <class T, class Map>
void fill_by_word(std::span<T> out, RandomStream stream, int64_t first_index, const Map& map) {
  fill<4>(out, stream, first_index, [&](const uint32_t* words, T* values, int blocks) {
#pragma GCC ivdep
    for (int i = 0; i < 4 * blocks; ++i) values[i] = map(words[i]);
  });
}

// Two elements a block, two words each.
template <class T, class Map>
void fill_by_pair(std::span<T> out, RandomStream stream, int64_t first_index, const Map& map) {
  fill<2>(out, stream, first_index, [&](const uint32_t* words, T* values, int blocks) {
#pragma GCC ivdep
    for (int i = 0; i < 2 * blocks; ++i) values[i] = map(words[2 * i], words[2 * i + 1]);
  });
}

void check_first(int64_t first_index, const char* op) {
  check(first_index >= 0, op, ": the first index is negative: ", first_index);
}

template <class T>
void check_bounds(T lo, T hi) {
  check(std::isfinite(lo) && std::isfinite(hi) && lo <= hi && std::isfinite(hi - lo),
        "uniform: the bounds are not a finite range: [", lo, ", ", hi, ")");
}

}  // namespace

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator().seed(seed); }

BatchPart& batch_part() {
  thread_local BatchPart part;
  return part;
}

[[maybe_unused]] const core::ThreadSlot<Generator::State> kGeneratorSlot(
    [] { return default_generator().state(); },
    [](Generator::State state) { default_generator().set_state(state); });
[[maybe_unused]] const core::ThreadSlot<BatchPart> kBatchPartSlot([] { return batch_part(); },
                                                                  [](BatchPart part) {
                                                                    batch_part() = part;
                                                                  });

RandomStream named_stream(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return {seed, hash | uint64_t{1} << 63};  // a generator never counts that far
}

void fill_uniform(std::span<float> out, RandomStream stream, int64_t first_index, float lo,
                  float hi) {
  check_first(first_index, "uniform");
  check_bounds(lo, hi);
  if (lo == 0 && hi == 1) {
    fill_by_word(out, stream, first_index, [](uint32_t w) { return philox::uniform24(w); });
    return;
  }
  fill_by_word(out, stream, first_index, draws::Uniform<float>(lo, hi));
}

void fill_uniform(std::span<double> out, RandomStream stream, int64_t first_index, double lo,
                  double hi) {
  check_first(first_index, "uniform");
  check_bounds(lo, hi);
  fill_by_pair(out, stream, first_index, draws::Uniform<double>(lo, hi));
}

void fill_normal(std::span<float> out, RandomStream stream, int64_t first_index, double mean,
                 double stddev) {
  check_first(first_index, "normal");
  check(stddev >= 0, "normal: the standard deviation is negative: ", stddev);
  const draws::Normal<float> draw{mean, stddev};
  fill<4>(out, stream, first_index, [=](const uint32_t* words, float* values, int blocks) {
#pragma GCC ivdep
    for (int i = 0; i < 4 * blocks; i += 2) {
      draw(philox::positive32(words[i]), philox::exact_double(words[i + 1]) * 0x1p-32, values[i],
           values[i + 1]);
    }
  });
}

void fill_normal(std::span<double> out, RandomStream stream, int64_t first_index, double mean,
                 double stddev) {
  check_first(first_index, "normal");
  check(stddev >= 0, "normal: the standard deviation is negative: ", stddev);
  const draws::Normal<double> draw{mean, stddev};
  fill<2>(out, stream, first_index, [=](const uint32_t* words, double* values, int blocks) {
#pragma GCC ivdep
    for (int i = 0; i < blocks; ++i) {
      const uint32_t* const w = words + 4 * i;
      draw(philox::positive53(w[0], w[1]), philox::uniform53(w[2], w[3]), values[2 * i],
           values[2 * i + 1]);
    }
  });
}

void fill_bits(std::span<uint32_t> out, RandomStream stream, int64_t first_index) {
  check_first(first_index, "bits");
  fill_by_word(out, stream, first_index, [](uint32_t w) { return w; });
}

void fill_bits(std::span<uint64_t> out, RandomStream stream, int64_t first_index) {
  check_first(first_index, "bits");
  fill_by_pair(out, stream, first_index,
               [](uint32_t high, uint32_t low) { return philox::join(high, low); });
}

void fill_randint(std::span<int64_t> out, RandomStream stream, int64_t first_index, int64_t low,
                  int64_t high) {
  check_first(first_index, "randint");
  check(low < high, "randint: the range is empty: [", low, ", ", high, ")");
  const uint64_t base = static_cast<uint64_t>(low), range = static_cast<uint64_t>(high) - base;
  fill_by_pair(out, stream, first_index, draws::Integer{base, range});
}

void fill_bernoulli(std::span<bool> out, RandomStream stream, int64_t first_index, double p) {
  check_first(first_index, "bernoulli");
  check(p >= 0 && p <= 1, "bernoulli: the probability is outside [0, 1]: ", p);
  const draws::Bernoulli draw(p);
  if (draw.threshold > std::numeric_limits<uint32_t>::max()) {
    std::fill(out.begin(), out.end(), true);
    return;
  }
  const auto below = static_cast<uint32_t>(draw.threshold);  // 32 bits: twice the lanes
  fill_by_word(out, stream, first_index, [=](uint32_t w) { return w < below; });
}

void fill_exponential(std::span<float> out, RandomStream stream, int64_t first_index, double rate) {
  check_first(first_index, "exponential");
  check(rate > 0, "exponential: the rate is not positive: ", rate);
  fill_by_word(out, stream, first_index, draws::Exponential<float>{rate});
}

void fill_exponential(std::span<double> out, RandomStream stream, int64_t first_index,
                      double rate) {
  check_first(first_index, "exponential");
  check(rate > 0, "exponential: the rate is not positive: ", rate);
  fill_by_pair(out, stream, first_index, draws::Exponential<double>{rate});
}

void fill_permutation(std::span<int64_t> out, RandomStream stream) {
  const auto n = static_cast<int64_t>(out.size());
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = i;
  uint64_t bits[128];
  for (int64_t done = 0; done + 1 < n;) {  // step j swaps place n - 1 - j
    const int64_t count = std::min<int64_t>(128, n - 1 - done);
    fill_bits(std::span<uint64_t>(bits, static_cast<size_t>(count)), stream, done);
    for (int64_t k = 0; k < count; ++k) {
      const auto place = static_cast<uint64_t>(n - 1 - done - k);
      std::swap(out[place], out[philox::scale_to(bits[k], place + 1)]);
    }
    done += count;
  }
}

}  // namespace hero
