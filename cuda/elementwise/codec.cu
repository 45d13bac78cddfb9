// Codecs: a warp takes a block of 256 elements at a time, a lane four of each half of it.
#include <vector>

#include <hero/core/kernels/codecs.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/kernels/exact_digits.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/reduce/block.cuh>

namespace hero::cuda {

namespace {

namespace codecs = core::codecs;
constexpr int kEach = 4;
constexpr int kHalf = codecs::kBlock / 2;
constexpr int kSignWords = codecs::kBlock / 32;

// How an array of n elements is cut; [rows, row_bytes] of bytes.
struct RowsOfBlocks {
  std::byte* bytes;
  int64_t rows, row_bytes, row, in_row, n;
  bool whole;  // four elements of a lane can be read at once

  __device__ int64_t blocks() const { return rows * in_row; }
};

// A block's elements [begin, end) and where its row's bytes begin.
struct BlockPlace {
  int64_t row, at, begin, end;
  std::byte* bytes;
};

__device__ BlockPlace place_of(const RowsOfBlocks& rows, int64_t block) {
  const int64_t row = block / rows.in_row, at = block % rows.in_row;
  const int64_t begin = row * rows.row + at * codecs::kBlock;
  const int64_t end = std::min(begin + codecs::kBlock, std::min((row + 1) * rows.row, rows.n));
  return {row, at, begin, end, rows.bytes + row * rows.row_bytes};
}

__device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

template <class Format>
inline constexpr bool kNibbles = std::is_same_v<Format, codecs::Int4>;
template <class Format>
inline constexpr int64_t kBlockBytes = codecs::kScaleBytes +
                                       (kNibbles<Format> ? kHalf : codecs::kBlock);

__device__ uint32_t& word_at(std::byte* bytes, int64_t at) {
  return *reinterpret_cast<uint32_t*>(bytes + at);
}

// This lane's codes: those of the lower half and of the upper one, in one word or two.
template <class Format>
__device__ void write_codes(std::byte* codes, const int (&code)[2][kEach]) {
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if constexpr (kNibbles<Format>) {
      words[0] |= static_cast<uint32_t>((code[0][i] & 15) | (code[1][i] & 15) << 4) << (8 * i);
    } else {
      words[0] |= static_cast<uint32_t>(code[0][i] & 255) << (8 * i);
      words[1] |= static_cast<uint32_t>(code[1][i] & 255) << (8 * i);
    }
  }
  word_at(codes, kEach * lane()) = words[0];
  if constexpr (!kNibbles<Format>) word_at(codes, kHalf + kEach * lane()) = words[1];
}

template <class S, class Format>
__global__ void __launch_bounds__(kThreads)
    encode_blocks_kernel(const S* x, const RowsOfBlocks rows, float* error) {
  const int64_t warps = grid_threads() / kWarp;
  for (int64_t b = global_thread() / kWarp; b < rows.blocks(); b += warps) {
    const BlockPlace place = place_of(rows, b);
    float values[2][kEach];
    uint32_t largest = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t e = place.begin + half * kHalf + kEach * lane();
      read_vector(x + e, place.end - e, values[half], rows.whole);
      if (error) {
        float former[kEach];
        read_vector(error + e, place.end - e, former, rows.whole);
#pragma unroll
        for (int i = 0; i < kEach; ++i) values[half][i] += former[i];
      }
#pragma unroll
      for (const float value : values[half]) {
        largest = std::max(largest, codecs::magnitude_bits(value));
      }
    }
    const auto [scale, inverse] = codecs::block_scale<Format>(warp_reduce(largest, MaxJoin()));
    std::byte* const to = place.bytes + place.at * kBlockBytes<Format>;
    if (lane() == 0) *reinterpret_cast<float*>(to) = scale;
    int code[2][kEach] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (inverse != 0.0f) code[half][i] = Format::code(values[half][i] * inverse);
      }
    }
    write_codes<Format>(to + codecs::kScaleBytes, code);
    if (!error) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t e = place.begin + half * kHalf + kEach * lane();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float decoded = Format::value(code[half][i]) * scale;
        values[half][i] = codecs::left_out(values[half][i], decoded, scale);
      }
      write_vector(error + e, place.end - e, values[half], rows.whole);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads)
    encode_signs_kernel(const S* x, const RowsOfBlocks rows, const double* roots, float* error) {
  const int64_t warps = grid_threads() / kWarp;
  for (int64_t b = global_thread() / kWarp; b < rows.blocks(); b += warps) {
    const BlockPlace place = place_of(rows, b);
    const int64_t first = place.row * rows.row;
    const int64_t count = std::max<int64_t>(std::min(first + rows.row, rows.n) - first, 0);
    const float scale = codecs::sign_scale(count > 0 ? roots[place.row] : 0.0, count);
    if (place.at == 0 && lane() == 0) *reinterpret_cast<float*>(place.bytes) = scale;
    std::byte* const words = place.bytes + codecs::kScaleBytes + place.at * kSignWords * 4;
    const int64_t here = rows.row - place.at * codecs::kBlock;  // of the row, to its end
#pragma unroll
    for (int w = 0; w < kSignWords; ++w) {
      const int64_t e = place.begin + w * kWarp + lane();
      const float value = e < place.end ? convert<float>(x[e]) : 0.0f;
      const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31;
      const unsigned word = __ballot_sync(kAllLanes, sign != 0);
      if (lane() == 0 && w * kWarp < here) word_at(words, 4 * w) = word;
      if (error && e < place.end) {
        error[e] = codecs::left_out(value, codecs::sign_value(sign, scale), scale);
      }
    }
  }
}

