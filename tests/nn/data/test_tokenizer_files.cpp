// What a tokenizer.json may ask for beyond GPT-2's tokenizer, against Hugging Face's tokenizers.
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/unicode.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp;
using hero_test::TempDir;
using List = std::vector<int64_t>;
using nlohmann::json;

const std::string kFolder = std::string(HERO_GOLDEN_DIR "/nn/");

json base() { return json::parse(slurp(kFolder + "bpe_tokenizer.json")); }

json changed(const json& changes) {
  json document = base();
  for (const auto& [section, value] : changes.items()) {
    if (section == "model") {
      document["model"].update(value);
    } else if (section != "without") {
      document[section] = value;
    }
  }
  if (!changes.contains("without")) return document;
  document["added_tokens"] = json::array();
  json merges = json::array();
  for (const json& gone : changes["without"]) {
    document["model"]["vocab"].erase(gone.get<std::string>());
  }
  for (const json& merge : document["model"]["merges"]) {
    bool whole = true;
    for (const json& gone : changes["without"]) {
      whole = whole && merge[0] != gone && merge[1] != gone;
    }
    if (whole) merges.push_back(merge);
  }
  document["model"]["merges"] = merges;
  return document;
}

BPETokenizer parse(const json& document) { return BPETokenizer::parse(document.dump(), "x.json"); }

std::string error(const json& document) {
  return hero::test::error_of([&] { parse(document); });
}

TEST_CASE("tokenizer files of many settings give the tokens that Hugging Face's give",
          "[nn][data][bpe]") {
  const json golden = json::parse(slurp(kFolder + "tokenizers.json"));
  const TempDir dir;
  int compared = 0;
  for (const auto& [name, one] : golden["cases"].items()) {
    const BPETokenizer tokenizer = parse(changed(one["changes"]));
    tokenizer.save(dir / "saved.json");
    const BPETokenizer saved = BPETokenizer::load(dir / "saved.json");
    for (size_t i = 0; i < golden["texts"].size(); ++i) {
      const auto text = golden["texts"][i].get<std::string>();
      INFO(name << ": " << golden["texts"][i].dump());
      const auto tokens = one["tokens"][i].get<List>();
      CHECK(tokenizer.encode(text, SpecialTokens::encode) == tokens);
      CHECK(saved.encode(text, SpecialTokens::encode) == tokens);
      if (one.contains("ignored")) {
        CHECK(tokenizer.encode(text, SpecialTokens::ignore) == one["ignored"][i].get<List>());
      }
      ++compared;
    }
  }
  CHECK(compared == 15 * 70);
}

TEST_CASE("added tokens take white space, stand alone or are refused as their fields say",
          "[nn][data][bpe]") {
  json document = base();
  json token = document["added_tokens"][0];
  const auto with = [&](const char* text, const char* field) {
    json one = token;
    one["id"] = 421;
    one["content"] = text;
    one[field] = true;
    json changed = document;
    changed["added_tokens"].push_back(one);
    return parse(changed);
  };
  const BPETokenizer left = with("[L]", "lstrip"), word = with("word", "single_word");
  const int64_t x = left.encode("x")[0];
  CHECK(left.encode("  \n[L] ", SpecialTokens::encode) == List{421, left.encode(" ")[0]});
  CHECK(with("[R]", "rstrip").encode(" [R] \u3000x", SpecialTokens::encode) ==
        List{left.encode(" ")[0], 421, x});
  CHECK(word.encode("word,word", SpecialTokens::encode) == List{421, word.encode(",")[0], 421});
  CHECK(word.encode("xword", SpecialTokens::encode) == word.encode("xword", SpecialTokens::ignore));
  CHECK(word.encode("xword") == word.encode("xword", SpecialTokens::ignore));
  CHECK_THROWS_WITH(word.encode("x word"), ContainsSubstring("special token 'word' at byte 2"));
  CHECK(word.special_tokens() == std::vector<std::string>{"<|endoftext|>", "word"});
  // one that is not special is encoded in any case
  token["special"] = false;
  const BPETokenizer plain = with("word", "single_word");
  CHECK(plain.encode("word") == List{421});
  CHECK(plain.encode("word", SpecialTokens::ignore) == List{421});
  CHECK(plain.special_tokens() == std::vector<std::string>{"<|endoftext|>"});
  CHECK(plain.special_token("word") == 421);
  const TempDir dir;
  CHECK_THROWS_WITH(plain.save_gpt2(dir / "e", dir / "v"),
                    ContainsSubstring("cannot hold how added tokens are found"));
}

