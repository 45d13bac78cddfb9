#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include <nlohmann/json.hpp>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/print.h>

namespace {

using hero::core::Array;
using hero::core::PrintOptions;
using nlohmann::json;

hero::DType dtype_named(const std::string& text) {
  for (int i = 0; i < hero::kDTypeCount; ++i) {
    if (text == hero::name(static_cast<hero::DType>(i))) return static_cast<hero::DType>(i);
  }
  FAIL("unknown dtype " << text);
  return hero::kFloat32;
}

Array array_of(const json& one) {
  const hero::Shape shape(one["shape"].get<std::vector<int64_t>>());
  const hero::DType dtype = dtype_named(one["dtype"]);
  const json& values = one["values"];
  if (!hero::is_floating(dtype)) {
    return Array::from(values.get<std::vector<int64_t>>(), shape).to(dtype);
  }
  std::vector<double> doubles;
  for (const auto& v : values)
    doubles.push_back(std::strtod(v.get<std::string>().c_str(), nullptr));
  return Array::from(doubles, shape).to(dtype);
}

TEST_CASE("arrays print as NumPy prints them", "[core][print]") {
  std::ifstream file(std::string(HERO_GOLDEN_DIR "/print.json"));
  const json golden = json::parse(file);
  REQUIRE(golden["cases"].size() > 400);
  for (const auto& one : golden["cases"]) {
    const json& given = one["options"];
    const std::string separator = given["separator"];
    const PrintOptions options{.precision = given["precision"],
                               .threshold = given["threshold"],
                               .edge_items = given["edgeitems"],
                               .line_width = given["max_line_width"],
                               .suppress_small = given["suppress_small"],
                               .separator = separator};
    INFO(one["dtype"] << " " << one["shape"].dump() << " " << given.dump());
    CHECK(format_values(array_of(one), options) == one["text"].get<std::string>());
  }
}

TEST_CASE("below the values stands what they are", "[core][print]") {
  const Array x = Array::from(std::vector<float>{1, 2.5f, -3, 4, 5, 6}, {2, 3});
  CHECK(to_string(x) == "[[ 1.   2.5 -3. ]\n [ 4.   5.   6. ]]\nArray[2, 3] float32 cpu");
  CHECK(to_string(x, "Tensor here") == "[[ 1.   2.5 -3. ]\n [ 4.   5.   6. ]]\nTensor here");
  std::ostringstream stream;
  stream << x.slice(0, 0, 1);
  CHECK(stream.str() == "[[ 1.   2.5 -3. ]]\nArray[1, 3] float32 cpu");
  CHECK(to_string(Array::full({}, 3.0)) == "3.\nArray[] float32 cpu");
  CHECK(to_string(Array::empty({0, 2})) == "[]\nArray[0, 2] float32 cpu");
}

TEST_CASE("views print their own elements", "[core][print]") {
  const Array x = Array::from(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(format_values(x.t()) == "[[1 4]\n [2 5]\n [3 6]]");
  CHECK(format_values(x.slice(1, 0, hero::kEnd, 2)) == "[[1 3]\n [4 6]]");
  CHECK(format_values(x.select(0, 1)) == "[4 5 6]");
  CHECK(format_values(x.select(0, 1).expand({2, 3})) == "[[4 5 6]\n [4 5 6]]");
}

TEST_CASE("arrays without values print what they are alone", "[core][print]") {
  CHECK(to_string(Array::empty({2, 3}, hero::kFloat32, hero::kMeta)) == "Array[2, 3] float32 meta");
  CHECK(to_string(Array()) == "Array undefined");
}

TEST_CASE("bfloat16 prints the fewest digits that tell its numbers apart", "[core][print]") {
  const Array x = Array::from(std::vector<float>{0.1f, 1.0f, 3.140625f}, {3}).to(hero::kBFloat16);
  CHECK(format_values(x, {.precision = 8}) == "[0.1  1.   3.14]");
}

TEST_CASE("a huge array prints its corners without a walk through the rest", "[core][print]") {
  const Array x = Array::full({1}, 0.5).expand({int64_t{1} << 40});
  CHECK(format_values(x) == "[0.5 0.5 0.5 ... 0.5 0.5 0.5]");
}

TEST_CASE("impossible print options are refused", "[core][print]") {
  CHECK_THROWS_AS(format_values(Array::full({2}, 1.0), {.precision = -1}), hero::Error);
}

}  // namespace
