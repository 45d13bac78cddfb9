// Codecs against their format, written down once more: byte by byte, element by element.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"

#include <hero/core/functions/codec.h>
#include <hero/core/thread_pool.h>

namespace {

using namespace hero;
using namespace hero::core;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;

constexpr Codec kCodecs[] = {Codec::sign1, Codec::int8, Codec::int4, Codec::fp8_e4m3,
                             Codec::fp8_e5m2};
constexpr Codec kBlockCodecs[] = {Codec::int8, Codec::int4, Codec::fp8_e4m3, Codec::fp8_e5m2};

double largest_of(Codec codec) {
  switch (codec) {
    case Codec::int8:
      return 127;
    case Codec::int4:
      return 7;
    case Codec::fp8_e4m3:
      return 448;
    default:
      return 57344;
  }
}

// The number that a code of eight bits is, from the definition of the format.
double value_of(Codec codec, int code) {
  if (codec == Codec::int8) return static_cast<int8_t>(code);
  const int fraction = codec == Codec::fp8_e4m3 ? 3 : 2, bias = codec == Codec::fp8_e4m3 ? 7 : 15;
  const int exponent = (code & 127) >> fraction, low = code & ((1 << fraction) - 1);
  const double value = exponent == 0
                           ? std::ldexp(low, 1 - bias - fraction)
                           : std::ldexp((1 << fraction) + low, exponent - bias - fraction);
  return code >= 128 ? -value : value;
}

// The code of the nearest number, of two the one whose code is even.
int nearest_code(Codec codec, float y) {
  int best = 0;
  double off = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 256; ++code) {
    if (std::fabs(value_of(codec, code)) > largest_of(codec)) continue;
    if (codec != Codec::int8 && (code >= 128) != std::signbit(y)) continue;
    const double distance = std::fabs(value_of(codec, code) - static_cast<double>(y));
    if (distance > off || (distance == off && code % 2 != 0)) continue;
    off = distance;
    best = code;
  }
  return best;
}

std::vector<uint8_t> bytes_of(const Array& bytes) {
  return bytes.reshape({bytes.numel()}).to_vector<uint8_t>();
}

float float_at(const std::vector<uint8_t>& bytes, size_t at) {
  float value = 0.0f;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Array encoded(Codec codec, const Array& x, int64_t row, int64_t rows,
              const Array* error = nullptr) {
  const Array bytes = Array::empty({rows, encoded_bytes(codec, row)}, kUInt8);
  backend(kCpu).run(call::Fill{bytes, 0xEE});
  encode(codec, x, row, bytes, error);
  return bytes;
}

Array decoded(Codec codec, const Array& bytes, int64_t row, int64_t n, DType dtype = kFloat32) {
  const Array out = Array::empty({n}, dtype);
  decode(codec, bytes, row, out);
  return out;
}

// Numbers over many powers of two, some of them the same size as others, and zeros.
Array spread(int64_t n, uint64_t seed = 1) {
  const Array x = noise({n}, kFloat32, seed);
  for (int64_t i = 0; i < n; ++i) {
    float& value = x.data<float>()[i];
    value = i % 11 == 0 ? 0.0f : std::ldexp(value, static_cast<int>(i % 19) - 9);
  }
  return x;
}

}  // namespace

TEST_CASE("codecs: bytes are as many as the formula says") {
  CHECK(encoded_bytes(Codec::sign1, 0) == 4);
  CHECK(encoded_bytes(Codec::sign1, 1) == 8);
  CHECK(encoded_bytes(Codec::sign1, 64) == 4 + 8);
  CHECK(encoded_bytes(Codec::int8, 256) == 260);
  CHECK(encoded_bytes(Codec::fp8_e4m3, 257) == 520);
  CHECK(encoded_bytes(Codec::int4, 257) == 264);
  CHECK(row_elements(Codec::sign1, 100, 3) == 64);
  CHECK(row_elements(Codec::int8, 1025, 4) == 512);
  CHECK(row_elements(Codec::int8, 0, 4) == 256);
}

