#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/npy.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::core::Array;
using hero::core::load_npy;
using hero::core::save_npy;
using hero_test::slurp;
using hero_test::TempDir;

// The bytes of a file: magic, version, header text, data.
std::string file_of(const std::string& header, const std::string& data, char major = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += major;
  bytes += '\0';
  const size_t width = major == 1 ? 2 : 4;
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

Array parse(const std::string& bytes) {
  return hero::core::parse_npy(std::as_bytes(std::span(bytes)));
}

std::string error_of(const std::string& bytes) {
  return hero::test::error_of([&] { parse(bytes); });
}

std::string header(std::string_view descr, std::string_view shape,
                   std::string_view order = "False") {
  std::string text = "{'descr': '";
  text.append(descr).append("', 'fortran_order': ").append(order).append(", 'shape': ");
  return text.append(shape).append(", }\n");
}

const std::string kFour("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 16);

TEST_CASE("arrays of every dtype and shape survive a .npy file", "[core][npy]") {
  const TempDir dir;
  for (const hero::DType dtype : {hero::kBool, hero::kUInt8, hero::kInt32, hero::kInt64,
                                  hero::kFloat16, hero::kFloat32, hero::kFloat64}) {
    for (const hero::Shape& shape :
         {hero::Shape{}, hero::Shape{0}, hero::Shape{5}, hero::Shape{2, 0, 3}, hero::Shape{3, 4}}) {
      std::vector<double> values;
      for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i % 7));
      const Array before = Array::from(values, shape).to(dtype);
      save_npy(dir / "x.npy", before);
      const Array after = load_npy(dir / "x.npy");
      CHECK(after.dtype() == dtype);
      CHECK(after.shape() == shape);
      CHECK(after.to_vector<double>() == before.to_vector<double>());
    }
  }
}

TEST_CASE("a .npy file is the bytes that NumPy writes", "[core][npy]") {
  const TempDir dir;
  save_npy(dir / "x.npy", Array::from(std::vector<int32_t>{1, 2, 3, 4}, {2, 2}));
  std::string text = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }";
  text.resize(117, ' ');
  CHECK(slurp(dir / "x.npy") == file_of(text + "\n", kFour));
  save_npy(dir / "y.npy", Array::from(std::vector<uint8_t>{9}, {1}));
  text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
  text.resize(117, ' ');
  CHECK(slurp(dir / "y.npy") == file_of(text + "\n", "\x09"));
}

TEST_CASE("views are written as their values", "[core][npy]") {
  const TempDir dir;
  const Array x = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  save_npy(dir / "x.npy", x.t().slice(0, 1));
  CHECK(load_npy(dir / "x.npy").to_vector<float>() == std::vector<float>{2, 5, 3, 6});
}

TEST_CASE("versions 2 and 3, Fortran order and old spellings are read", "[core][npy]") {
  for (const char major : {'\1', '\2', '\3'}) {
    const Array x = parse(file_of(header("<i4", "(2, 2)"), kFour, major));
    CHECK(x.to_vector<int64_t>() == std::vector<int64_t>{1, 2, 3, 4});
  }
  const Array fortran = parse(file_of(header("<i4", "(2, 2)", "True"), kFour));
  CHECK(fortran.to_vector<int64_t>() == std::vector<int64_t>{1, 3, 2, 4});
  CHECK(fortran.is_contiguous());
  CHECK(parse(file_of(header("=i4", "(4L,)"), kFour)).shape() == hero::Shape{4});
  CHECK(parse(file_of(header("|u1", "(4,)", "True"), "abcd")).shape() == hero::Shape{4});
  CHECK(parse(file_of("{\"shape\":(),\"descr\":\"<i4\",\"fortran_order\":False}", "abcd")).ndim() ==
        0);
}

