// safetensors files that keep arrays in the bytes of a codec: what is in the file, what comes back,
// whole and in parts, and what is refused.
#include <limits>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/io/encoding.h>

namespace {

using namespace hero;
using namespace hero::core;
using Catch::Matchers::ContainsSubstring;
using hero::test::hash, hero::test::noise;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;

constexpr Codec kValueCodecs[] = {Codec::int8, Codec::int4, Codec::fp8_e4m3, Codec::fp8_e5m2};

// What the codec makes of an array, as one row.
Array through(Codec codec, const Array& x) {
  const Array bytes = Array::empty({1, encoded_bytes(codec, x.numel())}, kUInt8);
  encode(codec, x.reshape({x.numel()}), x.numel(), bytes);
  const Array back = Array::empty({x.numel()}, x.dtype());
  decode(codec, bytes, x.numel(), back);
  return back.reshape(x.shape());
}

bool same(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && hash(a) == hash(b);
}

// A file with one array "w" of 700 float32 in int8 (3 blocks of 260 bytes), its header changed.
std::string changed(const std::string& from, const std::string& to) {
  const TempDir dir;
  save_safetensors(dir / "x", std::vector<NamedArray>{{"w", noise({7, 100}, kFloat32, 1)}}, {},
                   {.all = Codec::int8});
  std::string bytes = slurp(dir / "x");
  const size_t at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(from.size() == to.size());
  return bytes.replace(at, from.size(), to);
}

std::string error_of(const std::string& bytes) {
  return hero::test::error_of([&] { parse_safetensors(std::as_bytes(std::span(bytes))); });
}

}  // namespace

TEST_CASE("safetensors: an encoded array comes back as its bytes say, without being asked for") {
  const TempDir dir;
  for (const Codec codec : kValueCodecs) {
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      CAPTURE(name(codec), name(dtype));
      const Array w = noise({3, 5, 67}, dtype, 3);
      save_safetensors(dir / "x", std::vector<NamedArray>{{"w", w}}, {{"step", "7"}},
                       {.all = codec});
      const NamedArrays loaded = load_safetensors(dir / "x");
      CHECK(same(loaded.at("w"), through(codec, w)));
      CHECK(loaded.metadata == Metadata{{"format", "pt"}, {"step", "7"}});
      // header, then the codec's bytes and nothing else
      const std::string bytes = slurp(dir / "x");
      const auto header = static_cast<uint8_t>(bytes[0]) + 256 * static_cast<uint8_t>(bytes[1]);
      CHECK(static_cast<int64_t>(bytes.size()) == 8 + header + encoded_bytes(codec, w.numel()));
      CHECK_THAT(bytes, ContainsSubstring(std::string("\"codec:w\":\"") + name(codec)));
      CHECK_THAT(bytes, ContainsSubstring("\"dtype\":\"U8\""));
    }
  }
}

TEST_CASE("safetensors: parts of an encoded array are slices of the whole") {
  const TempDir dir;
  const Array w = noise({1000}, kFloat32, 4), first = noise({9}, kFloat32, 5);
  for (const Codec codec : kValueCodecs) {
    CAPTURE(name(codec));
    save_safetensors(dir / "x", std::vector<NamedArray>{{"first", first}, {"w", w}}, {},
                     {.all = codec});
    const SafetensorsReader reader(dir / "x");
    REQUIRE(reader.entries().size() == 2);
    CHECK(same(reader.load("first"), first));  // 36 bytes, which no codec makes fewer
    const auto& entry = reader.entries()[1];
    CHECK(entry.name == "w");
    CHECK(entry.dtype == kFloat32);
    CHECK(entry.shape == Shape{1000});
    const Array whole = through(codec, w);
    CHECK(same(reader.load("w"), whole));
    for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 1000}, {0, 1}, {255, 2}, {256, 256}, {300, 500}, {511, 489}, {999, 1}, {4, 0}}) {
      CAPTURE(begin, count);
      const Array part = Array::full({count}, -1.0);
      reader.read(entry, begin, part);
      CHECK(same(part, whole.slice(0, begin, begin + count).contiguous()));
    }
    CHECK_THROWS_WITH(reader.read(entry, 999, Array::empty({2})),
                      ContainsSubstring("cannot read elements 999 ... of 'w'"));
    CHECK_THROWS_WITH(reader.read(entry, 0, Array::empty({2}, kFloat16)),
                      ContainsSubstring("cannot read elements 0"));
  }
}