struct Signs {};

// This lane's four elements of one half of a block.
template <class Format>
__device__ void decode_lane(const std::byte* row, int64_t at, int half, float (&values)[kEach]) {
  if constexpr (std::is_same_v<Format, Signs>) {
    const float scale = *reinterpret_cast<const float*>(row);
    const int e = half * kHalf + kEach * lane();
    const auto* words = reinterpret_cast<const uint32_t*>(row + codecs::kScaleBytes);
    const uint32_t word = words[at * kSignWords + e / 32] >> (e % 32);
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = codecs::sign_value(word >> i & 1u, scale);
  } else {
    const std::byte* const from = row + at * kBlockBytes<Format>;
    const float scale = *reinterpret_cast<const float*>(from);
    const int place = (kNibbles<Format> ? 0 : half * kHalf) + kEach * lane();
    const uint32_t word = *reinterpret_cast<const uint32_t*>(from + codecs::kScaleBytes + place);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const auto code = static_cast<int8_t>(word >> (8 * i));
      if constexpr (kNibbles<Format>) {
        const int nibble = half == 0 ? static_cast<int8_t>(code << 4) >> 4 : code >> 4;
        values[i] = Format::value(nibble) * scale;
      } else {
        values[i] = Format::value(code) * scale;
      }
    }
  }
}

template <class S, class Format>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(S* out, const RowsOfBlocks rows, int summands, DecodeMode mode) {
  const int64_t warps = grid_threads() / kWarp;
  for (int64_t b = global_thread() / kWarp; b < rows.blocks(); b += warps) {
    const BlockPlace place = place_of(rows, b);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t e = place.begin + half * kHalf + kEach * lane();
      if (e >= place.end) continue;
      float values[kEach], more[kEach];
      decode_lane<Format>(place.bytes, place.at, half, values);
      for (int r = 1; r < summands; ++r) {
        decode_lane<Format>(place.bytes + r * rows.row_bytes, place.at, half, more);
#pragma unroll
        for (int i = 0; i < kEach; ++i) values[i] += more[i];
      }
      if (mode == DecodeMode::add) {
        read_vector(out + e, place.end - e, more, rows.whole);
#pragma unroll
        for (int i = 0; i < kEach; ++i) values[i] = more[i] + values[i];
      }
      write_vector(out + e, place.end - e, values, rows.whole);
    }
  }
}

RowsOfBlocks rows_of(const Array& bytes, int64_t row, const Array& x, const Array* error) {
  const auto size = static_cast<size_t>(item_size(x.dtype()));
  const bool whole = row % kEach == 0 && aligned(x.bytes(), kEach * size) &&
                     (!error || aligned(error->bytes(), kEach * sizeof(float)));
  return {
      bytes.bytes(), bytes.size(0), bytes.size(1), row, (row + codecs::kBlock - 1) / codecs::kBlock,
      x.numel(),     whole};
}

