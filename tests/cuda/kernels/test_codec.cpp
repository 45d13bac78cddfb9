// Codecs on the device: bytes, errors and what comes back have the CPU's bits.
#include <cmath>
#include <limits>

#include "cuda/gpu.h"
#include "cuda/same_bits.h"
#include "support/arrays.h"

#include <hero/core/functions/codec.h>

using namespace hero;
using namespace hero::core;
using namespace hero::test;
using namespace hero_test;

namespace {

constexpr Codec kCodecs[] = {Codec::sign1, Codec::int8, Codec::int4, Codec::fp8_e4m3,
                             Codec::fp8_e5m2};

// Over many powers of two, with zeros of both signs.
Array values(int64_t n, DType dtype, uint64_t seed) {
  const Array x = noise({n}, kFloat32, seed);
  for (int64_t i = 0; i < n; ++i) {
    float& value = x.data<float>()[i];
    value = i % 13 == 0 ? -0.0f : std::ldexp(value, static_cast<int>(i % 17) - 8);
  }
  return x.to(dtype);
}

void check_codec(Codec codec, const Array& x, int64_t row, int64_t rows, bool feedback) {
  INFO(name(codec) << " of " << name(x.dtype()) << " " << to_string(x.shape()) << " in rows of "
                   << row << (feedback ? ", with an error" : ""));
  const int64_t n = x.numel();
  const Array bytes = Array::empty({rows, encoded_bytes(codec, row)}, kUInt8);
  const Array there = Array::empty(bytes.shape(), kUInt8, kGpu);
  const Array error = values(n, kFloat32, 77), error_there = error.to(kGpu);
  encode(codec, x, row, bytes, feedback ? &error : nullptr);
  encode(codec, on_gpu(x), row, there, feedback ? &error_there : nullptr);
  CHECK(same_bits(there, bytes));
  CHECK(same_bits(error_there, error));
  for (const DecodeMode mode : {DecodeMode::assign, DecodeMode::add, DecodeMode::sum}) {
    const int64_t count = mode == DecodeMode::sum ? std::min(n, row) : n;
    const Array out = values(count, x.dtype(), 78), out_there = out.to(kGpu);
    decode(codec, bytes, row, out, mode);
    decode(codec, there, row, out_there, mode);
    CHECK(same_bits(out_there, out));
  }
}

}  // namespace

TEST_CASE("codecs on the GPU have the CPU's bits") {
  HERO_NEEDS_GPU();
  for (const Codec codec : kCodecs) {
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      for (const bool feedback : {false, true}) {
        check_codec(codec, values(1100, dtype, 1), 512, 4, feedback);
        check_codec(codec, values(97, dtype, 2), 32, 4, feedback);
        check_codec(codec, values(97, dtype, 2), 33, 3, feedback);
        check_codec(codec, values(300, dtype, 3).slice(0, 1), 299, 1, feedback);
        check_codec(codec, values(0, dtype, 4), 64, 2, feedback);
      }
    }
  }
}

TEST_CASE("codecs on the GPU say NaN where the CPU's do, and know both ends of the range") {
  HERO_NEEDS_GPU();
  for (const Codec codec : kCodecs) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::nanf(""),
                              std::numeric_limits<float>::max(), 0x1p-112f, 0x1p-110f}) {
      const Array x = std::fabs(value) < 1.0f ? Array::zeros({700}) : values(700, kFloat32, 5);
      x.data<float>()[300] = value;
      for (const bool feedback : {false, true}) check_codec(codec, x, 512, 2, feedback);
    }
  }
}
