#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/core/random.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/bpe_split.h>
#include <hero/nn/data/king_james.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp;
using hero_test::TempDir;
using List = std::vector<int64_t>;
using nlohmann::json;

const std::string kFolder = std::string(HERO_GOLDEN_DIR "/nn/");

const json& golden() {
  static const json file = json::parse(slurp(kFolder + "bpe.json"));
  return file;
}

// Any bytes: every value alone, then runs without pattern of all lengths up to `longest`.
std::vector<std::string> byte_strings(size_t longest) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (size_t length = 0; length < longest; ++length) {
    std::vector<uint64_t> bits(length / 8 + 1);
    hero::fill_bits(bits, {7, length}, 0);
    all.emplace_back(reinterpret_cast<const char*>(bits.data()), length);
  }
  return all;
}

// The definition: the pair of lowest rank, leftmost first, until there is none.
List merged_slowly(const BPETokenizer& tokenizer, const std::vector<std::string>& merges,
                   std::string_view piece) {
  std::vector<std::string> parts;
  for (const char byte : piece) parts.emplace_back(1, byte);
  while (true) {
    size_t best = merges.size(), place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::string pair = parts[i] + " " + parts[i + 1];
      const auto rank =
          static_cast<size_t>(std::find(merges.begin(), merges.end(), pair) - merges.begin());
      if (rank < best) {
        best = rank;
        place = i;
      }
    }
    if (best == merges.size()) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  List tokens;
  for (const std::string& part : parts) {
    for (int64_t token = 0; token < tokenizer.vocab_size(); ++token) {
      if (tokenizer.bytes(token) == part) tokens.push_back(token);
    }
  }
  return tokens;
}

TEST_CASE("text is cut as the regex module cuts it by GPT-2's pattern", "[nn][data][bpe]") {
  int pieces = 0;
  for (const json& one : golden()["splits"]) {
    const auto text = one[0].get<std::string>();
    std::vector<size_t> lengths;
    for (const std::string_view piece : bpe_split(text)) lengths.push_back(piece.size());
    INFO("text: " << one[0].dump());
    CHECK(lengths == one[1].get<std::vector<size_t>>());
    pieces += static_cast<int>(lengths.size());
  }
  CHECK(pieces > 2000);
}

TEST_CASE("pieces of any bytes join to the text, broken UTF-8 as other characters",
          "[nn][data][bpe]") {
  for (const std::string& text : byte_strings(200)) {
    std::string joined;
    for (const std::string_view piece : bpe_split(text)) {
      CHECK(!piece.empty());
      joined += piece;
    }
    CHECK(joined == text);
  }
  CHECK(bpe_split("a\xff.\xc3 b") == std::vector<std::string_view>{"a", "\xff.\xc3", " b"});
}

TEST_CASE("training learns the merges that Hugging Face's trainer learns", "[nn][data][bpe]") {
  const TempDir dir;
  const BPETokenizer tokenizer =
      BPETokenizer::train(golden()["text"].get<std::string>(),
                          {.vocab_size = 421, .special_tokens = {"<|endoftext|>"}});
  CHECK(tokenizer.vocab_size() == 421);
  tokenizer.save_gpt2(dir / "encoder.json", dir / "vocab.bpe");
  std::string merges = "#version: 0.2\n";
  for (const json& one : golden()["merges"]) merges += one.get<std::string>() + "\n";
  CHECK(slurp(dir / "vocab.bpe") == merges);
  const BPETokenizer theirs = BPETokenizer::load(kFolder + "bpe_tokenizer.json");
  REQUIRE(theirs.vocab_size() == 421);
  for (int64_t token = 0; token < 421; ++token)
    CHECK(theirs.bytes(token) == tokenizer.bytes(token));
  CHECK(theirs.special_token("<|endoftext|>") == 420);
  for (const json& one : golden()["encodings"]) {
    INFO("text: " << one[0].dump());
    CHECK(tokenizer.encode(one[0].get<std::string>(), SpecialTokens::encode) == one[1].get<List>());
    CHECK(theirs.encode(one[0].get<std::string>(), SpecialTokens::encode) == one[1].get<List>());
  }
}

TEST_CASE("merges are the definition's, in short pieces and in long ones", "[nn][data][bpe]") {
  const BPETokenizer tokenizer =
      BPETokenizer::train("abababab aabbaabb abcabcabc cab cabbac abab", {.vocab_size = 275});
  const TempDir dir;
  tokenizer.save_gpt2(dir / "encoder.json", dir / "vocab.bpe");
  std::vector<std::string> merges;
  std::ifstream file(dir / "vocab.bpe");
  for (std::string line; std::getline(file, line);) merges.push_back(line);
  merges.erase(merges.begin());
  for (int64_t i = 0; i < 60; ++i) {
    // lengths on both sides of where the way of merging changes
    std::vector<int64_t> letters(static_cast<size_t>(1 + 2 * i));
    hero::fill_randint(letters, {5, static_cast<uint64_t>(i)}, 0, 'a', 'd');
    const std::string piece(letters.begin(), letters.end());
    CHECK(tokenizer.encode(piece) == merged_slowly(tokenizer, merges, piece));
  }
}

