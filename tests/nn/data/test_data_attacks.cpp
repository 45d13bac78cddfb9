// Files made to do harm, or changed while they are read: an Error each, and the process goes on.
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include "support/small_stack.h"
#include "support/temp_dir.h"

#include <hero/core/npy.h>
#include <hero/core/safetensors.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/data.h>

namespace {

using Catch::Matchers::ContainsSubstring;
using namespace hero::nn::data;
using hero::test::error_of;
using hero_test::spill;
using hero_test::TempDir;
using List = std::vector<int64_t>;

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

// A tokenizer.json that loads.
std::string good_tokenizer(const TempDir& dir) {
  BPETokenizer::train("aaab abab abc", {.vocab_size = 270, .special_tokens = {"<end>"}})
      .save(dir / "good.json");
  return hero_test::slurp(dir / "good.json");
}

TEST_CASE("a tokenizer that is nested too deep is refused wherever it is", "[nn][data]") {
  const TempDir dir;
  const std::string good = good_tokenizer(dir);
  for (const size_t depth : {size_t{101}, size_t{70000}, size_t{1000000}}) {
    const std::string deep = nested(depth);
    const std::vector<std::string> texts{
        deep,
        "{\"model\":{\"type\":" + deep + "}}",
        replaced(good, "\"type\":\"BPE\"", "\"type\":" + deep),
        replaced(good, "\"normalizer\":null", "\"normalizer\":" + deep),
        replaced(good, "\"vocab\":{", "\"vocab\":{\"x\":" + deep + ","),
        replaced(good, "\"merges\":[", "\"merges\":[" + deep + ","),
        replaced(good, "\"merges\":[", "\"merges\":[[\"a\"," + deep + "],"),
        replaced(good, "\"added_tokens\":[", "\"added_tokens\":[" + deep + ","),
        replaced(good, "\"pre_tokenizer\":{", "\"pre_tokenizer\":{\"x\":" + deep + ","),
        replaced(good, "\"decoder\":{", "\"decoder\":{\"x\":" + deep + ","),
    };
    hero_test::on_small_stack([&] {
      for (const std::string& text : texts) {
        CHECK_THROWS_WITH(BPETokenizer::parse(text, "x"),
                          ContainsSubstring("more than 100 brackets"));
        CHECK_THROWS_WITH(CharTokenizer::parse(text, "x"),
                          ContainsSubstring("more than 100 brackets"));
      }
      const std::string encoder = "{\"a\":" + deep + "}";
      CHECK_THROWS_WITH(BPETokenizer::parse_gpt2(encoder, "", "x"),
                        ContainsSubstring("more than 100 brackets"));
      const std::string characters = R"({"type":"characters","characters":[)" + deep + "]}";
      CHECK_THROWS_WITH(CharTokenizer::parse(characters, "x"),
                        ContainsSubstring("more than 100 brackets"));
    });
  }
  // Depths that are allowed still find no place, and errors show the start of them only.
  for (const size_t depth : {size_t{3}, size_t{90}}) {
    hero_test::on_small_stack([&] {
      const std::string error = error_of([&] {
        BPETokenizer::parse(
            replaced(good, "\"normalizer\":null",
                     "\"normalizer\":[" + nested(depth) + ",\"" + std::string(100000, 'n') + "\"]"),
            "x");
      });
      CHECK_THAT(error, ContainsSubstring("only NFC is known"));
      CHECK(error.size() < 300);
    });
  }
}

TEST_CASE("names from tokenizers and tables are not shown raw", "[nn][data]") {
  const TempDir dir;
  const std::string good = good_tokenizer(dir), red = "\x1b[31m", quoted = "\\u001b[31m";
  const std::vector<std::string> errors{
      error_of([&] {
        BPETokenizer::parse(replaced(good, "\"vocab\":{", "\"vocab\":{\"" + quoted + "\":-1,"),
                            "x");
      }),
      error_of([&] {
        BPETokenizer::parse(replaced(good, "\"merges\":[", "\"merges\":[\"" + quoted + " q\","),
                            "x");
      }),
      error_of([&] { BPETokenizer::parse(replaced(good, "<end>", quoted), red); }),
      error_of([&] { BPETokenizer::parse_gpt2("{\"a\":0}", "a " + red, "x"); }),
      error_of([&] {
        CharTokenizer::parse(R"({"type":"characters","characters":["a)" + quoted + "\"]}", "x");
      }),
      error_of([&] { parse_csv(red + ",b\n1\n", "x"); }),
      error_of([&] { parse_csv("a\n" + red + "\n", "x"); }),
      error_of([&] { parse_csv(red + ",b\n1,2\n", "x", {.columns = {"c"}}); }),
      error_of([&] { load_idx(dir / red); }),
      error_of([&] { Tokens::open(dir / red); }),
  };
  for (size_t i = 0; i < errors.size(); ++i) {
    CAPTURE(i, errors[i]);
    if (i != 2) CHECK_FALSE(errors[i].empty());
    CHECK(errors[i].find('\x1b') == std::string::npos);
  }
}

