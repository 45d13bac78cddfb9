#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include <nlohmann/json.hpp>

#include <hero/core/error.h>
#include <hero/core/numpy_random.h>

namespace {

using hero::NumpyRandom;
using nlohmann::json;

std::vector<double> doubles(const json& values) {
  std::vector<double> out;
  for (const auto& v : values) out.push_back(std::strtod(v.get<std::string>().c_str(), nullptr));
  return out;
}

NumpyRandom seeded(const json& seed) {
  if (seed.is_number()) return NumpyRandom(seed.get<uint32_t>());
  const auto key = seed.get<std::vector<uint32_t>>();
  return NumpyRandom(std::span<const uint32_t>(key));
}

void check_step(NumpyRandom& rng, const json& step) {
  const std::string op = step["op"];
  const json& args = step["args"];
  const json& values = step["values"];
  const auto n = static_cast<int64_t>(values.size());
  INFO(op << " " << args.dump());
  if (op == "rand")
    CHECK(rng.rand(n) == doubles(values));
  else if (op == "random_sample")
    CHECK(rng.random_sample(n) == doubles(values));
  else if (op == "randn")
    CHECK(rng.randn(n) == doubles(values));
  else if (op == "randint")
    CHECK(rng.randint(args[0], args[1], n) == values.get<std::vector<int64_t>>());
  else if (op == "permutation")
    CHECK(rng.permutation(args[0]) == values.get<std::vector<int64_t>>());
  else if (op == "normal")
    CHECK(rng.normal(args[0], args[1], n) == doubles(values));
  else if (op == "uniform")
    CHECK(rng.uniform(args[0], args[1], n) == doubles(values));
  else if (op == "skip")
    rng.rand(args[0].get<int64_t>());
  else if (op == "shuffle") {
    std::vector<double> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(10.0 * static_cast<double>(i));
    rng.shuffle(std::span<double>(x));
    CHECK(x == doubles(values));
  } else {
    FAIL("unknown step " << op);
  }
}

// stream,index,value
std::map<std::string, std::vector<double>> golden_streams() {
  std::ifstream file(std::string(HERO_GOLDEN_DIR "/blog/numpy_rng.csv"));
  std::map<std::string, std::vector<double>> streams;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const size_t a = line.find(','), b = line.find(',', a + 1);
    streams[line.substr(0, a)].push_back(std::strtod(line.c_str() + b + 1, nullptr));
  }
  return streams;
}

TEST_CASE("NumpyRandom follows NumPy through mixed sequences of draws", "[core][random]") {
  std::ifstream file(std::string(HERO_GOLDEN_DIR "/numpy_random.json"));
  const json golden = json::parse(file);
  REQUIRE(golden["cases"].size() == 9);
  for (const auto& one : golden["cases"]) {
    INFO("seed " << one["seed"].dump().substr(0, 40));
    NumpyRandom rng = seeded(one["seed"]);
    for (const auto& step : one["steps"]) check_step(rng, step);
  }
}

TEST_CASE("NumpyRandom gives the golden streams of seed 0", "[core][random]") {
  auto streams = golden_streams();
  REQUIRE(streams["rand"].size() == 200);
  NumpyRandom words(0);
  for (const double word : streams["uint32"]) CHECK(words.next_uint32() == word);
  CHECK(NumpyRandom(0).rand(200) == streams["rand"]);
  CHECK(NumpyRandom(0).randn(200) == streams["randn"]);
  NumpyRandom blog(0);
  CHECK(blog.rand(100) == streams["blog_rand"]);
  CHECK(blog.randn(102) == streams["blog_randn"]);
}

TEST_CASE("NumpyRandom gives the same numbers one by one", "[core][random]") {
  NumpyRandom many(5), single(5);
  for (const double value : many.randn(7)) CHECK(single.randn() == value);
  for (const int64_t value : many.randint(-4, 9, 20)) CHECK(single.randint(-4, 9) == value);
  for (const double value : many.normal(2, 3, 5)) CHECK(single.normal(2, 3) == value);
}

TEST_CASE("seeding NumpyRandom forgets the kept normal number", "[core][random]") {
  NumpyRandom rng(3);
  const double first = rng.randn();
  rng.seed(3);
  CHECK(rng.randn() == first);
}

TEST_CASE("NumpyRandom refuses what NumPy refuses", "[core][random]") {
  NumpyRandom rng(0);
  CHECK_THROWS_AS(rng.randint(3, 3), hero::Error);
  CHECK_THROWS_AS(rng.rand(-1), hero::Error);
  CHECK_THROWS_AS(rng.normal(0, -1), hero::Error);
  for (const int64_t n : {int64_t{1} << 60, INT64_MAX}) {  // more than any vector, or any memory
    CHECK_THROWS_WITH(rng.rand(n), Catch::Matchers::StartsWith("rand: out of memory"));
    CHECK_THROWS_WITH(rng.randint(0, 5, n), Catch::Matchers::StartsWith("randint: out of memory"));
    CHECK_THROWS_WITH(rng.permutation(n),
                      Catch::Matchers::StartsWith("permutation: out of memory"));
  }
  CHECK_THROWS_AS(rng.seed(std::span<const uint32_t>()), hero::Error);
}

}  // namespace
