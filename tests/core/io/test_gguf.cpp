// GGUF files: values of every type of block worked out from its definition, metadata, and files
// that lie.
#include <cmath>
#include <string>
#include <vector>

#include "fuzz/formats.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/damage.h"
#include "support/gguf.h"
#include "support/temp_dir.h"

#include <hero/core/gguf.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::core::Array;
using hero::core::GGUFReader;
using hero_test::GGUFBuilder;
using hero_test::little_endian;
using hero_test::TempDir;

// float16 numbers that the blocks below have as scales
constexpr uint16_t kEighth = 0x3000, kQuarter = 0x3400, kHalf = 0x3800, kOne = 0x3C00,
                   kTwo = 0x4000, kThree = 0x4200, kMinusOne = 0xBC00;

struct Stored {
  const char* name;
  uint32_t type;
  std::string bytes;
  std::vector<float> values;
};

std::string byte(int value) { return {static_cast<char>(value)}; }

Stored q8_0() {
  Stored s{"Q8_0", 8, little_endian(kHalf), {}};
  for (int i = 0; i < 32; ++i) {
    const int q = i == 0 ? -128 : i == 31 ? 127 : 5 * i - 70;
    s.bytes += byte(q);
    s.values.push_back(0.5F * static_cast<float>(q));
  }
  return s;
}

// Byte j holds j in its low half and 15 - j in its high half.
std::string nibbles() {
  std::string bytes;
  for (int j = 0; j < 16; ++j) bytes += byte(j | (15 - j) << 4);
  return bytes;
}

template <class Value>
Stored small(const char* name, uint32_t type, const std::string& head, const Value& value) {
  Stored s{name, type, head + nibbles(), {}};
  for (int i = 0; i < 32; ++i) {
    s.values.push_back(static_cast<float>(value(i < 16 ? i : 31 - i, i >= 16)));
  }
  return s;
}

// Scales and minimums of 6 bits, of which those of the last four groups are spread over two bytes.
constexpr int kScale[8] = {1, 2, 3, 63, 33, 34, 63, 20};
constexpr int kMinimum[8] = {0, 63, 2, 3, 40, 50, 63, 17};

std::string packed_scales() {
  std::string bytes(12, '\0');
  for (int g = 0; g < 4; ++g) {
    bytes[static_cast<size_t>(g)] = static_cast<char>(kScale[g] | kScale[g + 4] / 16 * 64);
    bytes[static_cast<size_t>(g + 4)] = static_cast<char>(kMinimum[g] | kMinimum[g + 4] / 16 * 64);
    bytes[static_cast<size_t>(g + 8)] =
        static_cast<char>(kScale[g + 4] % 16 + kMinimum[g + 4] % 16 * 16);
  }
  return bytes;
}

Stored pairs(const char* name, uint32_t type, bool fifth) {
  Stored s{name, type, little_endian(kTwo) + little_endian(kHalf) + packed_scales(), {}};
  std::string high(fifth ? 32 : 0, '\0'), low(128, '\0');
  for (int i = 0; i < 256; ++i) {
    const int group = i / 32, at = i % 32;
    const int q = (i * 7 + group) % (fifth ? 32 : 16);
    char& place = low[static_cast<size_t>(group / 2 * 32 + at)];
    place = static_cast<char>(place | q % 16 << (group % 2 * 4));
    if (fifth) {
      char& bits = high[static_cast<size_t>(at)];
      bits = static_cast<char>(bits | q / 16 << group);
    }
    s.values.push_back(static_cast<float>(2 * kScale[group] * q) -
                       0.5F * static_cast<float>(kMinimum[group]));
  }
  s.bytes += high + low;
  return s;
}