TEST_CASE("every damage to a .npy file is a clear error", "[core][npy]") {
  const auto says = [](const std::string& bytes, const std::string& text) {
    CHECK_THAT(error_of(bytes), ContainsSubstring(text));
  };
  const std::string good = file_of(header("<i4", "(2, 2)"), kFour);
  CHECK(error_of(good) == "");
  bool all_fail = true;
  for (size_t n = 0; n < good.size(); ++n) all_fail = all_fail && error_of(good.substr(0, n)) != "";
  CHECK(all_fail);
  says("", "too few");
  says("PK\3\4 something else", "not a .npy file");
  says(good + "x", "17 bytes of data");
  says(good.substr(0, good.size() - 1), "15 bytes of data");
  says(good.substr(0, 20), "inside its header");
  says(file_of(header("<i4", "(2, 2)"), kFour, '\4'), "version 4.0");
  says(file_of(std::string(70000, ' '), "", '\2'), "header of 70000 bytes");
  says(file_of(header(">c8", "(2,)"), kFour), "'>c8'");
  says(file_of(header("<u2", "(4611686018427387904,)"), ""), "impossible shape");  // of int32
  says(file_of(header("<" + std::string(60000, 'u'), "(2,)"), kFour), "uuu...'");
  says(file_of(header("<c8", "(2,)"), kFour), "'<c8'");
  says(file_of(header("<U4", "(1,)"), kFour), "'<U4'");
  says(file_of("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (4,), }", kFour),
       "structured");
  says(file_of(header("<i4", "(9223372036854775807, 2)"), kFour), "impossible shape");
  says(file_of(header("<i4", "(9223372036854775807, 9223372036854775807, 0)"), ""),
       "impossible shape");
  says(file_of(header("<i4", "(99999999999999999999,)"), kFour), "above 2^63");
  says(file_of(header("<i4", "(1, 1, 1, 1, 1, 1, 1, 1, 4)"), kFour), "9 dimensions");
  says(file_of(header("<i4", "(-4,)"), kFour), "expected a size");
  says(file_of(header("<i4", "(4,)", "Maybe"), kFour), "True or False");
  says(file_of("{'descr': '<i4', 'shape': (4,)}", kFour), "not all of");
  says(file_of("{'descr': '<i4', 'descr': '<i4', 'shape': (4,)}", kFour), "twice");
  says(file_of("{'descr': '<i4', 'colour': 3}", kFour), "none of");
  says(file_of("{'descr': '<i4", kFour), "without an end");
  says(file_of(header("<i4", "(4,)") + "x", kFour), "after the closing brace");
  says(file_of(header("|b1", "(2,)"), "\1\2"), "neither 0 nor 1");
}

