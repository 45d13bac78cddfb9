#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/safetensors.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using hero::core::Array;
using hero::core::load_safetensors;
using hero::core::NamedArray;
using hero::core::parse_safetensors;
using hero::core::SafetensorsReader;
using hero::core::save_safetensors;
using hero_test::slurp;
using hero_test::TempDir;

std::string file_of(const std::string& json, const std::string& data = {}) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i)
    bytes += static_cast<char>(uint64_t{json.size()} >> (8 * i) & 0xff);
  return bytes + json + data;
}

hero::core::NamedArrays parse(const std::string& bytes) {
  return hero::core::parse_safetensors(std::as_bytes(std::span(bytes)));
}

std::string error_of(const std::string& bytes) {
  return hero::test::error_of([&] { parse(bytes); });
}

// {"a":{"dtype":dtype,"shape":shape,"data_offsets":offsets}}, or another name.
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets,
                  const std::string& name = "a") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}
std::string object(const std::string& inside) { return "{" + inside + "}"; }

TEST_CASE("arrays of every dtype and shape survive a safetensors file", "[core][safetensors]") {
  const TempDir dir;
  std::vector<NamedArray> before;
  for (int d = 0; d < hero::kDTypeCount; ++d) {
    const auto dtype = static_cast<hero::DType>(d);
    for (const hero::Shape& shape :
         {hero::Shape{}, hero::Shape{0}, hero::Shape{5}, hero::Shape{2, 0, 3}, hero::Shape{3, 4}}) {
      std::vector<double> values;
      for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<double>(i % 7));
      before.push_back({std::string(hero::name(dtype)) + to_string(shape) + " \"\\\n\xc3\xa9",
                        Array::from(values, shape).to(dtype)});
    }
  }
  save_safetensors(dir / "x", before, {{"step", "12"}, {"quote\"", "\t"}});
  const auto after = load_safetensors(dir / "x");
  CHECK(after.metadata ==
        hero::core::Metadata{{"format", "pt"}, {"quote\"", "\t"}, {"step", "12"}});
  REQUIRE(after.arrays.size() == before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(after.arrays[i].name == before[i].name);
    CHECK(after.arrays[i].array.dtype() == before[i].array.dtype());
    CHECK(after.arrays[i].array.shape() == before[i].array.shape());
    CHECK(after.arrays[i].array.to_vector<double>() == before[i].array.to_vector<double>());
  }
}

TEST_CASE("a safetensors file is the bytes that the format says", "[core][safetensors]") {
  const TempDir dir;
  const std::vector<NamedArray> arrays = {{"b", Array::from(std::vector<uint8_t>{7}, {1})},
                                          {"w", Array::from(std::vector<float>{1, -2}, {2, 1})}};
  save_safetensors(dir / "x", arrays);
  std::string json =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},)"
      R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  CHECK(slurp(dir / "x") == file_of(json, std::string("\0\0\x80\x3f\0\0\0\xc0\x07", 9)));
}

TEST_CASE("views are saved as their values and an empty list as an empty file",
          "[core][safetensors]") {
  const TempDir dir;
  const Array x = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  save_safetensors(dir / "x", std::vector<NamedArray>{{"x", x.t().slice(0, 1)}});
  CHECK(load_safetensors(dir / "x").at("x").to_vector<float>() == std::vector<float>{2, 5, 3, 6});
  save_safetensors(dir / "none", {});
  CHECK(load_safetensors(dir / "none").arrays.empty());
  CHECK(parse(file_of("{}")).arrays.empty());
}

TEST_CASE("a reader loads single arrays by name", "[core][safetensors]") {
  const TempDir dir;
  save_safetensors(dir / "x",
                   std::vector<NamedArray>{{"first", Array::full({2}, 1.0)},
                                           {"second", Array::full({3}, 2.0, hero::kInt64)}});
  const hero::core::SafetensorsReader reader(dir / "x");
  CHECK(reader.names() == std::vector<std::string>{"first", "second"});
  CHECK(reader.contains("second"));
  CHECK(!reader.contains("third"));
  CHECK(reader.entries()[1].shape == hero::Shape{3});
  CHECK(reader.load("second").to_vector<int64_t>() == std::vector<int64_t>{2, 2, 2});
  CHECK_THROWS_WITH(reader.load("third"),
                    ContainsSubstring("'third'") && ContainsSubstring("first, second"));
  CHECK_THROWS_WITH(load_safetensors(dir / "x").at("third"), ContainsSubstring("'third'"));
}