dim3 grid_of(const RowsOfBlocks& rows) { return loop_blocks(rows.rows * rows.in_row * kWarp); }

// Calls body(TypeTag<S>{}) for float32 or a half.
template <class Body>
void of_floats(DType dtype, const Body& body) {
  if (dtype == kFloat16) return body(TypeTag<Float16>{});
  if (dtype == kBFloat16) return body(TypeTag<BFloat16>{});
  body(TypeTag<float>{});
}

// Calls body(TypeTag<Format>{}) for a codec.
template <class Body>
void of_format(Codec codec, const Body& body) {
  switch (codec) {
    case Codec::sign1:
      return body(TypeTag<Signs>{});
    case Codec::int8:
      return body(TypeTag<codecs::Int8>{});
    case Codec::int4:
      return body(TypeTag<codecs::Int4>{});
    case Codec::fp8_e4m3:
      return body(TypeTag<codecs::E4M3>{});
    case Codec::fp8_e5m2:
      return body(TypeTag<codecs::E5M2>{});
  }
}

// The root of the sum of squares of each row.
Array roots_of_rows(CudaBackend& backend, const Array& x, int64_t row) {
  std::vector<Array> parts;
  for (int64_t begin = 0; begin < x.numel(); begin += row) {
    parts.push_back(x.slice(0, begin, std::min(begin + row, x.numel())));
  }
  const auto count = static_cast<int64_t>(parts.size());
  const Array words = Array::zeros({count, core::exact::kWords}, kInt64, x.device());
  const Array roots = Array::empty({count}, kFloat64, x.device());
  if (count == 0) return roots;
  backend.run(core::call::ExactSum{ReduceKind::sum_square, parts, words});
  backend.run(core::call::ExactResult{SumResult::root, words, roots});
  return roots;
}

}  // namespace

void CudaBackend::run(const call::Encode& call) {
  const DeviceGuard guard(index_);
  float* const errors = call.error ? reinterpret_cast<float*>(call.error->bytes()) : nullptr;
  const Array& sums = call.codec == Codec::sign1 && call.error ? *call.error : call.x;
  const RowsOfBlocks rows = rows_of(call.bytes, call.row, sums, call.error);
  of_format(call.codec, [&]<class Format>(TypeTag<Format>) {
    if constexpr (std::is_same_v<Format, Signs>) {
      if (call.error && call.x.numel() > 0) {
        const Operand operands[] = {*call.error, call.x};
        run(call::Map{
            {kernels::MapList::index_of<kernels::Add>()}, operands, kFloat32, *call.error});
      }
      const Array roots = roots_of_rows(*this, sums, call.row);
      of_floats(sums.dtype(), [&]<class S>(TypeTag<S>) {
        launch("encode", encode_signs_kernel<S>, grid_of(rows), dim3(kThreads), 0,
               reinterpret_cast<const S*>(sums.bytes()), rows,
               reinterpret_cast<const double*>(roots.bytes()), errors);
      });
    } else {
      of_floats(call.x.dtype(), [&]<class S>(TypeTag<S>) {
        launch("encode", encode_blocks_kernel<S, Format>, grid_of(rows), dim3(kThreads), 0,
               reinterpret_cast<const S*>(call.x.bytes()), rows, errors);
      });
    }
  });
}

void CudaBackend::run(const call::Decode& call) {
  const DeviceGuard guard(index_);
  RowsOfBlocks rows = rows_of(call.bytes, call.row, call.out, nullptr);
  const auto summands = static_cast<int>(call.mode == DecodeMode::sum ? rows.rows : 1);
  if (call.mode == DecodeMode::sum) rows.rows = 1;
  of_format(call.codec, [&]<class Format>(TypeTag<Format>) {
    of_floats(call.out.dtype(), [&]<class S>(TypeTag<S>) {
      launch("decode", decode_kernel<S, Format>, grid_of(rows), dim3(kThreads), 0,
             reinterpret_cast<S*>(call.out.bytes()), rows, summands, call.mode);
    });
  });
}

}  // namespace hero::cuda