TEST_CASE("any bytes come back from their tokens", "[nn][data][bpe]") {
  const BPETokenizer tokenizer = BPETokenizer::train(golden()["text"].get<std::string>());
  for (const std::string& text : byte_strings(300))
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  const std::string all_spaces(100000, ' ');
  CHECK(tokenizer.decode(tokenizer.encode(all_spaces)) == all_spaces);
  // one piece of a million letters: not quadratic
  std::string endless(1000000, 'a');
  for (size_t i = 0; i < endless.size(); i += 7) endless[i] = 'b';
  CHECK(tokenizer.decode(tokenizer.encode(endless)) == endless);
  CHECK(BPETokenizer::train(endless, {.vocab_size = 300}).encode(endless).size() < 10);
}

TEST_CASE("the King James text trains, deterministically, and comes back whole",
          "[nn][data][bpe]") {
  const std::string text = king_james();
  const BPETokenizer tokenizer = BPETokenizer::train(text, {.vocab_size = 1024});
  CHECK(tokenizer.vocab_size() == 1024);
  const List tokens = tokenizer.encode(text);
  CHECK(tokens.size() < text.size() / 2);
  CHECK(tokenizer.decode(tokens) == text);
}

TEST_CASE("training needs no more than it finds", "[nn][data][bpe]") {
  CHECK(BPETokenizer::train("").vocab_size() == 256);
  // of "abc" three times only "ab" or "bc", then "abc" can be merged; the tie goes to the smaller
  const BPETokenizer tokenizer = BPETokenizer::train("abc abc abc");
  CHECK(tokenizer.vocab_size() == 259);
  CHECK(tokenizer.bytes(256) == "ab");
  CHECK(tokenizer.bytes(257) == "abc");
  CHECK(tokenizer.bytes(258) == " abc");
  CHECK(BPETokenizer::train("ab", {.min_frequency = 1}).vocab_size() == 257);
  CHECK_THROWS_WITH(BPETokenizer::train("", {.vocab_size = 256, .special_tokens = {"x"}}),
                    ContainsSubstring("too small for 256 bytes and 1 special"));
  CHECK_THROWS_WITH(BPETokenizer::train("", {.special_tokens = {"<x>", "<x>"}}),
                    ContainsSubstring("'<x>' twice"));
  CHECK_THROWS_WITH(BPETokenizer::train("", {.special_tokens = {"x"}}),
                    ContainsSubstring("is an ordinary token too"));
  CHECK_THROWS_WITH(BPETokenizer::train("", {.special_tokens = {"<\xff>"}}),
                    ContainsSubstring("not UTF-8"));
}

TEST_CASE("special tokens in a text are refused, encoded or text, as asked", "[nn][data][bpe]") {
  const BPETokenizer tokenizer =
      BPETokenizer::train("", {.special_tokens = {"<end>", "<end>s", "<mask>"}});
  CHECK(tokenizer.special_tokens() == std::vector<std::string>{"<end>", "<end>s", "<mask>"});
  const std::string text = "<mask><end>so<end>";
  CHECK_THROWS_WITH(tokenizer.encode(text), ContainsSubstring("special token '<mask>' at byte 0"));
  CHECK(tokenizer.encode(text, SpecialTokens::encode) ==
        List{258, 257, tokenizer.encode("o")[0], 256});
  CHECK(tokenizer.encode(text, SpecialTokens::ignore).size() == text.size());
  CHECK(tokenizer.decode(List{258, 256}) == "<mask><end>");
  CHECK(tokenizer.encode("<end").size() == 4);
  CHECK_THROWS_WITH(tokenizer.special_token("<pad>"),
                    ContainsSubstring("no special token '<pad>'"));
  CHECK_THROWS_WITH(tokenizer.decode(List{259}), ContainsSubstring("no token 259"));
}

