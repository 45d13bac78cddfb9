#pragma once
// Digest: a 128-bit hash of a rank's statement.
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

namespace hero::dist {

/// The hash of a sequence of 64-bit words. Digests of two different sequences differ, except for
/// about one pair in 2^128. The order of digests (<) has no meaning.
struct Digest {
  uint64_t low = 0, high = 0;

  /// Appends a word to the sequence.
  Digest& put(uint64_t word) {
    low = mixed(low + 0x9e3779b97f4a7c15u + word);
    high = mixed((high ^ std::rotl(word, 32)) + 0xd1b54a32d192ed03u);
    return *this;
  }
  Digest& put(const std::string& text) {
    put(text.size());
    for (size_t at = 0; at < text.size(); at += 8) {
      uint64_t word = 0;
      for (size_t i = at; i < text.size() && i < at + 8; ++i) {
        word = word << 8 | static_cast<uint8_t>(text[i]);
      }
      put(word);
    }
    return *this;
  }
  Digest& put(const Digest& other) { return put(other.low).put(other.high); }

  /// Adds another digest, each half modulo 2^64; the sum does not depend on the order of the
  /// additions.
  Digest& operator+=(const Digest& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  Digest& operator-=(const Digest& other) {
    low -= other.low;
    high -= other.high;
    return *this;
  }
  friend bool operator==(const Digest&, const Digest&) = default;
  friend bool operator<(const Digest& a, const Digest& b) {
    return std::pair(a.high, a.low) < std::pair(b.high, b.low);
  }

 private:
  // Every bit of the result depends on every bit of the word; no two words have the same result.
  // The constants are Stafford's mix 13 (Steele, Lea and Flood, Fast splittable pseudorandom number
  // generators, 2014).
  static uint64_t mixed(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
  }
};

}  // namespace hero::dist