TEST_CASE("damaged safetensors files are clear errors", "[core][safetensors]") {
  const auto says = [](const std::string& bytes, const std::string& text) {
    CHECK_THAT(error_of(bytes), ContainsSubstring(text));
  };
  const std::string four(4, '\0');
  const std::string good = file_of(object(entry("F32", "[1]", "[0,4]")), four);
  CHECK(error_of(good) == "");
  CHECK(error_of(file_of(object(entry("F32", "[1]", "[0,4]")) + "   ", four)) == "");
  bool all_fail = true;
  for (size_t n = 0; n < good.size(); ++n) all_fail = all_fail && error_of(good.substr(0, n)) != "";
  CHECK(all_fail);
  says("", "too few");
  says(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "header of 100000001 bytes");
  says(std::string("PK\3\4a zip of torch.save"), "is no .safetensors file");
  says(good.substr(0, 20), "inside its header");
  says(file_of("[]"), "does not begin with '{'");
  says(file_of(" {}"), "does not begin with '{'");
  says(file_of("{\"a\":"), "not valid JSON");
  says(file_of("{} {}"), "not valid JSON");
  says(file_of("{\"\xff\":{}}"), "not valid JSON");
  says(good.substr(0, good.size() - 1), "truncated");
  says(good + "x", "nobody owns");
}

TEST_CASE("safetensors headers that break the rules are clear errors", "[core][safetensors]") {
  const std::string four(4, '\0'), eight(8, '\0');
  const auto says = [&](const std::string& inside, const std::string& text,
                        const std::string& data) {
    CHECK_THAT(error_of(file_of(object(inside), data)), ContainsSubstring(text));
  };
  says(entry("F32", "[1]", "[0,4]") + "," + entry("F32", "[1]", "[0,4]", "b"), "overlaps", four);
  says(entry("F32", "[2]", "[0,8]") + "," + entry("F32", "[1]", "[4,8]", "b"), "overlaps", eight);
  says(entry("F32", "[1]", "[4,8]"), "hole", eight);
  says(entry("F32", "[1]", "[0,4]") + "," + entry("U8", "[1]", "[7,8]", "b"), "hole", eight);
  says(entry("F32", "[1]", "[0,4]") + "," + entry("F32", "[1]", "[4,8]"), "twice", eight);
  says(entry("F32", "[2]", "[0,4]"), "needs 8 bytes", four);
  says(entry("F32", "[1]", "[4,0]"), "data_offsets are [4, 0]", four);
  says(entry("F32", "[1]", "[0,18446744073709551615]"), "needs 4 bytes", four);
  says(entry("F32", "[4611686018427387904,4]", "[0,0]"), "impossible shape", "");
  says(entry("F32", "[9223372036854775807,9223372036854775807,0]", "[0,0]"), "impossible shape",
       "");
  says(entry("F32", "[9223372036854775808]", "[0,4]"), "above 2^63", four);
  says(entry("F32", "[99999999999999999999999]", "[0,4]"), "not an integer", four);
  says(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "more than 8 dimensions", four);
  says(entry("F32", "[-1]", "[0,4]"), "negative", four);
  says(entry("F32", "[1.0]", "[0,4]"), "not an integer", four);
  says(entry("F32", "[[1]]", "[0,4]"), "an array", four);
  says(entry("F32", "1", "[0,4]"), "a number", four);
  says(entry("F32", "[1]", "[0]"), "two data_offsets", four);
  says(entry("F32", "[1]", "[0,4,4]"), "two data_offsets", four);
  says(entry("I16", "[2]", "[0,4]"), "'a' has dtype 'I16'", four);
  says(entry("F8_E4M3", "[4]", "[0,4]", "fc1.weight"), "'fc1.weight' has dtype 'F8_E4M3'", four);
  says("\"a\":{\"dtype\":\"F32\",\"shape\":[1]}", "lacks", four);
  says("\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}", "dtype twice", four);
  says("\"a\":{\"shape\":[1],\"shape\":[1]}", "shape twice", four);
  says("\"a\":{\"data_offsets\":[0,4],\"data_offsets\":[0,4]}", "data_offsets twice", four);
  says("\"a\":{\"colour\":3}", "lacks", four);
  says(entry("I99", "[2]", "[0,4]"), "dtype 'I99', which the format does not have", four);
  says(entry("F4", "[3]", "[0,2]"), "does not end with a byte", "xx");
  says(entry("I16", "[2]", "[0,2]"), "dtype I16 needs 4 bytes", "xx");
  says("\"a\":null", "null", "");
  says("\"a\":\"text\"", "a string", "");
  says("\"a\":{\"dtype\":{}}", "an object", "");
  says("\"__metadata__\":{\"step\":3}", "a number", "");
  says("\"__metadata__\":{\"step\":{}}", "an object", "");
  says("\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}", "twice", "");
  says("\"__metadata__\":{},\"__metadata__\":{}", "twice", "");
  says("\"a\":" + std::string(100000, '['), "an array", "");
  CHECK_THAT(error_of(file_of(object(entry("BOOL", "[4]", "[0,4]")), std::string("\0\1\2\1", 4))),
             ContainsSubstring("neither 0 nor 1, at element 2"));
}

