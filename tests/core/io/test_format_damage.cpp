// The fuzz targets' inputs without a fuzzer: valid files damaged in the same ways, the same on
// every machine. What must hold is that the readers load or throw hero::Error, and under the
// sanitizers' preset that they stay inside the bytes.
#include <string>
#include <vector>

#include "fuzz/formats.h"
#include "support/catch.h"
#include "support/damage.h"
#include "support/temp_dir.h"

#include <hero/core/io/encoding.h>

namespace {

using hero::core::Array;
using hero_test::damage_and_feed;
using hero_test::slurp;
using hero_test::TempDir;

TEST_CASE("damaged safetensors files load or are refused, nothing else",
          "[core][safetensors][fuzz]") {
  const TempDir dir;
  std::vector<std::string> seeds;
  const auto add = [&](const std::vector<hero::core::NamedArray>& arrays) {
    hero::core::save_safetensors(dir / "x", arrays, {{"step", "7"}});
    seeds.push_back(slurp(dir / "x"));
  };
  add({});
  add({{"w", Array::full({2, 3}, 1.5)}});
  add({{"scalar", Array::full({}, 2.0, hero::kFloat64)}, {"empty", Array::empty({0, 4})}});
  add({{"mask", Array::full({5}, true, hero::kBool)},
       {"h", Array::full({3}, 1.0, hero::kBFloat16)},
       {"i", Array::full({2, 1, 2}, 9, hero::kInt64)},
       {"\xc3\xa9\n", Array::full({1}, 3, hero::kUInt8)}});
  hero::core::save_safetensors(
      dir / "x", std::vector<hero::core::NamedArray>{{"w", Array::full({7, 10}, 1.5)}}, {},
      {.all = hero::core::Codec::int4});
  seeds.push_back(slurp(dir / "x"));
  for (const auto& seed : seeds) CHECK(hero_fuzz::feed_safetensors(std::as_bytes(std::span(seed))));
  const int valid = damage_and_feed(seeds, 20000, hero_fuzz::feed_safetensors);
  CHECK(valid > 100);    // some damage hits only values: the mutations reach behind the header
  CHECK(valid < 15000);  // and most of it is seen
}

TEST_CASE("damaged npy files load or are refused, nothing else", "[core][npy][fuzz]") {
  const TempDir dir;
  std::vector<std::string> seeds;
  for (const Array& array :
       {Array::full({2, 3}, 1.5), Array::full({}, 2.0, hero::kFloat64), Array::empty({0, 4}),
        Array::full({5}, true, hero::kBool), Array::full({4, 1, 2}, 9, hero::kInt64)}) {
    hero::core::save_npy(dir / "x", array);
    seeds.push_back(slurp(dir / "x"));
    std::string fortran = seeds.back();
    seeds.push_back(fortran.replace(fortran.find("False"), 5, "True "));
  }
  for (const auto& seed : seeds) CHECK(hero_fuzz::feed_npy(std::as_bytes(std::span(seed))));
  const int valid = damage_and_feed(seeds, 20000, hero_fuzz::feed_npy);
  CHECK(valid > 100);
  CHECK(valid < 15000);
}

}  // namespace
