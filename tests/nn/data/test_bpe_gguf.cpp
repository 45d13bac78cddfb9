// Tokenizers in GGUF files, against the same vocabulary in a tokenizer.json.
#include <algorithm>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/gguf.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_split.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using hero_test::GGUFBuilder;
using nlohmann::json;

constexpr int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

json byte_level(bool use_regex) {
  return json::parse(
      std::string(
          R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":)") +
      (use_regex ? "true}" : "false}"));
}

json sequence(const json& first, const json& second) {
  return {{"type", "Sequence"}, {"pretokenizers", json::array({first, second})}};
}

json split(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", std::string(pattern)}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

// The vocabulary of a tokenizer.json with two special tokens, one of the user's, and a number that
// is not used.
struct Case {
  explicit Case(const std::string& name) : pre(name) {
    const std::string path = std::string(HERO_GOLDEN_DIR "/nn/bpe_tokenizer.json");
    document = json::parse(hero_test::slurp(path));
    document["added_tokens"] = json::array();
    const json& vocab = document["model"]["vocab"];
    tokens.resize(vocab.size());
    for (const auto& [text, number] : vocab.items()) tokens[number.get<size_t>()] = text;
    types.assign(tokens.size(), kNormal);
    // those of the file that are special are normal here
    tokens.emplace_back("[PAD1]");
    types.push_back(kUnused);
    for (const auto& [text, type] :
         {std::pair("<|begin|>", kControl), std::pair("<|end|>", kControl),
          std::pair("<mine>", kUserDefined)}) {
      const size_t id = tokens.size();
      document["added_tokens"].push_back({{"id", id},
                                          {"content", text},
                                          {"single_word", false},
                                          {"lstrip", false},
                                          {"rstrip", false},
                                          {"normalized", false},
                                          {"special", type == kControl}});
      document["model"]["vocab"][text] = id;
      tokens.emplace_back(text);
      types.push_back(type);
    }
    begin = tokens.size() - 3;
    for (const json& merge : document["model"]["merges"]) {
      merges.push_back(merge.is_string()
                           ? merge.get<std::string>()
                           : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
  }

  GGUFBuilder file() const {
    GGUFBuilder file;
    file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
    file.texts("tokenizer.ggml.tokens", tokens).i32s("tokenizer.ggml.token_type", types);
    file.texts("tokenizer.ggml.merges", merges);
    file.u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(begin));
    file.u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(begin + 1));
    return file;
  }

  std::string pre;
  json document;
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  size_t begin = 0;
};

BPETokenizer read(const hero_test::TempDir& dir, const GGUFBuilder& file) {
  hero_test::spill(dir / "x.gguf", file.bytes());
  return BPETokenizer::from_pretrained(dir / "x.gguf");
}

}  // namespace

TEST_CASE("tokenizers in GGUF files give the tokens of the same tokenizer.json",
          "[nn][data][bpe][gguf]") {
  const hero_test::TempDir dir;
  json texts =
      json::parse(hero_test::slurp(std::string(HERO_GOLDEN_DIR "/nn/tokenizers.json")))["texts"];
  texts.push_back("a<|begin|>b<mine>c 12345 It'S <|end|>");
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  for (const char* pre : {"gpt-2", "smollm", "starcoder", "llama-bpe", "qwen2"}) {
    INFO(pre);
    Case one(pre);
    const std::string name = pre;
    const bool llama = name == "llama-bpe", qwen = name == "qwen2";
    one.document["pre_tokenizer"] = llama  ? sequence(split(kLlama3Pattern), byte_level(false))
                                    : qwen ? sequence(split(kQwen2Pattern), byte_level(false))
                                    : name == "gpt-2" ? byte_level(true)
                                                      : sequence(digits, byte_level(true));
    one.document["model"]["ignore_merges"] = llama;
    if (qwen) one.document["normalizer"] = {{"type", "NFC"}};
    const BPETokenizer expected = BPETokenizer::parse(one.document.dump(), "x.json");
    const BPETokenizer tokenizer = read(dir, one.file());
    CHECK(tokenizer.vocab_size() == static_cast<int64_t>(one.tokens.size()));
    CHECK(tokenizer.special_tokens() == std::vector<std::string>{"<|begin|>", "<|end|>"});
    tokenizer.save(dir / "saved.json");
    const BPETokenizer saved = BPETokenizer::load(dir / "saved.json");
    for (const json& each : texts) {
      const auto text = each.get<std::string>();
      INFO(each.dump());
      for (const SpecialTokens special : {SpecialTokens::encode, SpecialTokens::ignore}) {
        const auto tokens = expected.encode(text, special, false);
        CHECK(tokenizer.encode(text, special, false) == tokens);
        CHECK(saved.encode(text, special, false) == tokens);
        // Llama 3's begins each text, whether the file says so or not
        const auto all = tokenizer.encode(text, special);
        CHECK(all.size() == tokens.size() + (llama ? 1 : 0));
        if (llama) CHECK(all[0] == static_cast<int64_t>(one.begin));
      }
    }
  }
}