TEST_CASE("codecs: eight bits are the nearest number of the format times the block's scale") {
  const int64_t n = 3 * 256 + 41;
  for (const Codec codec : {Codec::int8, Codec::fp8_e4m3, Codec::fp8_e5m2}) {
    const Array x = spread(n);
    const std::vector<uint8_t> bytes = bytes_of(encoded(codec, x, n, 1));
    const std::vector<float> back =
        decoded(codec, encoded(codec, x, n, 1), n, n).to_vector<float>();
    REQUIRE(bytes.size() == 4 * 260);
    for (int64_t block = 0; block < 4; ++block) {
      float most = 0.0f;
      for (int64_t i = 256 * block; i < std::min(n, 256 * (block + 1)); ++i) {
        most = std::max(most, std::fabs(x.data<float>()[i]));
      }
      const auto largest = static_cast<float>(largest_of(codec));
      const auto at = static_cast<size_t>(260 * block);
      REQUIRE(float_at(bytes, at) == most / largest);
      for (int64_t i = 0; i < 256; ++i) {
        CAPTURE(name(codec), block, i);
        const int64_t e = 256 * block + i;
        const int code = bytes[at + 4 + static_cast<size_t>(i)];
        if (e >= n) {
          REQUIRE(code == 0);
          continue;
        }
        REQUIRE(code == nearest_code(codec, x.data<float>()[e] * (largest / most)));
        REQUIRE(back[static_cast<size_t>(e)] ==
                static_cast<float>(value_of(codec, code)) * (most / largest));
      }
    }
  }
}

TEST_CASE("codecs: every number of the fp8 formats, and every half way between two, is rounded") {
  for (const Codec codec : {Codec::fp8_e4m3, Codec::fp8_e5m2}) {
    std::vector<float> values = {static_cast<float>(largest_of(codec))};  // so that the scale is 1
    for (int code = 0; code < 127; ++code) {
      const double low = value_of(codec, code), high = value_of(codec, code + 1);
      if (high > largest_of(codec)) break;
      for (const double value : {low, (low + high) / 2, std::nextafter((low + high) / 2, high)}) {
        values.push_back(static_cast<float>(code % 2 == 0 ? value : -value));
      }
    }
    for (size_t begin = 1; begin < values.size(); begin += 255) {
      std::vector<float> block = {values[0]};
      for (size_t i = begin; i < std::min(begin + 255, values.size()); ++i) {
        block.push_back(values[i]);
      }
      const auto n = static_cast<int64_t>(block.size());
      const std::vector<uint8_t> bytes = bytes_of(encoded(codec, Array::from(block, {n}), n, 1));
      CHECK(float_at(bytes, 0) == 1.0f);
      for (size_t i = 0; i < block.size(); ++i) {
        CAPTURE(name(codec), block[i]);
        REQUIRE(bytes[4 + i] == nearest_code(codec, block[i]));
      }
    }
  }
}

TEST_CASE("codecs: int4 has two halves of a block in one byte") {
  const Array x = make({256}, [](int64_t i) {
    return static_cast<double>(i < 128 ? i % 15 - 7 : (i + 3) % 15 - 7);
  });
  const Array bytes = encoded(Codec::int4, x, 256, 1);
  const std::vector<uint8_t> codes = bytes_of(bytes);
  CHECK(float_at(codes, 0) == 1.0f);
  for (size_t i = 0; i < 128; ++i) {
    const int low = static_cast<int>(i) % 15 - 7, high = (static_cast<int>(i) + 131) % 15 - 7;
    REQUIRE(codes[4 + i] == ((low & 15) | (high & 15) << 4));
  }
  CHECK(hash(decoded(Codec::int4, bytes, 256, 256)) == hash(x));
  // The largest error is half a step.
  const Array y = spread(1000),
              back = decoded(Codec::int4, encoded(Codec::int4, y, 1000, 1), 1000, 1000);
  for (int64_t i = 0; i < 1000; ++i) {
    float most = 0.0f;
    for (int64_t j = i / 256 * 256; j < std::min<int64_t>(1000, i / 256 * 256 + 256); ++j) {
      most = std::max(most, std::fabs(y.data<float>()[j]));
    }
    // half a step, and the roundings of scale and inverse
    REQUIRE(std::fabs(y.data<float>()[i] - back.data<float>()[i]) <= most / 14 * 1.000001f);
  }
}