Stored q6_k() {
  std::string low(128, '\0'), high(64, '\0'), scales;
  Stored s{"Q6_K", 14, "", {}};
  for (int k = 0; k < 16; ++k) scales += byte(k == 0 ? -128 : k == 15 ? 127 : 3 * k - 20);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, run = i % 128 / 32, at = i % 32, q = i * 11 % 64;
    char& four = low[static_cast<size_t>(half * 64 + run % 2 * 32 + at)];
    four = static_cast<char>(four | q % 16 << (run / 2 * 4));
    char& two = high[static_cast<size_t>(half * 32 + at)];
    two = static_cast<char>(two | q / 16 << (2 * run));
    const auto scale = static_cast<float>(static_cast<int8_t>(scales[static_cast<size_t>(i / 16)]));
    s.values.push_back(0.125F * scale * static_cast<float>(q - 32));
  }
  s.bytes = low + high + scales + little_endian(kEighth);
  return s;
}

std::vector<Stored> stored() {
  std::vector<Stored> all = {
      {"F32", 0, little_endian(1.5F) + little_endian(-2.25F), {1.5F, -2.25F}},
      {"F16", 1, little_endian(kThree) + little_endian(kMinusOne), {3.0F, -1.0F}},
      // the upper halves of 1.0 and -2.5 in float32
      {"BF16",
       30,
       little_endian<uint16_t>(0x3F80) + little_endian<uint16_t>(0xC020),
       {1.0F, -2.5F}},
      {"F64", 28, little_endian(0.1) + little_endian(-7.0), {0.1F, -7.0F}}};
  all.push_back(q8_0());
  all.push_back(small("Q4_0", 2, little_endian(kTwo), [](int q, bool) { return 2 * (q - 8); }));
  all.push_back(small("Q4_1", 3, little_endian(kQuarter) + little_endian(kMinusOne),
                      [](int q, bool) { return 0.25 * q - 1.0; }));
  // fifth bits: of the second half of the block, and of the first
  all.push_back(small("Q5_0", 6, little_endian(kOne) + little_endian(0xFFFF0000U),
                      [](int q, bool second) { return q + (second ? 16 : 0) - 16; }));
  all.push_back(small("Q5_1", 7,
                      little_endian(kHalf) + little_endian(kThree) + little_endian(0x0000FFFFU),
                      [](int q, bool second) { return 0.5 * (q + (second ? 0 : 16)) + 3.0; }));
  all.push_back(pairs("Q4_K", 12, false));
  all.push_back(pairs("Q5_K", 13, true));
  all.push_back(q6_k());
  return all;
}

std::string error_of(const std::string& bytes) {
  const TempDir dir;
  hero_test::spill(dir / "x.gguf", bytes);
  return hero::test::error_of([&] { GGUFReader reader(dir / "x.gguf"); });
}

TEST_CASE("every type of tensors in GGUF has the values that its definition says", "[core][gguf]") {
  const TempDir dir;
  for (const uint32_t version : {2U, 3U}) {
    GGUFBuilder file;
    const std::vector<Stored> all = stored();
    for (const Stored& one : all) {
      // three blocks, of which the middle one is that of the definition
      const std::string zeros(one.bytes.size(), '\0');
      file.tensor(one.name, {one.values.size(), 3}, one.type, zeros + one.bytes + zeros);
    }
    hero_test::spill(dir / "x.gguf", file.bytes(version));
    const GGUFReader reader(dir / "x.gguf");
    CHECK(reader.version() == version);
    REQUIRE(reader.entries().size() == all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const Stored& one = all[i];
      INFO(one.name);
      const GGUFReader::Entry& entry = reader.entries()[i];
      const auto width = static_cast<int64_t>(one.values.size());
      CHECK(entry.name == one.name);
      CHECK(entry.type == one.name);
      CHECK(entry.shape == hero::Shape{3, width});
      CHECK(entry.readable);
      const Array values = reader.load(one.name);
      CHECK(values.dtype() == hero::kFloat32);
      CHECK(values.select(0, 1).to_vector<float>() == one.values);
      CHECK(values.select(0, 0).to_vector<float>()[0] == 0.0F);
      // other dtypes: what float32 becomes, rounded once
      for (const hero::DType dtype : {hero::kFloat64, hero::kBFloat16, hero::kFloat16}) {
        if (entry.type == "F64" && dtype == hero::kFloat64) continue;
        CHECK(hero::test::same(reader.load(one.name, dtype), values.to(dtype)));
      }
    }
    CHECK(reader.load("F64", hero::kFloat64).select(0, 1).to_vector<double>()[0] == 0.1);
  }
}

