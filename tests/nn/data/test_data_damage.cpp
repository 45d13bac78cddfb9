// Files of nn/data damaged as in tests/core/io/test_format_damage.cpp: they load or are refused
// with hero::Error, and under the sanitizers' preset the readers stay inside the bytes.
#include <string>
#include <vector>

#include "fuzz/data_formats.h"
#include "support/arrays.h"
#include "support/catch.h"
#include "support/damage.h"
#include "support/temp_dir.h"

#include <hero/nn/data/tokens.h>

namespace {

using namespace hero::nn::data;
using hero_test::damage_and_feed;
using hero_test::slurp;
using hero_test::TempDir;

// Damages `files` files; some of them must still be valid, and most of them not.
template <class Feed>
void check_damage(const std::vector<std::string>& seeds, int files, const Feed& feed) {
  for (const std::string& seed : seeds) CHECK(feed(std::as_bytes(std::span(seed))));
  const int valid = damage_and_feed(seeds, files, feed);
  CHECK(valid > files / 200);
  CHECK(valid < files * 3 / 4);
}

TEST_CASE("damaged IDX files load or are refused, nothing else", "[nn][data][fuzz]") {
  const TempDir dir;
  std::vector<std::string> seeds;
  for (const hero::Array& array :
       {hero::Array::full({2, 3}, 7, hero::kUInt8), hero::Array::full({}, 2.0, hero::kFloat64),
        hero::Array::full({3, 0, 2}, 1, hero::kInt32), hero::Array::full({2, 2, 4}, 0.5)}) {
    save_idx(dir / "x", array);
    seeds.push_back(slurp(dir / "x"));
  }
  check_damage(seeds, 10000, hero_fuzz::feed_idx);
}

TEST_CASE("damaged gzip files are read or refused, nothing else", "[nn][data][fuzz]") {
  // "abc" stored, and "hello hello hello hello\n" compressed
  const std::string stored(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x01\x03\x00\xfc\xff\x61\x62\x63\xc2\x41\x24\x35\x03"
      "\x00\x00\x00",
      26);
  const std::string packed(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x00\x88"
      "\x59\x0b\x18\x00\x00\x00",
      29);
  check_damage({stored, packed, packed + stored}, 5000, hero_fuzz::feed_gzip);
}

TEST_CASE("damaged CSV files load or are refused, nothing else", "[nn][data][fuzz]") {
  check_damage({"a,b\n1,2\n3,4\n", "x\r\n\"1\"\r\n-2.5e3\r\n", "\"a \"\"b\"\"\",c\n1,\"2\"\n,\n"},
               10000, hero_fuzz::feed_csv);
}

TEST_CASE("damaged tokenizers load or are refused, and those that load give all bytes back",
          "[nn][data][fuzz]") {
  const TempDir dir;
  BPETokenizer::train("aaab abab abc", {.vocab_size = 270, .special_tokens = {"<end>"}})
      .save(dir / "x");
  check_damage({slurp(dir / "x")}, 1500, hero_fuzz::feed_bpe);
}

TEST_CASE("damaged token files are mapped or refused, nothing else", "[nn][data][fuzz]") {
  const TempDir dir;
  std::vector<std::string> seeds;
  const std::vector<int64_t> small{1, 2, 3}, large{70000};
  save_tokens(dir / "x", small, TokenHeader::llm_c);
  seeds.push_back(slurp(dir / "x"));
  save_tokens(dir / "x", large, TokenHeader::llm_c);
  seeds.push_back(slurp(dir / "x"));
  save_tokens(dir / "x", small);
  seeds.push_back(slurp(dir / "x"));
  const auto feed = [&](std::span<const std::byte> bytes) {
    hero_test::spill(dir / "y", std::string(hero_fuzz::text_of(bytes)));
    try {
      const Tokens tokens = Tokens::open(dir / "y");
      int64_t sum = 0;
      for (int64_t i = 0; i < tokens.size(); ++i) sum += tokens[i];
      return sum >= 0;
    } catch (const hero::Error&) {
      return false;
    }
  };
  check_damage(seeds, 1000, feed);
}

}  // namespace