TEST_CASE("tokens around a text are left out on demand", "[nn][data][bpe]") {
  json document = base();
  document["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"s", 7}}, {"cls", {"c", 420}}};
  const BPETokenizer tokenizer = parse(document);
  const int64_t x = tokenizer.encode("x", SpecialTokens::refuse, false).at(0);
  CHECK(tokenizer.encode("x") == List{420, x, 7});
  CHECK(tokenizer.encode("") == List{420, 7});
  document["post_processor"]["sep"][1] = 421;
  CHECK_THAT(error(document), ContainsSubstring("post_processor adds the token 421"));
}

TEST_CASE("bytes without a token and numbers without a token are errors where they are met",
          "[nn][data][bpe]") {
  json document = changed({{"without", {"\u00c3", "\u0120"}}});
  const BPETokenizer tokenizer = parse(document);
  CHECK(tokenizer.vocab_size() == 420);
  CHECK(tokenizer.encode("the").size() < 3);
  CHECK_THROWS_WITH(tokenizer.encode("a b"),
                    ContainsSubstring("no token for byte 32 and no unknown token"));
  CHECK_THROWS_WITH(tokenizer.encode("\u00e9"), ContainsSubstring("no token for byte 195"));
  const int64_t gone = base()["model"]["vocab"]["\u0120"].get<int64_t>();
  CHECK_THROWS_WITH(tokenizer.decode(List{gone}), ContainsSubstring("of which some are unused"));
  document["model"]["byte_fallback"] = true;
  CHECK_THAT(error(document), ContainsSubstring("byte_fallback"));
  document["model"]["byte_fallback"] = false;
  // as Hugging Face's tokenizers count, the next token would get the number 418
  json added = base()["added_tokens"];
  document["added_tokens"] = added;
  CHECK_THAT(error(document), ContainsSubstring("has number 420, expected 418"));
  document["added_tokens"][0]["id"] = 418;
  CHECK_THAT(error(document), ContainsSubstring("which is that of '"));
}

TEST_CASE("every field of a tokenizer file is obeyed or refused by name", "[nn][data][bpe]") {
  const auto refused = [](const char* pointer, const json& value) {
    json document = base();
    document[json::json_pointer(pointer)] = value;
    const std::string text = error(document);
    CHECK_THAT(text, ContainsSubstring("x.json"));
    return text;
  };
  CHECK_THAT(refused("/truncation", {{"max_length", 8}}), ContainsSubstring("truncation"));
  CHECK_THAT(refused("/padding", {{"strategy", "BatchLongest"}}), ContainsSubstring("padding"));
  CHECK_THAT(refused("/version", "2.0"), ContainsSubstring("version \"2.0\""));
  CHECK_THAT(refused("/more", nullptr), ContainsSubstring("the field \"more\""));
  CHECK_THAT(refused("/model/more", 1), ContainsSubstring("model has the field \"more\": 1"));
  CHECK_THAT(refused("/model/dropout", 0.1), ContainsSubstring("dropout 0.1"));
  CHECK_THAT(refused("/model/fuse_unk", 1), ContainsSubstring("fuse_unk 1"));
  CHECK_THAT(refused("/model/unk_token", 1), ContainsSubstring("unk_token 1"));
  CHECK_THAT(refused("/model/continuing_subword_prefix", "##"),
             ContainsSubstring("continuing_subword_prefix \"##\""));
  CHECK_THAT(refused("/model/end_of_word_suffix", "</w>"), ContainsSubstring("end_of_word_suffix"));
  CHECK_THAT(refused("/added_tokens/0/lstrip", 1), ContainsSubstring("lstrip 1"));
  CHECK_THAT(refused("/added_tokens/0/more", 1), ContainsSubstring("the field \"more\""));
  CHECK_THAT(refused("/normalizer", {{"type", "NFKC"}}), ContainsSubstring("type \"NFKC\""));
  CHECK_THAT(refused("/normalizer", {{"type", "NFC"}, {"more", 1}}), ContainsSubstring("more"));
  CHECK_THAT(refused("/normalizer", {{"type", "Sequence"}}), ContainsSubstring("normalizers null"));
  const json bytes = base()["pre_tokenizer"];
  CHECK_THAT(refused("/pre_tokenizer", nullptr), ContainsSubstring("pre_tokenizer is null"));
  CHECK_THAT(refused("/pre_tokenizer/more", 1), ContainsSubstring("pre_tokenizer has the field"));
  CHECK_THAT(refused("/pre_tokenizer", {{"type", "Whitespace"}}), ContainsSubstring("Whitespace"));
  CHECK_THAT(refused("/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}),
             ContainsSubstring("does not end with ByteLevel"));
  CHECK_THAT(refused("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {bytes, bytes}}}),
             ContainsSubstring("a step after ByteLevel"));
  const auto split = [](const json& pattern, const char* behavior, bool invert) -> json {
    return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
  };
  CHECK_THAT(refused("/pre_tokenizer", split({{"Regex", "\\s+"}}, "Isolated", false)),
             ContainsSubstring("only the patterns of GPT-2, Llama 3 and Qwen2 are known"));
  CHECK_THAT(refused("/pre_tokenizer", split({{"String", " "}}, "Isolated", false)),
             ContainsSubstring("only the patterns"));
  CHECK_THAT(refused("/pre_tokenizer", split({{"Regex", "x"}}, "MergedWithNext", false)),
             ContainsSubstring("behavior \"MergedWithNext\""));
  CHECK_THAT(refused("/decoder", nullptr), ContainsSubstring("decoder is null"));
  CHECK_THAT(refused("/decoder", {{"type", "WordPiece"}}), ContainsSubstring("WordPiece"));
  CHECK_THAT(refused("/post_processor", {{"type", "Other"}}), ContainsSubstring("\"Other\""));
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json token = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const auto single = [](const json& parts) -> json {
    return {{"type", "TemplateProcessing"}, {"single", parts}, {"special_tokens", json::object()}};
  };
  CHECK_THAT(refused("/post_processor", single({text, text})), ContainsSubstring("\"A\" once"));
  CHECK_THAT(refused("/post_processor", single(json::array())), ContainsSubstring("no text"));
  CHECK_THAT(refused("/post_processor", single({token, text})),
             ContainsSubstring("no ids of \"<s>\""));
  // the first files of the format have neither version nor type
  json old = base();
  old.erase("version");
  old["model"].erase("type");
  old["model"]["dropout"] = 0.0;
  CHECK(parse(old).vocab_size() == 421);
}

TEST_CASE("NFC composes as Unicode says, and leaves other bytes alone", "[nn][data][bpe]") {
  CHECK(normalized_nfc("cafe\u0301") == "caf\u00e9");
  CHECK(normalized_nfc("q\u0307\u0323") == "q\u0323\u0307");
  CHECK(normalized_nfc("\u1e0b\u0323") == "\u1e0d\u0307");
  CHECK(normalized_nfc("\u1112\u1161\u11ab\uac00\u11a8") == "\ud55c\uac01");
  CHECK(normalized_nfc("\u212b\u0958\u0344") == "\u00c5\u0915\u093c\u0308\u0301");
  CHECK(normalized_nfc("e\xcc\xff\u0301\xcc") == "e\xcc\xff\u0301\xcc");
  CHECK(normalized_nfc("\u0301e\u0301\u0301") == "\u0301\u00e9\u0301");
  CHECK(is_plain_nfc("caf\u00e9"));
  CHECK_FALSE(is_plain_nfc("e\u0301"));
}

}  // namespace