TEST_CASE("one tensor of a dtype that arrays do not have leaves the others readable",
          "[core][safetensors]") {
  for (const auto& [dtype, shape, bytes] :
       std::vector<std::tuple<std::string, std::string, int>>{{"I8", "[3]", 3},
                                                              {"I16", "[3]", 6},
                                                              {"U16", "[3]", 6},
                                                              {"U32", "[1]", 4},
                                                              {"U64", "[1]", 8},
                                                              {"C64", "[1]", 8},
                                                              {"F8_E4M3", "[2,2]", 4},
                                                              {"F8_E5M2", "[1]", 1},
                                                              {"F8_E8M0", "[1]", 1},
                                                              {"F6_E2M3", "[4]", 3},
                                                              {"F4", "[4]", 2},
                                                              {"I8", "[0]", 0}}) {
    INFO(dtype << " " << shape);
    const TempDir dir;
    const std::string end = std::to_string(4 + bytes);
    const std::string bytes_of =
        file_of(object(entry("F32", "[1]", "[0,4]", "x") + "," +
                       entry(dtype, shape, "[4," + end + "]", "q")),
                std::string("\0\0\0\x40", 4) + std::string(static_cast<size_t>(bytes), 'q'));
    std::ofstream(dir / "f.safetensors", std::ios::binary) << bytes_of;
    const SafetensorsReader file(dir / "f.safetensors");
    CHECK(file.names() == std::vector<std::string>{"x"});
    CHECK(file.load("x").to_vector<double>() == std::vector<double>{2});
    CHECK(file.contains("q"));
    CHECK(file.unreadable().at("q") == dtype);
    CHECK_THROWS_WITH(file.load("q"), ContainsSubstring("tensor 'q' has dtype '" + dtype + "'"));
    CHECK_THROWS_WITH(load_safetensors(dir / "f.safetensors"),
                      ContainsSubstring("tensor 'q' has dtype '" + dtype + "'"));
  }
}

TEST_CASE("safetensors headers are read as leniently as Python reads them, and no more",
          "[core][safetensors]") {
  const std::string four(4, '\0');
  const auto names = [&](const std::string& inside) {
    const std::string bytes = file_of(object(inside), four);
    return parse_safetensors(std::as_bytes(std::span(bytes))).arrays.size();
  };
  const std::string a = "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]";
  CHECK(names("\"__metadata__\":null," + entry("F32", "[1]", "[0,4]")) == 1);
  for (const char* extra : {"3", "-3", "1.5", "null", "true", "\"text\"", "[]", "{}", "[1,[2,{}]]",
                            "{\"dtype\":[{\"shape\":1}],\"b\":{}}"}) {
    INFO(extra);
    CHECK(names("\"a\":{\"colour\":" + std::string(extra) + "," + a + "}") == 1);
    CHECK(names("\"a\":{" + a + ",\"colour\":" + std::string(extra) + "}") == 1);
  }
  CHECK_THAT(error_of(file_of(object(entry("F32", "[1]", "[0,4]")) + std::string(3, '\0'), four)),
             ContainsSubstring("zero byte"));
}

TEST_CASE("a safetensors file that Python wrote is read", "[core][safetensors]") {
  const auto file = load_safetensors(std::string(HERO_GOLDEN_DIR "/python.safetensors"));
  CHECK(file.metadata.at("format") == "pt");
  CHECK(file.at("w").shape() == hero::Shape{2, 3});
  CHECK(file.at("w").to_vector<double>() == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(file.at("m").to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(file.at("s").ndim() == 0);
  CHECK(file.at("s").item<int64_t>() == 3);
}

TEST_CASE("what a safetensors file cannot hold is refused before a file is made",
          "[core][safetensors]") {
  const TempDir dir;
  const Array x = Array::full({2}, 1.0);
  const auto save = [&](std::vector<NamedArray> arrays) { save_safetensors(dir / "x", arrays); };
  CHECK_THROWS_WITH(save({{"a", x}, {"a", x}}), ContainsSubstring("two tensors are named 'a'"));
  CHECK_THROWS_WITH(save({{"__metadata__", x}}), ContainsSubstring("__metadata__"));
  CHECK_THROWS_WITH(save({{"m", Array::empty({2}, hero::kFloat32, hero::kMeta)}}),
                    ContainsSubstring("'m' is on meta"));
  CHECK_THROWS_WITH(save({{"u", Array()}}), ContainsSubstring("'u' is undefined"));
  CHECK_THROWS_WITH(save({{"\xff", x}}), ContainsSubstring("UTF-8"));
  CHECK(dir.entries() == 0);
}

}  // namespace