TEST_CASE("integers of other sizes are read into the smallest dtype with all their values",
          "[core][npy]") {
  const auto check = [](const char* descr, const std::string& data, hero::DType dtype,
                        const std::vector<int64_t>& values) {
    CAPTURE(descr);
    const Array x = parse(file_of(header(descr, "(" + std::to_string(values.size()) + ",)"), data));
    CHECK(x.dtype() == dtype);
    CHECK(x.to_vector<int64_t>() == values);
  };
  check("|i1", "\x7F\x80\xFF", hero::kInt32, {127, -128, -1});
  check(">i1", "\x7F\x80\xFF", hero::kInt32, {127, -128, -1});
  check("<i2", std::string("\xFF\x7F\x00\x80\xFE\xFF", 6), hero::kInt32, {32767, -32768, -2});
  check(">i2", std::string("\x7F\xFF\x80\x00\xFF\xFE", 6), hero::kInt32, {32767, -32768, -2});
  check("<u2", std::string("\xFF\xFF\x00\x80\x01\x02", 6), hero::kInt32, {65535, 32768, 513});
  check(">u2", std::string("\xFF\xFF\x80\x00\x01\x02", 6), hero::kInt32, {65535, 32768, 258});
  check("=u2", std::string("\x01\x02", 2), hero::kInt32, {513});
  check("<u4", std::string("\xFF\xFF\xFF\xFF\x01\x02\x03\x04", 8), hero::kInt64,
        {4294967295, 0x04030201});
  check(">u4", std::string("\xFF\xFF\xFF\xFF\x01\x02\x03\x04", 8), hero::kInt64,
        {4294967295, 0x01020304});
  check("<u8", std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8), hero::kInt64, {INT64_MAX});
  check(">u8", std::string("\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8), hero::kInt64, {INT64_MAX});
  check("<u2", "", hero::kInt32, {});
  const std::string large("\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80", 16);
  CHECK_THAT(error_of(file_of(header("<u8", "(2,)"), large)),
             ContainsSubstring("has 9223372036854775808 at element 1, more than int64 holds"));
  CHECK_THAT(error_of(file_of(header(">u8", "(1,)"), std::string(8, '\xFF'))),
             ContainsSubstring("has 18446744073709551615 at element 0"));

  // in Fortran order, and in more than one block
  const Array fortran = parse(file_of(header("<u2", "(2, 2)", "True"), kFour.substr(0, 8)));
  CHECK(fortran.to_vector<int64_t>() == std::vector<int64_t>{1, 2, 0, 0});
  constexpr int64_t kMany = (1 << 16) + 3;
  std::string data(2 * kMany, '\0');
  for (int64_t i = 0; i < kMany; ++i) {
    data[static_cast<size_t>(2 * i)] = static_cast<char>(i & 0xff);
    data[static_cast<size_t>(2 * i + 1)] = static_cast<char>(i >> 8 & 0xff);
  }
  const std::vector<int64_t> many =
      parse(file_of(header("<u2", "(65539,)"), data)).to_vector<int64_t>();
  bool all_right = many.size() == static_cast<size_t>(kMany);
  for (int64_t i = 0; all_right && i < kMany; ++i) {
    all_right = many[static_cast<size_t>(i)] == (i & 0xffff);
  }
  CHECK(all_right);
}

TEST_CASE("big-endian numbers of every dtype are read", "[core][npy]") {
  const TempDir dir;
  for (const hero::DType dtype : {hero::kBool, hero::kUInt8, hero::kInt32, hero::kInt64,
                                  hero::kFloat16, hero::kFloat32, hero::kFloat64}) {
    CAPTURE(hero::name(dtype));
    const Array x = Array::from(std::vector<double>{0, 1, 200.5, 3, 4, 5}, {2, 3}).to(dtype);
    save_npy(dir / "x.npy", x);
    std::string bytes = slurp(dir / "x.npy");
    const size_t item = static_cast<size_t>(hero::item_size(dtype));
    const size_t begin = bytes.size() - 6 * item;
    for (size_t i = 0; i < 6; ++i) {
      const auto one = bytes.begin() + static_cast<std::ptrdiff_t>(begin + i * item);
      std::reverse(one, one + static_cast<std::ptrdiff_t>(item));
    }
    bytes[bytes.find(item == 1 ? '|' : '<')] = '>';
    const Array y = parse(bytes);
    CHECK(y.dtype() == dtype);
    CHECK(y.to_vector<double>() == x.to_vector<double>());
  }
  const Array i4 = parse(file_of(header(">i4", "(2, 2)", "True"), kFour));
  CHECK(i4.to_vector<int64_t>() == std::vector<int64_t>{1 << 24, 3 << 24, 2 << 24, 4 << 24});
}

TEST_CASE("a .npy file that Python wrote is read", "[core][npy]") {
  const Array x = load_npy(std::string(HERO_GOLDEN_DIR "/python.npy"));
  CHECK(x.dtype() == hero::kFloat32);
  CHECK(x.shape() == hero::Shape{2, 3});
  CHECK(x.to_vector<double>() == std::vector<double>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("what a .npy file cannot hold is refused before a file is made", "[core][npy]") {
  const TempDir dir;
  CHECK_THROWS_WITH(save_npy(dir / "x.npy", Array::full({2}, 1.0, hero::kBFloat16)),
                    ContainsSubstring("bfloat16"));
  CHECK_THROWS_WITH(save_npy(dir / "x.npy", Array::empty({2}, hero::kFloat32, hero::kMeta)),
                    ContainsSubstring("meta"));
  CHECK_THROWS_AS(save_npy(dir / "x.npy", Array()), hero::Error);
  CHECK(dir.entries() == 0);
}

}  // namespace
