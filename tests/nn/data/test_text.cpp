#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/autograd/ops/creation/creation.h>
#include <hero/nn/data/king_james.h>
#include <hero/nn/data/tokenizer.h>
#include <hero/nn/data/tokens.h>
#include <hero/nn/data/utf8.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp;
using hero_test::spill;
using hero_test::TempDir;
using List = std::vector<int64_t>;

// An environment variable set for a scope.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* now = std::getenv(name)) former_ = now;
    ::setenv(name, value.c_str(), 1);
  }
  ~Setting() { former_.empty() ? ::unsetenv(name_) : ::setenv(name_, former_.c_str(), 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string former_;
};

TEST_CASE("the King James text is whole, with and without references", "[nn][data]") {
  const Setting columns("COLUMNS", "40");
  const std::string text = king_james();
  CHECK(text.size() == 4404412);
  CHECK(
      text.starts_with("Ge1:1 In the beginning God created the heaven and the earth.\nGe1:2 And"));
  const std::string plain = king_james({.references = false});
  CHECK(plain.starts_with("In the beginning God created the heaven and the earth.\nAnd the earth"));
  CHECK(plain.ends_with("\nThe grace of our Lord Jesus Christ be with you all. Amen.\n"));
  CHECK(plain.find(":1 ") == plain.npos);
}

TEST_CASE("a missing or broken King James text names the package", "[nn][data]") {
  const TempDir dir;
  {
    const Setting path("PATH", dir / "");
    CHECK_THROWS_WITH(king_james(), ContainsSubstring("apt-get install bible-kjv"));
    spill(dir / "bible", "#!/bin/sh\necho 'Ge1:1 In the beginning '\necho Amen.\n");
    REQUIRE(::system(("/bin/chmod +x " + (dir / "bible")).c_str()) == 0);
    CHECK_THROWS_WITH(king_james(),
                      ContainsSubstring("printed 2 lines") && ContainsSubstring("bible-kjv"));
    spill(dir / "bible", "#!/bin/sh\nexit 3\n");
    CHECK_THROWS_WITH(king_james(), ContainsSubstring("failed with status"));
  }
  const Setting data("HERO_DATA", dir / "");
  spill(dir / "king_james.txt", "Ge1:1 My own.\nno reference: here\nPsa1:1 last");
  CHECK(king_james({.references = false}) == "My own.\nno reference: here\nlast");
  spill(dir / "king_james.txt", "");
  CHECK_THROWS_WITH(king_james(), ContainsSubstring("is empty"));
}

TEST_CASE("UTF-8 is read strictly, byte by byte where it is broken", "[nn][data]") {
  const auto first = [](const std::string& text) { return code_point_at(text, 0); };
  const auto is = [&](const std::string& text, uint32_t value, size_t length) {
    const CodePoint one = first(text);
    return one.value == value && one.length == length;
  };
  CHECK(is("a", 'a', 1));
  CHECK(is("\xc3\xa9", 0xe9, 2));
  CHECK(is("\xe2\x82\xac", 0x20ac, 3));
  CHECK(is("\xf0\x9f\x98\x80", 0x1f600, 4));
  CHECK(is("\xf4\x8f\xbf\xbf", 0x10ffff, 4));
  // lone and missing continuations, overlong forms, surrogates, above the last code point
  for (const char* broken :
       {"\x80", "\xff", "\xc3", "\xc3\x61", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf0\x9f\x98"}) {
    CHECK(is(broken, kInvalidCodePoint, 1));
  }
}

TEST_CASE("a character tokenizer numbers the characters of a text in their order", "[nn][data]") {
  const std::string text =
      "b\xc3\xa9"
      "a\nb\xe2\x82\xac";
  const CharTokenizer tokenizer(text);
  CHECK(tokenizer.characters() ==
        std::vector<std::string>{"\n", "a", "b", "\xc3\xa9", "\xe2\x82\xac"});
  CHECK(tokenizer.encode(text) == List{2, 3, 1, 0, 2, 4});
  CHECK(tokenizer.decode(List{2, 3, 1, 0, 2, 4}) == text);
  CHECK(tokenizer.decode(hero::tensor({1, 2})) == "ab");
  CHECK_THROWS_WITH(tokenizer.encode("abc"), ContainsSubstring("'c' at byte 2"));
  CHECK_THROWS_WITH(tokenizer.decode(List{5}), ContainsSubstring("no token 5"));
  CHECK_THROWS_WITH(tokenizer.decode(hero::tensor({1.5})), ContainsSubstring("integer"));
}

TEST_CASE("a character tokenizer survives its file, bytes that are no text included",
          "[nn][data]") {
  const TempDir dir;
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  all += "\xe2\x82\xac";
  const CharTokenizer tokenizer(all);
  CHECK(tokenizer.vocab_size() == 257);
  tokenizer.save(dir / "chars.json");
  const CharTokenizer loaded = CharTokenizer::load(dir / "chars.json");
  CHECK(loaded.characters() == tokenizer.characters());
  CHECK(loaded.decode(loaded.encode(all)) == all);
  const auto error = [&](const std::string& json) {
    spill(dir / "x", json);
    return hero::test::error_of([&] { CharTokenizer::load(dir / "x"); });
  };
  CHECK_THAT(error("{"), ContainsSubstring("is not a file that"));
  CHECK_THAT(error(R"({"type":"characters","characters":["ab"]})"), ContainsSubstring("'ab'"));
  CHECK_THAT(error(R"({"type":"characters","characters":["a","a"]})"), ContainsSubstring("twice"));
  CHECK_THAT(error(R"({"type":"characters","characters":[7]})"), ContainsSubstring("not a string"));
}

TEST_CASE("a token dataset gives pieces and the same pieces one later", "[nn][data]") {
  List text(11);
  std::iota(text.begin(), text.end(), 100);
  const TokenDataset set(text, {.block = 3});
  CHECK(set.size() == 3);
  const auto [x, y] = set.get(2);
  CHECK(x.to_vector<int64_t>() == List{106, 107, 108});
  CHECK(y.to_vector<int64_t>() == List{107, 108, 109});
  CHECK_THROWS_WITH(set.get(3), ContainsSubstring("no sample 3"));
  const TokenDataset overlapping(text, {.block = 3, .stride = 1});
  CHECK(overlapping.size() == 8);
  CHECK(overlapping.get(7)[1].to_vector<int64_t>() == List{108, 109, 110});
  CHECK_THROWS_WITH(TokenDataset(text, {.block = 11}), ContainsSubstring("11 tokens are too few"));
  CHECK(TokenDataset(text, {.block = 10}).size() == 1);
}

TEST_CASE("random batches of tokens depend on seed and step alone", "[nn][data]") {
  List text(20);
  std::iota(text.begin(), text.end(), 0);
  const TokenDataset set(text, {.block = 4});
  const auto at = [&](uint64_t seed, int64_t step) {
    return set.random_batch(50, seed, step)[0].to_vector<int64_t>();
  };
  const auto [x, y] = set.random_batch(50, 1, 7);
  CHECK(x.shape() == hero::Shape{50, 4});
  List starts(16);
  for (int64_t i = 0; i < 50; ++i) {
    const List in = x[i].to_vector<int64_t>(), out = y[i].to_vector<int64_t>();
    ++starts[static_cast<size_t>(in[0])];
    for (int64_t k = 0; k < 4; ++k) {
      CHECK(in[static_cast<size_t>(k)] == in[0] + k);
      CHECK(out[static_cast<size_t>(k)] == in[0] + k + 1);
    }
  }
  CHECK(at(1, 7) == x.to_vector<int64_t>());
  CHECK(at(1, 8) != at(1, 7));
  CHECK(at(2, 7) != at(1, 7));
}

TEST_CASE("token files are mapped, plain and with a header", "[nn][data]") {
  const TempDir dir;
  const List small{0, 1, 65535, 50256}, large{70000, 3};
  save_tokens(dir / "a", small);
  CHECK(slurp(dir / "a") == std::string("\0\0\1\0\xff\xff\x50\xc4", 8));
  const auto list = [](const Tokens& tokens) {
    List all(static_cast<size_t>(tokens.size()));
    tokens.read(0, all);
    return all;
  };
  CHECK(list(Tokens::open(dir / "a")) == small);
  save_tokens(dir / "b", large);
  CHECK(list(Tokens::open(dir / "b", {.bytes = 4})) == large);
  save_tokens(dir / "c", small, TokenHeader::llm_c);
  CHECK(slurp(dir / "c").size() == 1024 + 8);
  CHECK(list(Tokens::open(dir / "c")) == small);
  save_tokens(dir / "d", large, TokenHeader::llm_c);
  CHECK(list(Tokens::open(dir / "d")) == large);
  const Tokens part = Tokens::open(dir / "c").part(1, 3);
  CHECK(list(part) == List{1, 65535});
  CHECK(part[1] == 65535);
  CHECK_THROWS_WITH(part[2], ContainsSubstring("asked for 1 from 2, there are 2"));
  CHECK_THROWS_WITH(part.part(1, 3), ContainsSubstring("no part [1, 3) of 2"));
  CHECK_THROWS_WITH(save_tokens(dir / "e", List{-1}), ContainsSubstring("token 0 is -1"));
  spill(dir / "empty", "");
  CHECK(Tokens::open(dir / "empty").size() == 0);
}

TEST_CASE("a broken token file is refused by name", "[nn][data]") {
  const TempDir dir;
  const auto error = [&](const std::string& bytes) {
    spill(dir / "x", bytes);
    return hero::test::error_of([&] { Tokens::open(dir / "x"); });
  };
  save_tokens(dir / "good", List{1, 2, 3}, TokenHeader::llm_c);
  const std::string good = slurp(dir / "good");
  CHECK(error(good).empty());
  CHECK_THAT(error(good.substr(0, good.size() - 2)),
             ContainsSubstring("holds 4 bytes of tokens, its header claims 3 tokens"));
  CHECK_THAT(error(good + "ab"), ContainsSubstring("holds 8 bytes"));
  CHECK_THAT(error(good.substr(0, 500)), ContainsSubstring("ends inside its header"));
  std::string version = good;
  version[4] = 9;
  CHECK_THAT(error(version), ContainsSubstring("version 9"));
  std::string negative = good;
  negative[11] = '\xff';
  CHECK_THAT(error(negative), ContainsSubstring("its header claims -"));
  CHECK_THAT(error("abc"), ContainsSubstring("3 bytes, not a multiple of 2"));
}

}  // namespace
