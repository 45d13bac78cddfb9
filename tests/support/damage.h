#pragma once
// Valid files damaged in the ways of a fuzzer, the same on every machine.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <hero/core/random.h>

namespace hero_test {

/// Numbers below a bound, from one stream.
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

/// One act of damage; `other` is a file to splice from.
inline void damage(std::string& bytes, const std::string& other, Dice& dice) {
  if (bytes.empty()) bytes = other;
  if (bytes.empty()) return;
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
  switch (dice.below(8)) {
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
      bytes = bytes.substr(0, at) + (other.empty() ? "" : other.substr(dice.below(other.size())));
      break;
  }
}

/// Feeds `files` damaged files, a few acts each. Returns how many were still valid.
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

}  // namespace hero_test