TEST_CASE("safetensors: which arrays are encoded") {
  const TempDir dir;
  const std::vector<NamedArray> arrays = {{"state.0.exp_avg", noise({400}, kFloat32, 1)},
                                          {"state.0.exp_avg_sq", noise({400}, kFloat32, 2)},
                                          {"exp_avg", noise({400}, kFloat32, 3)},
                                          {"w", noise({400}, kFloat32, 4)},
                                          {"double", noise({400}, kFloat64, 5)},
                                          {"ids", Array::full({400}, 3, kInt64)},
                                          {"mask", Array::full({400}, true, kBool)},
                                          {"step", Array::full({}, 9.0)}};
  const Encoding encoding = {.all = Codec::int4,
                             .named = {{"exp_avg", Codec::int8}, {"exp_avg_sq", Codec::fp8_e5m2}}};
  CHECK(encoding.text() == "int4, exp_avg in int8, exp_avg_sq in fp8_e5m2");
  CHECK(Encoding().text().empty());
  save_safetensors(dir / "x", arrays, {}, encoding);
  const NamedArrays loaded = load_safetensors(dir / "x");
  for (const NamedArray& one : arrays) {
    CAPTURE(one.name);
    const Array& back = loaded.at(one.name);
    if (one.name.ends_with("exp_avg")) {
      CHECK(same(back, through(Codec::int8, one.array)));
    } else if (one.name.ends_with("exp_avg_sq")) {
      CHECK(same(back, through(Codec::fp8_e5m2, one.array)));
    } else {
      CHECK(same(back, one.name == "w" ? through(Codec::int4, one.array) : one.array));
    }
  }
  // by default nothing is, and files are what they were
  save_safetensors(dir / "plain", arrays);
  for (const NamedArray& one : load_safetensors(dir / "plain").arrays) {
    const auto before = std::find_if(arrays.begin(), arrays.end(),
                                     [&](const auto& each) { return each.name == one.name; });
    CHECK(same(one.array, before->array));
  }
}

// With a search through all arrays for each of them this would take many seconds.
TEST_CASE("safetensors: very many encoded arrays") {
  const TempDir dir;
  const Array one = noise({400}, kFloat32, 1), expected = through(Codec::int8, one);
  std::vector<NamedArray> arrays;
  for (int i = 0; i < 30000; ++i) arrays.push_back({"w" + std::to_string(i), one});
  save_safetensors(dir / "x", arrays, {}, {.all = Codec::int8});
  const SafetensorsReader reader(dir / "x");
  CHECK(reader.entries().size() == arrays.size());
  CHECK(reader.metadata() == Metadata{{"format", "pt"}});
  CHECK(same(reader.load("w29999"), expected));
}

TEST_CASE("safetensors: a block that is not finite comes back as NaN, the others as they were") {
  const TempDir dir;
  Array w = noise({600}, kFloat32, 6);
  w.data<float>()[300] = std::numeric_limits<float>::infinity();
  save_safetensors(dir / "x", std::vector<NamedArray>{{"w", w}}, {}, {.all = Codec::int8});
  const std::vector<float> back = load_safetensors(dir / "x").at("w").to_vector<float>();
  for (size_t i = 0; i < back.size(); ++i) CHECK((back[i] != back[i]) == (i >= 256 && i < 512));
}

TEST_CASE("safetensors: what cannot be encoded or is no encoded array is one line") {
  const TempDir dir;
  const std::vector<NamedArray> arrays = {{"w", noise({400}, kFloat32, 1)}};
  CHECK_THROWS_WITH(save_safetensors(dir / "x", arrays, {}, {.all = Codec::sign1}),
                    "save_safetensors: sign1 keeps signs alone; choose int8, int4, fp8_e4m3 or "
                    "fp8_e5m2");
  CHECK_THROWS_WITH(save_safetensors(dir / "x", arrays, {}, {.named = {{"w", Codec::sign1}}}),
                    ContainsSubstring("sign1 keeps signs alone"));
  CHECK_THROWS_WITH(save_safetensors(dir / "x", arrays, {{"codec:v", "int8"}}),
                    "save_safetensors: metadata say that 'v' is encoded, and there is no such "
                    "tensor");
  CHECK(error_of(changed("int8 F32 7,100", "int8 F32 7,100")) == "");
  CHECK(error_of(changed("codec:w", "codec:v")) ==
        "load_safetensors: bytes in memory: metadata say that 'v' is encoded, and there is no such "
        "tensor");
  for (const char* text :
       {"int7 F32 7,100", "sign F32 7,100", "int8 F64 7,100", "int8 I32 7,100", "int8 F32 7,099",
        "int8 F32 9,100", "int8 F32 7;100", "int8 F32 7,1x0", "int8 F32 7,,00", "int8 F32 -7,10",
        "int8 F32      ", "int4 F32 7,100", "              "}) {
    CAPTURE(text);
    const std::string error = error_of(changed("int8 F32 7,100", text));
    // 693 elements have as many blocks as 700
    if (std::string(text) == "int8 F32 7,099") {
      CHECK(error == "");
    } else {
      CHECK(error ==
            "load_safetensors: bytes in memory: tensor 'w', U8 [780], is no encoded array of '" +
                std::string(text) + "'");
    }
  }
}