TEST_CASE("a GGUF file says which tokens are put around a text", "[nn][data][bpe][gguf]") {
  const hero_test::TempDir dir;
  const Case one("llama-bpe"), other("gpt-2");
  const auto begin = static_cast<int64_t>(one.begin), end = begin + 1;
  const auto count = [&](const GGUFBuilder& file) { return read(dir, file).encode("").size(); };
  CHECK(read(dir, one.file()).encode("") == std::vector<int64_t>{begin});
  CHECK(count(one.file().flag("tokenizer.ggml.add_bos_token", false)) == 0);
  CHECK(count(other.file()) == 0);
  CHECK(read(dir, other.file()
                      .flag("tokenizer.ggml.add_bos_token", true)
                      .flag("tokenizer.ggml.add_eos_token", true))
            .encode("") == std::vector<int64_t>{begin, end});
}

TEST_CASE("a folder's tokenizer is its tokenizer.json", "[nn][data][bpe][gguf]") {
  const hero_test::TempDir dir;
  const Case one("gpt-2");
  CHECK_THAT(hero::test::error_of([&] { BPETokenizer::from_pretrained(dir / ""); }),
             ContainsSubstring("has no tokenizer.json"));
  hero_test::spill(dir / "tokenizer.json", one.document.dump());
  CHECK(BPETokenizer::from_pretrained(dir / "").special_token("<mine>") ==
        static_cast<int64_t>(one.begin) + 2);
}

TEST_CASE("tokenizers in GGUF files that are not known are refused by name",
          "[nn][data][bpe][gguf]") {
  const hero_test::TempDir dir;
  const auto refuses = [&](const GGUFBuilder& file, const char* what) {
    CHECK_THAT(hero::test::error_of([&] { read(dir, file); }), ContainsSubstring(what));
  };
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  const auto file = [&](const char* model, const char* pre) {
    GGUFBuilder out;
    out.text("tokenizer.ggml.model", model).text("tokenizer.ggml.pre", pre);
    return out.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {"a b"});
  };
  const auto good = [&] { return file("gpt2", "gpt-2"); };
  CHECK(read(dir, good()).encode("abb") == std::vector<int64_t>{2, 1});
  refuses(GGUFBuilder(), "has no tokenizer: tokenizer.ggml.model is missing");
  refuses(file("llama", "gpt-2"), "tokenizer.ggml.model is 'llama'; only gpt2 is known");
  refuses(
      file("gpt2", "tekken"),
      "tokenizer.ggml.pre is 'tekken'; known are gpt-2, smollm, starcoder, llama-bpe and qwen2");
  refuses(GGUFBuilder().text("tokenizer.ggml.model", "gpt2"), "does not say how it cuts texts");
  refuses(good().flag("tokenizer.ggml.add_space_prefix", true), "add_space_prefix is true");
  refuses(good().i32s("tokenizer.ggml.token_type", {1, 1}),
          "tokenizer.ggml.token_type has 2 entries, and there are 3 tokens");
  refuses(good().i32s("tokenizer.ggml.token_type", {1, kByte, 1}),
          "token 1, 'b', has type 6, a byte");
  refuses(good().i32s("tokenizer.ggml.token_type", {1, 7, 1}), "token 1, 'b', has type 7");
  refuses(good().flag("tokenizer.ggml.add_bos_token", true), "has no tokenizer.ggml.bos_token_id");
  refuses(good().flag("tokenizer.ggml.add_eos_token", true).u32("tokenizer.ggml.eos_token_id", 3),
          "tokenizer.ggml.eos_token_id is 3, and there are 3 tokens");
  GGUFBuilder twice;
  twice.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  refuses(GGUFBuilder(twice)
              .texts("tokenizer.ggml.tokens", {"a", "b", "a"})
              .texts("tokenizer.ggml.merges", {}),
          "tokens 0 and 2 are both 'a'");
  refuses(GGUFBuilder(twice).texts("tokenizer.ggml.tokens", {"a", "b"}), "has no merges");
  refuses(GGUFBuilder(twice)
              .texts("tokenizer.ggml.tokens", {"a", "b"})
              .texts("tokenizer.ggml.merges", {"a b"}),
          "the token 'ab' is not in the vocabulary");
  refuses(GGUFBuilder(twice)
              .texts("tokenizer.ggml.tokens", {"a", "\xff"})
              .texts("tokenizer.ggml.merges", {}),
          "is not UTF-8");
  refuses(GGUFBuilder(twice).i32s("tokenizer.ggml.tokens", {1}), "an array of texts is needed");
}
