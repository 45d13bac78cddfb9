#pragma once
// Convolutions in groups. Only core/cpu/nn/convolve*.cpp includes this.
#include <array>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <hero/core/cpu/nn/conv.h>
#include <hero/core/cpu/products/gemm_kernel.h>

namespace hero::core::cpu {

class BackPhases;

/// As convolve() and convolve_back(), or, of bfloat16, as convolve_bf16() and convolve_back_bf16()
/// by dot_kernel(). Weights are finite, and each image of x is contiguous. Only those of
/// bfloat16 apply a bias and an activation to the sums.
/// \{
template <class T>
void convolve_groups(const Convolution& of, const T* w, const HalfEnd& end, T* y);
template <class T>
void convolve_groups_back(const Convolution& of, const T* w, const HalfEnd& end, T* y);
/// The same where every group has one channel and one output, with channels side by side, where
/// has_lanes() finds this faster: for windows of lines of `width` places, of the convolution itself
/// or, on the way back, of the padded one; `joins` if the results of several phases are put
/// together.
template <class T>
bool has_lanes(const Convolution& of, int64_t width, bool joins);
template <class T>
void convolve_lanes(const Convolution& of, const T* w, const HalfEnd& end, T* y);
template <class T>
void convolve_lanes_back(const BackPhases& phases, const Convolution& of, const T* w,
                         const HalfEnd& end, T* y);
/// w [channels, taps] = the gradient of the weight of a depthwise convolution, whose groups have
/// one channel and one output: over the places of an image, and over the images. Of float the bits
/// are those of products with columns, of bfloat16 those of native ones by dot_kernel(). x is
/// contiguous.
template <class T>
void depthwise_weights(const Convolution& of, const T* y, T* w);
/// The same for w [outputs, channels / groups, taps] of any groups.
template <class T>
void group_weights(const Convolution& of, const T* y, T* w);
/// \}

/// A vector of windows: where they begin in the copy, where their sums are stored, and their
/// number.
struct WindowPiece {
  int64_t offset, place, count;
};

/// Weights times windows, of which element p lies at steps[p]; chains are added up.
struct GroupChains {
  std::vector<int64_t> steps;
  int64_t length;         ///< of a chain, of which the last may be shorter
  bool begins_with_zero;  ///< the sum of the chains; else it is the first one
};

/// \name Of float: c[i * c_row + piece.place..] = the products of row i, which begins at w + i * k,
/// with the windows of kGroupSums / rows pieces. `rows` is 4, 2 or 1.
/// \{
inline constexpr int64_t kGroupLanes = micro::kLanes<float>;
inline constexpr int kGroupSums = micro::kMaxRows >= 14 ? 8 : 4;  ///< vectors, beside their totals
void add_group_chains(int rows, const GroupChains& chains, const float* w, const float* from,
                      const WindowPiece* pieces, float* c, int64_t c_row);
/// \}
/// \name Of float, for chains of several elements: to [places, kGroupLanes] = the products of
/// kGroupLanes rows, whose elements p are those of w from p * kGroupLanes on, with windows that lie
/// side by side; `places` is one of kOutputPieces.
/// \{
inline constexpr std::array<int, 5> kOutputPieces =
    micro::kMaxRows >= 14 ? std::array{1, 2, 4, 7, 14} : std::array{1, 2, 3, 4, 6};
void add_group_outputs(int64_t places, const GroupChains& chains, const float* w, const float* from,
                       float* to);
/// \}

/// \name Of bfloat16, by the instruction: c[i * c_row + piece.place..] = the chains of a row i with
/// the windows of kPairSums / rows pieces, or of eight for one row. `rows` is 8, 4, 2 or 1.
/// Elements 2 p and 2 p + 1 of row i are w[p * rows + i], the first in the lower half; element p of
/// a window lies at steps[p].
/// \{
inline constexpr int kPairSums = 16;
void add_group_pairs(int rows, const std::vector<int64_t>& steps, const uint32_t* w,
                     const BFloat16* from, const WindowPiece* pieces, float* c, int64_t c_row);
/// \}

/// Results of a group: [rows, count] from sums, with what follows them.
template <class T>
void finish_group(const HalfEnd& end, int64_t first_row, int64_t rows, int64_t count,
                  const float* sums, T* y);

/// While it lives, this thread reads and writes subnormal numbers as zeros, as the instructions for
/// half precision do.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  explicit FlushSubnormals(bool does) : former_(_mm_getcsr()) {
    if (does) _mm_setcsr(former_ | 0x8040);
  }
  ~FlushSubnormals() { _mm_setcsr(former_); }

 private:
  unsigned former_;
#else
  explicit FlushSubnormals(bool) {}
#endif
};

}  // namespace hero::core::cpu