TEST_CASE("a tokenizer survives its files", "[nn][data][bpe]") {
  const TempDir dir;
  const std::string text = golden()["text"].get<std::string>();
  const BPETokenizer tokenizer = BPETokenizer::train(
      text, {.vocab_size = 400, .special_tokens = {"<|endoftext|>", "<caf\xc3\xa9 \"x\">"}});
  tokenizer.save(dir / "tokenizer.json");
  tokenizer.save_gpt2(dir / "encoder.json", dir / "vocab.bpe");
  for (const BPETokenizer& loaded :
       {BPETokenizer::load(dir / "tokenizer.json"),
        BPETokenizer::load_gpt2(dir / "encoder.json", dir / "vocab.bpe")}) {
    REQUIRE(loaded.vocab_size() == 400);
    for (int64_t token = 0; token < 400; ++token)
      CHECK(loaded.bytes(token) == tokenizer.bytes(token));
    CHECK(loaded.special_tokens() == tokenizer.special_tokens());
    CHECK(loaded.encode(text) == tokenizer.encode(text));
    loaded.save(dir / "again.json");
    CHECK(slurp(dir / "again.json") == slurp(dir / "tokenizer.json"));
  }
}

TEST_CASE("a broken or foreign tokenizer file is refused by name", "[nn][data][bpe]") {
  const TempDir dir;
  const json good = json::parse(slurp(kFolder + "bpe_tokenizer.json"));
  const auto error = [&](const char* pointer, const json& value) {
    json changed = good;
    changed[json::json_pointer(pointer)] = value;
    return hero::test::error_of([&] { BPETokenizer::parse(changed.dump(), "file.json"); });
  };
  CHECK(error("/version", "1.0").empty());
  CHECK_THAT(error("/model/type", "Unigram"), ContainsSubstring("file.json has type \"Unigram\""));
  CHECK_THAT(error("/normalizer", {{"type", "NFD"}}), ContainsSubstring("normalizer"));
  CHECK_THAT(error("/pre_tokenizer/add_prefix_space", 1), ContainsSubstring("pre_tokenizer"));
  CHECK_THAT(error("/model/ignore_merges", 1), ContainsSubstring("ignore_merges"));
  CHECK_THAT(error("/model/vocab/a", 65), ContainsSubstring("two tokens with number 65"));
  CHECK_THAT(error("/model/vocab/a", 420), ContainsSubstring("420, which is that of 'a', too"));
  CHECK_THAT(error("/model/vocab/a", 1 << 20), ContainsSubstring("not in [0, 7744)"));
  CHECK_THAT(error("/model/vocab/a", -1), ContainsSubstring("is -1"));
  CHECK_THAT(error("/model/vocab", 7), ContainsSubstring("has no vocabulary"));
  CHECK_THAT(error("/model/merges/3", "x"), ContainsSubstring("merge 3 is not two tokens"));
  CHECK_THAT(error("/model/merges/3", "qq zz"), ContainsSubstring("'qq' is not in the vocabulary"));
  CHECK_THAT(error("/added_tokens/0/id", 421), ContainsSubstring("has number 421, expected 420"));
  json without = good;
  without["model"]["vocab"].erase("a");
  without["model"]["vocab"]["\xe4\xb8\xad"] = 64;
  without["model"]["merges"] = json::array();
  CHECK_THROWS_WITH(BPETokenizer::parse(without.dump(), "x"),
                    ContainsSubstring("stands for no byte"));
  CHECK_THROWS_WITH(BPETokenizer::parse("{", "x"), ContainsSubstring("x is not JSON"));
  CHECK_THROWS_WITH(BPETokenizer::parse("[]", "x"), ContainsSubstring("not a JSON object"));
  CHECK_THROWS_WITH(BPETokenizer::parse("{}", "x"), ContainsSubstring("no model"));
  CHECK_THROWS_WITH(BPETokenizer::load(dir / "none"), ContainsSubstring(dir / "none"));
  CHECK_THROWS_WITH(BPETokenizer::parse_gpt2("{\"a\":0}", "", "x").encode("ab"),
                    ContainsSubstring("no token for byte 98"));
  const std::string vocabulary = good["model"]["vocab"].dump();
  CHECK_THROWS_WITH(BPETokenizer::parse_gpt2(vocabulary, "#version: 0.2\nt h e\n", "x"),
                    ContainsSubstring("line 2 of the merges is not two tokens: 't h e'"));
  const std::string longest(1 << 20, 't');
  for (const std::string& line : {longest, "t " + longest}) {
    const std::string long_error = hero::test::error_of(
        [&] { BPETokenizer::parse_gpt2(vocabulary, "#version: 0.2\n" + line + "\n", "x"); });
    CHECK_THAT(long_error,
               ContainsSubstring("line 2 of the merges") && ContainsSubstring("ttt...'"));
    CHECK(long_error.size() < 200);
  }
}

TEST_CASE("threads may encode with one tokenizer", "[nn][data][bpe][threads]") {
  const std::string text = golden()["text"].get<std::string>();
  const BPETokenizer tokenizer = BPETokenizer::train(text);
  const List expected = tokenizer.encode(text);
  std::atomic<int> same = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { same += tokenizer.encode(text) == expected; });
  for (std::thread& thread : threads) thread.join();
  CHECK(same == 4);
}

}  // namespace