TEST_CASE("a gzip file unpacks up to a limit", "[nn][data]") {
  // 24 bytes of text, as in test_data_damage.cpp
  const std::string packed(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x00\x88"
      "\x59\x0b\x18\x00\x00\x00",
      29);
  const auto unpack = [](const std::string& bytes, uint64_t limit) {
    return gunzip(std::as_bytes(std::span(bytes)), "a.gz", limit).size();
  };
  CHECK(unpack(packed, 24) == 24);
  CHECK_THROWS_WITH(unpack(packed, 23),
                    ContainsSubstring("a.gz, of 29 bytes, unpacks to more than 23"));
  CHECK(unpack(packed + packed, 48) == 48);  // of all members together
  CHECK_THROWS_WITH(unpack(packed + packed, 47), ContainsSubstring("more than 47"));
  CHECK(kMaxUnpackedBytes == uint64_t{1} << 30);
  std::string liar = packed;  // claims 4 GiB, which are not set aside
  liar.replace(25, 4, "\xff\xff\xff\xff");
  CHECK_THROWS_WITH(unpack(liar, kMaxUnpackedBytes), ContainsSubstring("damaged"));
}

TEST_CASE("a token file that gets shorter is an Error where it is read, not the end",
          "[nn][data]") {
  const TempDir dir;
  List tokens(50000);
  std::iota(tokens.begin(), tokens.end(), 0);
  const TokenHeader header = GENERATE(TokenHeader::none, TokenHeader::llm_c);
  save_tokens(dir / "a", tokens, header);
  const Tokens open = Tokens::open(dir / "a");
  const TokenDataset set(open, {.block = 100});
  const List before = set.get(20)[0].to_vector<int64_t>();
  const uint64_t front = header == TokenHeader::none ? 0 : 1024;
  std::filesystem::resize_file(dir / "a", front + 2 * 3000);
  CHECK(open[2999] == 2999);
  CHECK(set.get(20)[0].to_vector<int64_t>() == before);
  CHECK_THROWS_WITH(open[3000], ContainsSubstring(dir / "a") && ContainsSubstring("ends at byte"));
  List all(50000);
  CHECK_THROWS_WITH(open.read(0, all), ContainsSubstring("ends at byte"));
  CHECK_THROWS_WITH(set.get(30), ContainsSubstring("ends at byte"));
  CHECK_THROWS_WITH(set.random_batch(64, 1, 0), ContainsSubstring("ends at byte"));
  CHECK_THROWS_WITH(open.part(40000, 50000)[5], ContainsSubstring("ends at byte"));
  for (const int workers : {0, 2}) {
    DataLoader loader(set, {.batch_size = 8, .workers = workers});
    CHECK_THROWS_WITH(
        [&] {
          for (const auto& batch : loader) CHECK(batch.size() == 2);
        }(),
        ContainsSubstring("ends at byte"));
  }
  std::filesystem::remove(dir / "a");  // an open file stays
  CHECK(open[5] == 5);
  save_tokens(dir / "a", tokens, header);  // as does one that is replaced
  CHECK_THROWS_AS(open[3000], hero::Error);
  CHECK(Tokens::open(dir / "a")[3000] == 3000);
}

TEST_CASE("token files are read the same in pieces of any size", "[nn][data]") {
  const TempDir dir;
  const int64_t top = GENERATE(int64_t{0}, int64_t{70000});  // 2 and 4 bytes a token
  List tokens(20001);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i % 60000);
  tokens.back() += top;
  save_tokens(dir / "a", tokens);
  const Tokens file = Tokens::open(dir / "a", {.bytes = top == 0 ? 2 : 4}), memory(tokens);
  CHECK(file.size() == memory.size());
  for (const int64_t size : {0, 1, 2, 4095, 4096, 4097, 8191, 8192, 8193, 16385, 20001}) {
    for (const int64_t begin : {int64_t{0}, int64_t{1}, 20001 - size}) {
      if (begin + size > 20001) continue;
      List a(static_cast<size_t>(size), -1), b(a);
      file.read(begin, a);
      memory.read(begin, b);
      CHECK(a == b);
      CHECK(std::equal(a.begin(), a.end(), tokens.begin() + begin));
    }
  }
}

// Too large for any memory, of the kind that a sparse file makes.
TEST_CASE("a file larger than all memory is an Error of every reader", "[nn][data]") {
  if (hero_test::kIsSanitized) return;  // a sanitizer's allocator ends the process
  // Where the system promises memory that it does not have, only the end of the process tells.
  if (hero_test::slurp("/proc/sys/vm/overcommit_memory").starts_with("1")) return;
  const TempDir dir;
  for (const char* name : {"a", "a.gz"}) {
    const std::string path = dir / name;
    spill(path, "\x93NUMPY\x01");
    std::filesystem::resize_file(path, uint64_t{8} << 40);
    CHECK_THROWS_AS(read_bytes(path), hero::Error);
    CHECK_THROWS_AS(read_text(path), hero::Error);
    CHECK_THROWS_AS(load_idx(path), hero::Error);
    CHECK_THROWS_AS(load_csv(path), hero::Error);
    CHECK_THROWS_AS(BPETokenizer::load(path), hero::Error);
    CHECK_THROWS_AS(BPETokenizer::load_gpt2(path, path), hero::Error);
    CHECK_THROWS_AS(CharTokenizer::load(path), hero::Error);
    CHECK_THROWS_AS(hero::core::load_npy(path), hero::Error);
    CHECK_THROWS_AS(hero::core::load_safetensors(path), hero::Error);
  }
}

}  // namespace
