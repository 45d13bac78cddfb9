// Tokenizers in the metadata of GGUF files, and those of folders of Hugging Face's transformers.
#include <unordered_map>

#include <hero/core/error.h>
#include <hero/core/gguf.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_split.h>

namespace hero::nn::data {
namespace {

using core::GGUFReader;
using core::JSON;

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kPatternKey = "tokenizer.ggml.pre";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";

// What a file says about a token.
enum TokenType : int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByteToken };

JSON byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

JSON split_by(std::string_view pattern) {
  const JSON split = {{"type", "Split"},
                      {"pattern", {{"Regex", std::string(pattern)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(false)}}};
}

// A way to cut texts, by the name that files give it, with what comes with it in the tokenizer.json
// of the models that have it.
struct NamedPattern {
  JSON pre_tokenizer;
  bool nfc = false, ignore_merges = false, begins = false;
};

NamedPattern pattern_of(const std::string& name, const std::string& where) {
  if (name == "gpt-2") return {.pre_tokenizer = byte_level(true)};
  if (name == "smollm" || name == "starcoder") {
    const JSON digits = {{"type", "Digits"}, {"individual_digits", true}};
    return {.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level(true)}}}};
  }
  if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") {
    return {.pre_tokenizer = split_by(kLlama3Pattern), .ignore_merges = true, .begins = true};
  }
  if (name == "qwen2") return {.pre_tokenizer = split_by(kQwen2Pattern), .nfc = true};
  fail(where, ": ", kPatternKey, " is '", core::cut_text(name),
       "'; known are gpt-2, smollm, starcoder, llama-bpe and qwen2");
}

class Vocabulary {
 public:
  Vocabulary(const GGUFReader& file, std::string where) : where_(std::move(where)) {
    auto tokens = file.texts(kTokensKey);
    check(tokens.has_value() && !tokens->empty(), where_, " has no tokens: ", kTokensKey);
    check(tokens->size() <= size_t{INT32_MAX}, where_, " has ", tokens->size(), " tokens");
    tokens_ = std::move(*tokens);
    types_ = file.integers(kTypesKey).value_or(std::vector<int64_t>(tokens_.size(), kNormal));
    check(types_.size() == tokens_.size(), where_, ": ", kTypesKey, " has ", types_.size(),
          " entries, and there are ", tokens_.size(), " tokens");
    std::unordered_map<std::string_view, size_t> number;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const int64_t type = types_[i];
      check(type >= kNormal && type <= kUnused, where_, ": token ", i, ", '",
            core::cut_text(tokens_[i]), "', has type ", type,
            type == kByteToken ? ", a byte, which vocabularies of bytes do not have"
                               : "; 1 to 5 are known");
      if (type == kUnused) continue;  // a number without a token
      const auto [other, fresh] = number.emplace(tokens_[i], i);
      check(fresh, where_, ": tokens ", other->second, " and ", i, " are both '",
            core::cut_text(tokens_[i]), "'");
    }
  }

  // The token of a key that holds its number; null where there is none.
  JSON text_of(const GGUFReader& file, const char* key) const {
    const auto id = file.integer(key);
    if (!id) return nullptr;
    check(*id >= 0 && *id < static_cast<int64_t>(tokens_.size()), where_, ": ", key, " is ", *id,
          ", and there are ", tokens_.size(), " tokens");
    return tokens_[static_cast<size_t>(*id)];
  }
  JSON vocab() const {
    JSON all = JSON::object();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] != kUnused) all[tokens_[i]] = i;
    }
    return all;
  }
  JSON added() const {
    JSON list = JSON::array();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] == kNormal || types_[i] == kUnused) continue;
      list.push_back({{"id", i},
                      {"content", tokens_[i]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", types_[i] != kUserDefined}});
    }
    return list;
  }

 private:
  std::string where_;
  std::vector<std::string> tokens_;
  std::vector<int64_t> types_;
};

// A post-processor that puts the tokens of these keys around a text, if the file asks for it.
JSON around(const GGUFReader& file, const Vocabulary& vocabulary, bool begins,
            const std::string& where) {
  JSON single = JSON::array(), special = JSON::object();
  const auto part = [&](const char* kind, const JSON& id) {
    single.push_back(JSON::object({{kind, JSON::object({{"id", id}, {"type_id", 0}})}}));
  };
  const auto put = [&](const char* key) {
    const JSON text = vocabulary.text_of(file, key);
    check(!text.is_null(), where, " has no ", key, ", and puts this token around each text");
    part("SpecialToken", text);
    special[text.text()] = JSON::object({{"id", text},
                                         {"ids", JSON::array({*file.integer(key)})},
                                         {"tokens", JSON::array({text})}});
  };
  if (file.flag("tokenizer.ggml.add_bos_token").value_or(begins)) {
    put("tokenizer.ggml.bos_token_id");
  }
  part("Sequence", "A");
  if (file.flag("tokenizer.ggml.add_eos_token").value_or(false)) {
    put("tokenizer.ggml.eos_token_id");
  }
  if (single.size() == 1) return nullptr;
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", JSON::array()},
          {"special_tokens", special}};
}

}  // namespace

BPETokenizer BPETokenizer::load_gguf(const std::string& path) {
  return with_file_errors("bpe", path, [&] {
    const GGUFReader file(path);
    const std::string where = "bpe: " + path;
    const auto kind = file.text(kModelKey);
    check(kind.has_value(), where, " has no tokenizer: ", kModelKey, " is missing");
    check(*kind == "gpt2", where, ": ", kModelKey, " is '", core::cut_text(*kind),
          "'; only gpt2 is known, which is byte-pair encoding on bytes");
    const auto name = file.text(kPatternKey);
    check(name.has_value(), where, " does not say how it cuts texts: ", kPatternKey,
          " is missing; convert the model with a current llama.cpp");
    check(!file.flag("tokenizer.ggml.add_space_prefix").value_or(false), where,
          ": tokenizer.ggml.add_space_prefix is true, which is not known here");
    const NamedPattern pattern = pattern_of(*name, where);
    const Vocabulary vocabulary(file, where);
    const auto merges = file.texts(kMergesKey);
    check(merges.has_value(), where, " has no merges: ", kMergesKey);
    const JSON document = {{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", vocabulary.added()},
                           {"normalizer", pattern.nfc ? JSON::object({{"type", "NFC"}}) : JSON()},
                           {"pre_tokenizer", pattern.pre_tokenizer},
                           {"post_processor", around(file, vocabulary, pattern.begins, where)},
                           {"decoder", byte_level(true)},
                           {"model",
                            {{"type", "BPE"},
                             {"dropout", nullptr},
                             // a byte without a token is refused: the unknown token of these files
                             // is a special one, which no text may control
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", pattern.ignore_merges},
                             {"vocab", vocabulary.vocab()},
                             {"merges", *merges}}}};
    return parse(core::json_dump(document, where.c_str()), path);
  });
}

BPETokenizer BPETokenizer::from_pretrained(const std::string& path) {
  if (!is_folder(path)) return load_gguf(path);
  const std::string file = path + "/tokenizer.json";
  check(path_exists(file), "bpe: ", path,
        " has no tokenizer.json; tokenizers of other forms become one by save_pretrained() of "
        "transformers");
  return load(file);
}

}  // namespace hero::nn::data