TEST_CASE("codecs: signs are bits beside the root of the mean square of their row") {
  const int64_t n = 150, row = 64;
  const Array x = spread(n);
  const Array bytes = encoded(Codec::sign1, x, row, 4);
  const std::vector<uint8_t> codes = bytes_of(bytes);
  const std::vector<float> back = decoded(Codec::sign1, bytes, row, n).to_vector<float>();
  REQUIRE(codes.size() == 4 * 12);
  for (int64_t r = 0; r < 4; ++r) {
    long double squares = 0.0L;
    const int64_t end = std::min(n, row * (r + 1));
    for (int64_t i = row * r; i < end; ++i) {
      squares += static_cast<long double>(x.data<float>()[i]) * x.data<float>()[i];
    }
    const auto elements = static_cast<long double>(end - row * r);
    const float scale = end > row * r ? static_cast<float>(std::sqrt(squares / elements)) : 0.0f;
    CHECK(float_at(codes, static_cast<size_t>(12 * r)) == scale);
    for (int64_t i = 0; i < row; ++i) {
      const int bit = codes[static_cast<size_t>(12 * r + 4 + i / 8)] >> (i % 8) & 1;
      const int64_t e = row * r + i;
      REQUIRE(bit == (e < n && std::signbit(x.data<float>()[e]) ? 1 : 0));
      if (e < n) REQUIRE(back[static_cast<size_t>(e)] == (bit ? -scale : scale));
    }
  }
}

TEST_CASE("codecs: the error is what the bytes leave of x and of the error before") {
  const int64_t n = 700, row = 256;
  for (const Codec codec : kCodecs) {
    CAPTURE(name(codec));
    const Array error = spread(n, 5), x = spread(n, 6);
    std::vector<float> sums(static_cast<size_t>(n));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = error.data<float>()[i] + x.data<float>()[i];
    const Array bytes = encoded(codec, x, row, 3, &error);
    CHECK(hash(bytes) == hash(encoded(codec, Array::from(sums, {n}), row, 3)));
    const std::vector<float> back = decoded(codec, bytes, row, n).to_vector<float>();
    for (size_t i = 0; i < sums.size(); ++i) REQUIRE(error.data<float>()[i] == sums[i] - back[i]);
  }
}

TEST_CASE("codecs: what is not finite comes back as NaN, and leaves no error") {
  const int64_t n = 600, row = 512;
  for (const Codec codec : kCodecs) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      CAPTURE(name(codec), bad);
      const Array x = spread(n), error = Array::zeros({n});
      x.data<float>()[300] = bad;
      const Array bytes = encoded(codec, x, row, 2, &error);
      const std::vector<float> back = decoded(codec, bytes, row, n).to_vector<float>();
      const bool row_wide = codec == Codec::sign1;
      for (int64_t i = 0; i < n; ++i) {
        const bool lost = row_wide ? i < 512 : i >= 256 && i < 512;
        REQUIRE(std::isnan(back[static_cast<size_t>(i)]) == lost);
        REQUIRE(std::isfinite(error.data<float>()[i]));
        if (lost) REQUIRE(error.data<float>()[i] == 0.0f);
      }
    }
  }
}

TEST_CASE("codecs: numbers at both ends of float32's range") {
  for (const Codec codec : kBlockCodecs) {
    CAPTURE(name(codec));
    const float most = std::numeric_limits<float>::max();
    const Array large = make({256}, [&](int64_t i) { return i % 2 == 0 ? most : -most / 2; });
    for (const float value :
         decoded(codec, encoded(codec, large, 256, 1), 256, 256).to_vector<float>()) {
      REQUIRE(std::isfinite(value));
    }
    const Array small =
        make({256}, [](int64_t i) { return std::ldexp(static_cast<double>(i % 3 - 1), -111); });
    const Array error = Array::zeros({256});
    const Array bytes = encoded(codec, small, 256, 1, &error);
    for (const uint8_t byte : bytes_of(bytes)) REQUIRE(byte == 0);
    CHECK(hash(error) == hash(small));
    const Array least = make({256}, [](int64_t i) { return i == 0 ? 0x1p-110 : 0.0; });
    CHECK(decoded(codec, encoded(codec, least, 256, 1), 256, 256).data<float>()[0] ==
          Approx(0x1p-110).epsilon(1e-6));  // two roundings
  }
}

