// The fuzz targets' inputs without a fuzzer: valid files damaged in the same ways, the same on
// every machine. What must hold is that the readers load or throw hero::Error, and under the
// sanitizers' preset that they stay inside the bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/formats.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/core/random.h>

namespace {

using hero::core::Array;
using hero_test::slurp;
using hero_test::TempDir;

// Numbers below a bound, from one stream.
class Dice {
 public:
  size_t below(size_t bound) {
    uint64_t bits = 0;
    hero::fill_bits(std::span(&bits, 1), {2026, 0}, at_++);
    return static_cast<size_t>(bits % bound);
  }

 private:
  int64_t at_ = 0;
};

constexpr int kKinds = 8;

// One act of damage; `other` is a file to splice from.
void damage(std::string& bytes, const std::string& other, Dice& dice) {
  if (bytes.empty()) bytes = other;
  // Half of the time near the start, where the header lies.
  const size_t reach = dice.below(2) == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 160);
  const size_t at = dice.below(reach), n = std::min(bytes.size() - at, 1 + dice.below(16));
  static const std::string numbers[] = {"0",
                                        "-1",
                                        "4",
                                        "65536",
                                        "4294967296",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "1e9",
                                        "00",
                                        "[",
                                        "{",
                                        "\"",
                                        "}",
                                        ")"};
  switch (dice.below(kKinds)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << dice.below(8)));
      break;
    case 1:
      bytes[at] = static_cast<char>(dice.below(256));
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.erase(at, n);
      break;
    case 4:
      bytes.insert(at, bytes.substr(dice.below(bytes.size()), n));
      break;
    case 5:
      bytes.insert(at, n, '\xff');
      break;
    case 6:
      bytes.replace(at, n, numbers[dice.below(std::size(numbers))]);
      break;
    default:
      bytes = bytes.substr(0, at) + other.substr(dice.below(other.size()));
      break;
  }
}

// Damaged files, a few acts each. Returns how many were still valid.
template <class Feed>
int damage_and_feed(const std::vector<std::string>& seeds, int files, const Feed& feed) {
  Dice dice;
  int valid = 0;
  for (int i = 0; i < files; ++i) {
    std::string bytes = seeds[dice.below(seeds.size())];
    const size_t acts = 1 + dice.below(4);
    for (size_t k = 0; k < acts; ++k) damage(bytes, seeds[dice.below(seeds.size())], dice);
    // A buffer of exactly that size: a read past it is one that the address sanitizer sees.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    valid += feed(std::as_bytes(std::span(exact)));
  }
  return valid;
}

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