TEST_CASE("numbers of a few blocks, by hand", "[core][gguf]") {
  const auto value = [](const Stored& one, size_t i) { return one.values[i]; };
  // The expectations above are computed; these are not.
  CHECK(value(small("", 0, "", [](int q, bool) { return 2 * (q - 8); }), 0) == -16.0F);
  CHECK(value(small("", 0, "", [](int q, bool) { return 2 * (q - 8); }), 16) == 14.0F);
  // Q4_K: group 1 has scale 2 2 = 4 and minimum 63 / 2; its number 0 is (32 7 + 1) mod 16 = 1
  CHECK(value(pairs("", 12, false), 32) == 4.0F - 31.5F);
  // Q4_K: group 7 has scale 2 20 and minimum 17 / 2; its number 31 is (255 7 + 7) mod 16 = 0
  CHECK(value(pairs("", 12, false), 255) == -8.5F);
  // Q6_K: element 1 has scale -128 / 8 and number 11
  CHECK(value(q6_k(), 1) == -16.0F * (11 - 32));
}

TEST_CASE("tensors that span several chunks and threads have each value in its place",
          "[core][gguf]") {
  const TempDir dir;
  // Q8_0, each block of a scale of its own: 1.25 million numbers in 1.3 MB
  constexpr int64_t kBlocks = 39063;
  std::string bytes;
  for (int64_t b = 0; b < kBlocks; ++b) {
    const hero::Float16 d(static_cast<float>(b % 1000 + 1) / 1024.0F);
    bytes += little_endian(d.bits);
    for (int i = 0; i < 32; ++i) bytes += byte(static_cast<int>((b + i) % 255) - 127);
  }
  GGUFBuilder file;
  // more than one chunk of 4 MB
  std::string four;
  for (int k = 0; k < 4; ++k) four += bytes;
  file.tensor("w", {32, static_cast<uint64_t>(4 * kBlocks)}, 8, four);
  hero_test::spill(dir / "x.gguf", file.bytes());
  for (const hero::DType dtype : {hero::kFloat32, hero::kBFloat16}) {
    const std::vector<float> read =
        GGUFReader(dir / "x.gguf").load("w", dtype).to(hero::kFloat32).to_vector<float>();
    size_t wrong = 0;
    for (int64_t b = 0; b < 4 * kBlocks; ++b) {
      const int64_t at = b % kBlocks;
      const float d =
          static_cast<float>(hero::Float16(static_cast<float>(at % 1000 + 1) / 1024.0F));
      for (int i = 0; i < 32; ++i) {
        float expected = d * static_cast<float>((at + i) % 255 - 127);
        if (dtype == hero::kBFloat16) expected = static_cast<float>(hero::BFloat16(expected));
        wrong += read[static_cast<size_t>(b * 32 + i)] != expected ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("metadata of GGUF are read by type, and refused by name", "[core][gguf]") {
  const TempDir dir;
  using B = GGUFBuilder;
  GGUFBuilder file;
  file.key("a.u8", B::kU8, "\xfe")
      .key("a.i8", B::kI8, "\xfe")
      .key("a.u16", B::kU16, "\xff\xff")
      .key("a.i16", B::kI16, "\xfe\xff")
      .u32("a.u32", 4294967295U)
      .key("a.i32", B::kI32, little_endian<int32_t>(-5))
      .f32("a.f32", 0.5F)
      .flag("a.yes", true)
      .flag("a.no", false)
      .text("a.text", "gr\xc3\xbc\xc3\x9f")
      .key("a.u64", B::kU64, little_endian<uint64_t>(1) + "")
      .key("a.most", B::kU64, little_endian<uint64_t>(UINT64_MAX))
      .key("a.i64", B::kI64, little_endian<int64_t>(-1))
      .key("a.f64", B::kF64, little_endian(0.1))
      .texts("a.texts", {"", "b", "cc"})
      .i32s("a.i32s", {-1, 0, 7})
      .key("a.f32s", B::kArray,
           B::array_bytes(B::kF32, 2, little_endian(0.25F) + little_endian(-1.0F)))
      .key("a.nested", B::kArray,
           B::array_bytes(B::kArray, 2,
                          B::array_bytes(B::kU8, 1, "\1") + B::array_bytes(B::kText, 0, "")))
      .text("a.last", "end");
  hero_test::spill(dir / "x.gguf", file.bytes());
  const GGUFReader reader(dir / "x.gguf");
  CHECK(reader.keys().size() == 19);
  CHECK(reader.integer("a.u8") == 254);
  CHECK(reader.integer("a.i8") == -2);
  CHECK(reader.integer("a.u16") == 65535);
  CHECK(reader.integer("a.i16") == -2);
  CHECK(reader.integer("a.u32") == 4294967295);
  CHECK(reader.integer("a.i32") == -5);
  CHECK(reader.integer("a.u64") == 1);
  CHECK(reader.integer("a.i64") == -1);
  CHECK(reader.number("a.f32") == 0.5);
  CHECK(reader.number("a.f64") == 0.1);
  CHECK(reader.number("a.i8") == -2.0);
  CHECK(reader.number("a.most") == 0x1p64);
  CHECK(reader.flag("a.yes") == true);
  CHECK(reader.flag("a.no") == false);
  CHECK(reader.text("a.text") == "gr\xc3\xbc\xc3\x9f");
  CHECK(reader.text("a.last") == "end");
  CHECK(reader.texts("a.texts") == std::vector<std::string>{"", "b", "cc"});
  CHECK(reader.integers("a.i32s") == std::vector<int64_t>{-1, 0, 7});
  CHECK(reader.numbers("a.i32s") == std::vector<double>{-1, 0, 7});
  CHECK(reader.numbers("a.f32s") == std::vector<double>{0.25, -1});
  CHECK_FALSE(reader.has("a"));
  CHECK(reader.integer("a") == std::nullopt);
  CHECK(reader.texts("a") == std::nullopt);
  const auto fails = [](const auto& call, const char* what) {
    CHECK_THAT(hero::test::error_of(call), ContainsSubstring(what));
  };
  fails([&] { reader.integer("a.f32"); },
        "key 'a.f32' is of type float32; a whole number is needed");
  fails([&] { reader.integer("a.yes"); }, "key 'a.yes' is of type bool; a whole number is needed");
  fails([&] { reader.integer("a.most"); },
        "key 'a.most' is 18446744073709551615, and whole numbers");
  fails([&] { reader.number("a.text"); }, "key 'a.text' is of type text; a number is needed");
  fails([&] { reader.flag("a.u8"); }, "key 'a.u8' is of type uint8; true or false is needed");
  fails([&] { reader.text("a.u8"); }, "key 'a.u8' is of type uint8; a text is needed");
  fails([&] { reader.texts("a.i32s"); },
        "is of type array of 3 int32; an array of texts is needed");
  fails([&] { reader.integers("a.f32s"); },
        "array of 2 float32; an array of whole numbers is needed");
  fails([&] { reader.numbers("a.nested"); }, "array of 2 array; an array of numbers is needed");
}

TEST_CASE("a type that is not known leaves the other tensors readable", "[core][gguf]") {
  const TempDir dir;
  GGUFBuilder file;
  file.tensor("strange", {256}, 17, std::string(74, '\1'))
      .tensor("stranger", {8}, 77, std::string(8, '\1'))
      .tensor("w", {2}, 0, little_endian(1.0F) + little_endian(2.0F));
  hero_test::spill(dir / "x.gguf", file.bytes());
  const GGUFReader reader(dir / "x.gguf");
  CHECK(reader.load("w").to_vector<float>() == std::vector<float>{1.0F, 2.0F});
  const auto fails = [&](const char* name, const char* what) {
    CHECK_THAT(hero::test::error_of([&] { reader.load(name); }), ContainsSubstring(what));
  };
  fails("strange",
        "tensor 'strange' is stored as IQ2_XS, which is none of F32, F16, BF16, F64, Q8_0");
  fails("stranger", "tensor 'stranger' is stored as type 77, which is none of");
  fails("v", "has no tensor 'v' among 3: strange, stranger, w");
  CHECK_THAT(hero::test::error_of([&] { reader.load("w", hero::kInt32); }),
             ContainsSubstring("as floating numbers, not as int32"));
}

TEST_CASE("tensors lie at multiples of the alignment that a file states", "[core][gguf]") {
  const TempDir dir;
  GGUFBuilder file;
  file.alignment(128).u32("general.alignment", 128);
  file.tensor("a", {1}, 0, little_endian(1.0F)).tensor("b", {1}, 0, little_endian(2.0F));
  hero_test::spill(dir / "x.gguf", file.bytes());
  const GGUFReader reader(dir / "x.gguf");
  CHECK(reader.find("b")->begin - reader.find("a")->begin == 128);
  CHECK(reader.load("b").to_vector<float>() == std::vector<float>{2.0F});
  for (const uint32_t bad : {0U, 3U, 48U}) {
    CHECK_THAT(error_of(GGUFBuilder().u32("general.alignment", bad).bytes()),
               ContainsSubstring("'general.alignment' is " + std::to_string(bad) +
                                 "; it must be a power of two"));
  }
  CHECK_THAT(error_of(GGUFBuilder().text("general.alignment", "32").bytes()),
             ContainsSubstring("is of type text; a uint32 is needed"));
  CHECK_THAT(error_of(GGUFBuilder().entry("w", {1}, 0, 16).bytes() + std::string(64, '\0')),
             ContainsSubstring("begins at byte 16 of the data, which is no multiple"));
}

TEST_CASE("a GGUF file that lies is refused with what is wrong in it", "[core][gguf]") {
  using B = GGUFBuilder;
  const auto refuses = [](const std::string& bytes, const char* what) {
    CHECK_THAT(error_of(bytes), ContainsSubstring(what));
  };
  refuses("", "ends inside its first four bytes");
  refuses("GGML" + std::string(60, '\0'), "is no GGUF file: it does not begin with GGUF");
  refuses(B().bytes(1), "has version 1, and 2 and 3 are read here");
  refuses(B().bytes(4), "has version 4");
  refuses(B().bytes(0x03000000), "is big-endian");
  refuses("GGUF" + little_endian<uint32_t>(3) + "12345", "ends inside the number of tensors");
  for (const uint64_t many : {uint64_t{1000}, uint64_t{1} << 40, UINT64_MAX}) {
    refuses(B().with_counts(3, many, 0), "claims");
    refuses(B().with_counts(3, 0, many), "claims");
  }
  refuses(B().u32("k", 1).with_counts(3, 0, 3), "ends inside");
  refuses(B().u32("k", 1).u32("k", 2).bytes(), "has the key 'k' twice");
  refuses(B().key("k", 13, "").bytes(), "key 'k' has type 13, which the format does not have");
  refuses(B().key("k", B::kBool, "\2").bytes(), "is a bool of the byte 2");
  refuses(B().key("k", B::kText, little_endian(UINT64_MAX)).bytes(),
          "ends inside key 'k', which needs 18446744073709551615 bytes");
  refuses(B().key("k", B::kArray, B::array_bytes(B::kU64, uint64_t{1} << 61, "")).bytes(),
          "claims 2305843009213693952 uint64 elements");
  refuses(
      B().key("k", B::kArray, B::array_bytes(B::kText, 1, little_endian(UINT64_MAX - 3))).bytes(),
      "ends inside key 'k'");
  refuses(B().key("k", B::kArray, B::array_bytes(B::kBool, 2, std::string("\1\2"))).bytes(),
          "is a bool of the byte 2");
  std::string deep = B::array_bytes(B::kU8, 0, "");
  for (int i = 0; i < 6; ++i) deep = B::array_bytes(B::kArray, 1, deep);
  refuses(B().key("k", B::kArray, deep).bytes(), "has arrays within arrays, 4 deep");
  // tensors
  const std::string data(64, '\0');
  refuses(B().entry("w", {1, 1, 1, 1, 1}, 0, 0).bytes() + data, "tensor 'w' has 5 dimensions");
  refuses(B().entry("w", {uint64_t{1} << 63}, 0, 0).bytes() + data, "has a size of");
  refuses(B().entry("w", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0).bytes() + data,
          "has an impossible shape");
  refuses(B().entry("w", {0, uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0).bytes() + data,
          "has an impossible shape");
  refuses(B().entry("w", {48}, 2, 0).bytes() + data,
          "of type Q4_0 has rows of 48 elements, which are no whole blocks of 32");
  refuses(B().entry("w", {17}, 0, 0).bytes() + data, "tensor 'w' needs 68 bytes from byte 0");
  refuses(B().entry("w", {1}, 0, 64).bytes() + data, "tensor 'w' needs 4 bytes from byte 64");
  refuses(B().entry("w", {1}, 0, UINT64_MAX - 31).bytes() + data, "tensor 'w' needs 4 bytes");
  refuses(B().entry("w", {1}, 0, 0).entry("w", {1}, 0, 32).bytes() + data,
          "has the tensor 'w' twice");
  refuses(B().entry("v", {9}, 0, 0).entry("w", {1}, 0, 32).bytes() + data,
          "tensors 'v' and 'w' share bytes");
  // bytes that no tensor has: of one that is marked with a smaller type or shape than it has
  const std::string gap = "a tensor's type or shape is not that of its bytes";
  const std::string more = data + std::string(64, '\0');
  refuses(B().entry("v", {8}, 1, 0).entry("w", {8}, 0, 64).bytes() + more,
          "tensor 'w' begins 48 bytes behind the end of tensor 'v', more than the alignment 32");
  refuses(B().entry("v", {8}, 0, 0).entry("w", {8}, 0, 64).bytes() + more, gap.c_str());
  refuses(B().entry("w", {8}, 0, 32).bytes() + data,
          "tensor 'w' begins 32 bytes behind the list of tensors");
  refuses(B().entry("w", {8}, 0, 0).bytes() + data,
          "the file ends 32 bytes behind the end of tensor 'w'");
  CHECK(error_of(B().entry("v", {9}, 0, 0).entry("w", {1}, 0, 64).bytes() + data +
                 std::string(32, '\0'))
            .empty());
  CHECK(error_of(B().entry("v", {64}, 17, 0).entry("w", {8}, 0, 96).bytes() + more).empty());
  // and without a lie
  CHECK(error_of(B().entry("v", {8}, 0, 0).entry("w", {8}, 0, 32).bytes() + data).empty());
  CHECK(error_of(B().entry("scalar", {}, 0, 0).entry("none", {0, 3}, 0, 32).bytes() +
                 data.substr(0, 32))
            .empty());
  CHECK_THAT(hero::test::error_of([] { GGUFReader("no/such.gguf"); }),
             ContainsSubstring("no/such.gguf"));
}

TEST_CASE("damaged GGUF files load or are refused, nothing else", "[core][gguf][fuzz]") {
  std::vector<std::string> seeds;
  GGUFBuilder file;
  for (const Stored& one : stored())
    file.tensor(one.name, {one.values.size()}, one.type, one.bytes);
  seeds.push_back(file.bytes());
  file = {};
  file.text("general.architecture", "llama").u32("n", 3).flag("f", true).i32s("i", {1, 2});
  file.texts("t", {"a", "bc"}).f32("x", 1.5F).tensor("w", {2}, 0, little_endian(int64_t{0}));
  seeds.push_back(file.bytes(2));
  seeds.push_back(GGUFBuilder().bytes());
  for (const auto& seed : seeds) CHECK(hero_fuzz::feed_gguf(std::as_bytes(std::span(seed))));
  const int valid = hero_test::damage_and_feed(seeds, 5000, hero_fuzz::feed_gguf);
  CHECK(valid > 50);
  CHECK(valid < 4000);
}

}  // namespace
