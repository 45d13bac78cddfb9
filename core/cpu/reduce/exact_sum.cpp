#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/exact_squares.h>
#include <hero/core/cpu/reduce/exact_sum.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/pieces.h>
#include <hero/core/kernels/clip_norm.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

constexpr int64_t kGridBlock = 512;  // elements that share a grid
constexpr int kTermParts = 3;        // pieces a term is cut into
constexpr int kPartBits = 51;        // bits of a piece

// What is summed of each element; exact for a float32.
struct SquareTerm {
  static double of(float x) { return static_cast<double>(x) * static_cast<double>(x); }
  static void add(ExactAccumulator& sum, float x) { sum.add_magnitude(of(x)); }
  static void add(ExactAccumulator& sum, double x) { sum.add_square(x); }
};
struct MagnitudeTerm {
  static double of(float x) { return std::fabs(static_cast<double>(x)); }
  static void add(ExactAccumulator& sum, double x) { sum.add_magnitude(x); }
};

// Adds the terms of up to kGridBlock elements. Each term is cut on fixed grids into parts of
// kPartBits below the largest term's leading bit: adding and subtracting `offset` rounds to a
// multiple of the grid, and that multiple stands in the last bits of the sum, where integers add it
// up in any order. False, with nothing added, where bits are left below the last grid or an element
// is not finite.
template <class Term>
bool add_block(ExactAccumulator& sum, const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFu);
  }
  if (largest == 0) return true;
  if (largest >= 0x7F800000u) return false;
  int grid = std::ilogb(Term::of(std::bit_cast<float>(largest))) + 1 - kPartBits;
  std::array<double, kTermParts> offset;
  for (int p = 0; p < kTermParts; ++p) {
    offset[static_cast<size_t>(p)] = std::ldexp(1.5, 52 + grid - p * kPartBits);
  }
  const auto [offset0, offset1, offset2] = offset;
  uint64_t sum0 = 0, sum1 = 0, sum2 = 0, rest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double term = Term::of(x[i]);
    const double shifted0 = term + offset0, rest0 = term - (shifted0 - offset0);
    const double shifted1 = rest0 + offset1, rest1 = rest0 - (shifted1 - offset1);
    const double shifted2 = rest1 + offset2, rest2 = rest1 - (shifted2 - offset2);
    sum0 += std::bit_cast<uint64_t>(shifted0);
    sum1 += std::bit_cast<uint64_t>(shifted1);
    sum2 += std::bit_cast<uint64_t>(shifted2);
    rest |= std::bit_cast<uint64_t>(rest2);
  }
  if (rest << 1 != 0) return false;
  const std::array<uint64_t, kTermParts> sums = {sum0, sum1, sum2};
  for (size_t p = 0; p < kTermParts; ++p, grid -= kPartBits) {
    const uint64_t offsets = static_cast<uint64_t>(n) * std::bit_cast<uint64_t>(offset[p]);
    sum.add_integer(static_cast<int64_t>(sums[p] - offsets), grid);
  }
  return true;
}

bool add_close_squares(ExactAccumulator& to, const float* x) {
  static_assert(kGridBlock == kCloseSquares);
  CloseSum sum;
  if (!add_up_close_squares(x, sum)) return false;
  to.add_integer(sum.grids, sum.grid);
  to.add_integer(sum.units, sum.unit);
  return true;
}

template <class Term, class T>
void add_span(ExactAccumulator& sum, const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, double>) {
    for (int64_t i = 0; i < n; ++i) Term::add(sum, x[i]);
  } else {
    std::array<float, kGridBlock> wide;
    for (int64_t begin = 0; begin < n; begin += kGridBlock) {
      const int64_t count = std::min(kGridBlock, n - begin);
      const float* block = wide.data();
      if constexpr (std::is_same_v<T, float>) {
        block = x + begin;
      } else {
        for (int64_t i = 0; i < count; ++i) {
          wide[static_cast<size_t>(i)] = convert<float>(x[begin + i]);
        }
      }
      if constexpr (std::is_same_v<Term, SquareTerm>) {
        if (count == kGridBlock && add_close_squares(sum, block)) continue;
      }
      if (add_block<Term>(sum, block, count)) continue;
      for (int64_t i = 0; i < count; ++i) Term::add(sum, block[i]);
    }
  }
}

template <class Term>
void add_arrays(ExactAccumulator& sum, std::span<const Array> xs) {
  Pieces pieces;
  for (const Array& x : xs) pieces.append(x.numel());
  if (pieces.length() == 0) return;
  const auto add_pieces = [&](ExactAccumulator& to, int64_t begin, int64_t end) {
    pieces.each(begin, end, [&](size_t i, int64_t first, int64_t last) {
      dispatch(xs[i].dtype(), [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>)
          add_span<Term>(to, xs[i].data<T>() + first, last - first);
      });
    });
  };
  if (pieces.length() <= kGrain) return add_pieces(sum, 0, pieces.length());
  std::mutex merging;
  parallel_for(pieces.length(), kGrain, [&](int64_t begin, int64_t end) {
    ExactAccumulator part;
    add_pieces(part, begin, end);
    const std::lock_guard lock(merging);
    sum.add(part);
  });
}

// True for words of one sum, which need not be carried again.
bool is_carried(const int64_t* words) {
  uint64_t above = 0;
  for (int i = 0; i + 1 < exact::kDigits; ++i) above |= static_cast<uint64_t>(words[i]) >> 32;
  return above == 0 && words[exact::kDigits] == 0;
}

double result_of(SumResult result, const int64_t* words) {
  return result == SumResult::root ? exact::root(words) : exact::value(words);
}

void add_sum(ReduceKind op, std::span<const Array> xs, int64_t* words) {
  ExactAccumulator sum;
  op == ReduceKind::sum_abs ? add_arrays<MagnitudeTerm>(sum, xs) : add_arrays<SquareTerm>(sum, xs);
  for (const int64_t more : sum.words()) *words++ += more;
}

}  // namespace

void add_squares(ExactAccumulator& sum, const float* x, int64_t n) {
  add_span<SquareTerm>(sum, x, n);
}

void CpuBackend::run(const call::ExactSum& call) {
  std::span<const Array> all = call.xs;
  std::vector<Array> dense;
  if (!std::all_of(all.begin(), all.end(), [](const Array& x) { return x.is_contiguous(); })) {
    for (const Array& x : call.xs) dense.push_back(x.contiguous());
    all = dense;
  }
  auto* const first = call.words.data<int64_t>();
  if (call.words.ndim() == 1) return add_sum(call.op, all, first);
  for (size_t i = 0; i < all.size(); ++i) {
    add_sum(call.op, all.subspan(i, 1), first + i * exact::kWords);
  }
}

void CpuBackend::run(const call::ExactResult& call) {
  for (int64_t i = 0; i < call.out.numel(); ++i) {
    const int64_t* const found = call.words.data<int64_t>() + i * exact::kWords;
    double& value = call.out.data<double>()[i];
    if (is_carried(found)) {
      value = result_of(call.result, found);
      continue;
    }
    std::array<int64_t, exact::kWords> carried;
    std::copy_n(found, carried.size(), carried.begin());
    exact::carry(carried.data());
    value = result_of(call.result, carried.data());
  }
}

void CpuBackend::run(const call::ClipNorm& call) {
  const double factor = clip_factor(call.max_norm, *call.norm.data<double>());
  if (factor >= 1.0) return;
  for (const Array& x : call.xs) map_into<kernels::Mul>(x, x, Scalar(factor));
}

}  // namespace hero::core::cpu