TEST_CASE("codecs: halves are read and written as float32 rounded once") {
  const int64_t n = 600;
  for (const DType half : {kFloat16, kBFloat16}) {
    for (const Codec codec : kCodecs) {
      CAPTURE(name(codec), name(half));
      const Array x = noise({n}, half);
      const Array bytes = encoded(codec, x, 256, 3);
      CHECK(hash(bytes) == hash(encoded(codec, x.to(kFloat32), 256, 3)));
      CHECK(hash(decoded(codec, bytes, 256, n, half)) ==
            hash(decoded(codec, bytes, 256, n).to(half)));
    }
  }
}

TEST_CASE("codecs: rows are added to what is there, or to each other in their order") {
  const int64_t n = 500, row = 256;
  for (const Codec codec : kCodecs) {
    CAPTURE(name(codec));
    const Array x = spread(n, 3), before = spread(n, 4), out = before.clone();
    const Array bytes = encoded(codec, x, row, 2);
    const std::vector<float> values = decoded(codec, bytes, row, n).to_vector<float>();
    decode(codec, bytes, row, out, DecodeMode::add);
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(out.data<float>()[i] == before.data<float>()[i] + values[i]);
    }
    const Array three = encoded(codec, spread(3 * row, 9), row, 3), sum = Array::empty({250});
    decode(codec, three, row, sum, DecodeMode::sum);
    const std::vector<float> all = decoded(codec, three, row, 3 * row).to_vector<float>();
    for (size_t i = 0; i < 250; ++i) {
      REQUIRE(sum.data<float>()[i] == all[i] + all[i + 256] + all[i + 512]);
    }
  }
}

TEST_CASE("codecs: the number of threads does not enter into any bit", "[threads]") {
  const int64_t n = 200'003, row = 66'848;
  for (const Codec codec : kCodecs) {
    CAPTURE(name(codec));
    std::vector<uint64_t> found;
    for (const int threads : {1, 2, 3}) {
      const ThreadLimit limit(threads);
      const Array error = spread(n, 2);
      const Array bytes = encoded(codec, spread(n), row, 3, &error);
      const Array sum = Array::empty({row});
      decode(codec, bytes, row, sum, DecodeMode::sum);
      found.push_back(hash(bytes) ^ hash(error) * 3 ^ hash(decoded(codec, bytes, row, n)) * 5 ^
                      hash(sum) * 7);
    }
    CHECK(found[1] == found[0]);
    CHECK(found[2] == found[0]);
  }
}

TEST_CASE("codecs: no elements, and errors in one line") {
  for (const Codec codec : kCodecs) {
    const Array none = encoded(codec, Array::zeros({0}), 256, 2);
    for (const uint8_t byte : bytes_of(none)) REQUIRE(byte == 0);
    CHECK(decoded(codec, none, 256, 0).numel() == 0);
  }
  const Array x = Array::zeros({300}), bytes = Array::zeros({2, 260}, kUInt8);
  CHECK_THROWS_WITH(encode(Codec::int8, Array::zeros({300}, kFloat64), 256, bytes),
                    "encode: values are float64 [300]; they must be contiguous float32, float16 or "
                    "bfloat16 of one dimension");
  CHECK_THROWS_WITH(encode(Codec::int4, x, 256, bytes),
                    "encode: bytes of int4 in rows of 256 elements are contiguous uint8 [rows, "
                    "132], not uint8 [2, 260]");
  CHECK_THROWS_WITH(encode(Codec::int8, Array::zeros({600}), 256, bytes),
                    "encode: 2 rows of 256 elements hold no 600");
  CHECK_THROWS_WITH(decode(Codec::int8, bytes, 256, x, DecodeMode::sum),
                    "decode: the sum of 2 rows of 256 elements cannot be 300 elements");
  const Array error = Array::zeros({200});
  CHECK_THROWS_WITH(
      encode(Codec::int8, x, 256, bytes, &error),
      ContainsSubstring("the error must be contiguous float32 [300], not float32 [200]"));
  // on meta there is nothing to do, and it is checked
  const Array there = Array::empty({2, 260}, kUInt8, kMeta);
  CHECK_NOTHROW(encode(Codec::int8, Array::empty({300}, kFloat32, kMeta), 256, there));
  CHECK_THROWS(encode(Codec::int8, x, 256, there));
}
