#include <algorithm>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/json/reader.h>
#include <hero/core/threads/at_fork.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

using core::shown;
using nlohmann::json;
using Number = std::unordered_map<std::string, int32_t>;  // of a token, by its text in the file

// [note: bytes in JSON]
// JSON holds text, tokens are bytes. GPT-2 writes each byte as a character that prints: itself
// where it prints, else the next of U+0100, U+0101, ...
struct ByteText {
  std::string of_byte[256];
  std::unordered_map<uint32_t, char> byte_of;

  ByteText() {
    uint32_t next = 0x100;
    for (const uint8_t byte : bpe_byte_order()) {
      const bool prints = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      const uint32_t code = prints ? byte : next++;
      std::string& text = of_byte[byte];
      if (code < 0x80) {
        text.push_back(static_cast<char>(code));
      } else {
        text.push_back(static_cast<char>(0xc0 | code >> 6));
        text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
      }
      byte_of[code] = static_cast<char>(byte);
    }
  }
};

const ByteText& byte_text() {
  static const ByteText table;
  return table;
}
[[maybe_unused]] const bool kByteTextAtFork =
    core::at_fork([] { byte_text(); });  // see [note: forks]

std::string to_text(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += byte_text().of_byte[static_cast<unsigned char>(byte)];
  return text;
}

// The bytes that a text stands for; false when it has a character that stands for none.
bool to_bytes(std::string_view text, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    const auto found = byte_text().byte_of.find(one.value);
    if (found == byte_text().byte_of.end()) return false;
    bytes += found->second;
    at += one.length;
  }
  return true;
}

std::string quoted(const std::string& text) { return json(text).dump(); }

json parse_object(std::string_view text, const std::string& label) {
  json document = core::parse_json(text, "bpe", label);
  check(document.is_object(), "bpe: ", label, " is not a JSON object");
  return document;
}

// Numbers of a vocabulary: each from 0 to size - 1 exactly once.
Number read_vocabulary(const json& vocab, const std::string& label) {
  check(vocab.is_object(), "bpe: ", label, " has no vocabulary");
  Number number;
  std::vector<bool> seen(vocab.size());
  for (const auto& [text, value] : vocab.items()) {
    check(value.is_number_unsigned() && value.get<uint64_t>() < vocab.size(), "bpe: ", label,
          ": the number of token '", text, "' is ", shown(value), ", not in [0, ", vocab.size(),
          ")");
    const auto token = value.get<int32_t>();
    check(!seen[static_cast<size_t>(token)], "bpe: ", label, " has two tokens with number ", token);
    seen[static_cast<size_t>(token)] = true;
    number.emplace(text, token);
  }
  return number;
}

BPEMerge make_merge(const std::string& left, const std::string& right, const Number& number,
                    const std::string& where) {
  const auto find = [&](const std::string& text) {
    const auto found = number.find(text);
    check(found != number.end(), "bpe: ", where, ": the token '", text,
          "' is not in the vocabulary");
    return found->second;
  };
  return {find(left), find(right), find(left + right)};
}

// "left right", with one space between them.
BPEMerge split_merge(std::string_view line, const Number& number, const std::string& where) {
  const size_t space = line.find(' ');
  check(space != line.npos && space > 0 && space + 1 < line.size() &&
            line.find(' ', space + 1) == line.npos,
        "bpe: ", where, " is not two tokens: '", line, "'");
  return make_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), number,
                    where);
}

// Texts become bytes, but for special tokens, which are what they are.
void fill_tokens(BPEModel& model, const Number& number, const std::string& label) {
  model.tokens.resize(number.size());
  for (const auto& [text, token] : number) {
    std::string& bytes = model.tokens[static_cast<size_t>(token)];
    const bool special = std::binary_search(model.specials.begin(), model.specials.end(), token);
    if (special) {
      bytes = text;
    } else {
      check(to_bytes(text, bytes), "bpe: ", label, ": the token '", text,
            "' has a character that stands for no byte; it is not a byte-level vocabulary");
    }
  }
}

void require(const json& document, const char* part, const json& expected,
             const std::string& label) {
  const json found = document.contains(part) ? document[part] : json();
  check(found == expected, "bpe: ", label, " has ", part, " ", shown(found), ", only ",
        shown(expected), " is known");
}

// That the file asks for nothing that this tokenizer does not do.
void check_kind(const json& document, const json& model, const std::string& label) {
  require(model, "type", "BPE", label);
  require(document, "normalizer", nullptr, label);
  for (const char* part : {"dropout", "unk_token"}) require(model, part, nullptr, label);
  for (const char* part : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.value(part, json()) != "") require(model, part, nullptr, label);
  }
  for (const char* part : {"byte_fallback", "ignore_merges"}) {
    if (model.contains(part)) require(model, part, false, label);
  }
  const json splitter = document.value("pre_tokenizer", json());
  check(splitter.is_object() && splitter.value("type", json()) == "ByteLevel" &&
            splitter.value("add_prefix_space", json()) == false &&
            splitter.value("use_regex", json(true)) == true,
        "bpe: ", label, " has pre_tokenizer ", shown(splitter),
        ", only ByteLevel without a prefix space, with GPT-2's pattern, is known");
}

// Special tokens that the vocabulary lacks follow it in the order of their numbers.
void read_added(const json& added, Number& number, BPEModel& model, const std::string& label) {
  check(added.is_array(), "bpe: ", label, ": added_tokens is not a list");
  for (const json& one : added) {
    check(one.is_object() && one.value("content", json()).is_string() &&
              one.value("id", json()).is_number_unsigned(),
          "bpe: ", label, " has an added token without content and id");
    const auto text = one["content"].get<std::string>();
    const auto id = one["id"].get<uint64_t>();
    const auto [place, fresh] = number.emplace(text, static_cast<int32_t>(number.size()));
    check(id == static_cast<uint64_t>(place->second), "bpe: ", label, ": the added token '", text,
          "' has number ", id, ", expected ", place->second);
    model.specials.push_back(place->second);
  }
  std::sort(model.specials.begin(), model.specials.end());
}

std::string vocabulary_text(const BPEModel& model, bool with_specials) {
  std::string text = "{";
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const bool special =
        std::binary_search(model.specials.begin(), model.specials.end(), static_cast<int32_t>(i));
    if (special && !with_specials) continue;
    if (text.size() > 1) text += ',';
    text += quoted(special ? model.tokens[i] : to_text(model.tokens[i])) + ":" + std::to_string(i);
  }
  return text + "}";
}

std::string merge_text(const BPEModel& model, const BPEMerge& merge) {
  return to_text(model.tokens[static_cast<size_t>(merge.left)]) + " " +
         to_text(model.tokens[static_cast<size_t>(merge.right)]);
}

void write(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

void BPETokenizer::save(const std::string& path) const {
  // The vocabulary must be dense without the special tokens, so those among others stay in it.
  const BPEModel& model = *model_;
  const size_t plain = model.tokens.size() - model.specials.size();
  const bool last = model.specials.empty() || model.specials[0] == static_cast<int32_t>(plain);
  json added = json::array();
  for (const int32_t token : model.specials) {
    added.push_back({{"id", token},
                     {"content", bytes(token)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const json byte_level{{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", true}};
  std::string text = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)";
  text += added.dump() + R"(,"normalizer":null,"pre_tokenizer":)" + byte_level.dump();
  text += R"(,"post_processor":null,"decoder":)" + byte_level.dump();
  text += R"(,"model":{"type":"BPE","dropout":null,"unk_token":null,)"
          R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
          R"("byte_fallback":false,"ignore_merges":false,"vocab":)";
  text += vocabulary_text(model, !last) + R"(,"merges":[)";
  for (size_t i = 0; i < model.merges.size(); ++i) {
    if (i > 0) text += ',';
    text += quoted(merge_text(model, model.merges[i]));
  }
  write(path, text + "]}}\n");
}

void BPETokenizer::save_gpt2(const std::string& encoder_json, const std::string& vocab_bpe) const {
  std::string merges = "#version: 0.2\n";
  for (const BPEMerge& merge : model_->merges) merges += merge_text(*model_, merge) + "\n";
  write(encoder_json, vocabulary_text(*model_, true) + "\n");
  write(vocab_bpe, merges);
}

BPETokenizer BPETokenizer::load(const std::string& path) {
  return with_file_errors("bpe", path, [&] { return parse(read_text(path), path); });
}

BPETokenizer BPETokenizer::load_gpt2(const std::string& encoder_json,
                                     const std::string& vocab_bpe) {
  const std::string both = encoder_json + " and " + vocab_bpe;
  return with_file_errors(
      "bpe", both, [&] { return parse_gpt2(read_text(encoder_json), read_text(vocab_bpe), both); });
}

BPETokenizer BPETokenizer::parse(std::string_view text, const std::string& label) {
  const json document = parse_object(text, label);
  const json model_part = document.value("model", json());
  check(model_part.is_object(), "bpe: ", label, " has no model");
  check_kind(document, model_part, label);
  auto model = std::make_shared<BPEModel>();
  Number number = read_vocabulary(model_part.value("vocab", json()), label);
  const json merges = model_part.value("merges", json());
  check(merges.is_array(), "bpe: ", label, " has no merges");
  for (const json& one : merges) {
    const std::string where = label + ": merge " + std::to_string(model->merges.size());
    const bool two = one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string();
    check(two || one.is_string(), "bpe: ", where, " is not two tokens: ", shown(one));
    model->merges.push_back(two ? make_merge(one[0], one[1], number, where)
                                : split_merge(one.get<std::string>(), number, where));
  }
  read_added(document.value("added_tokens", json::array()), number, *model, label);
  fill_tokens(*model, number, label);
  model->finish(label);
  return BPETokenizer(std::move(model));
}

BPETokenizer BPETokenizer::parse_gpt2(std::string_view encoder, std::string_view merges,
                                      const std::string& label) {
  auto model = std::make_shared<BPEModel>();
  const Number number = read_vocabulary(parse_object(encoder, label), label);
  std::vector<bool> made(number.size());
  int64_t line_number = 0;
  for (size_t at = 0; at < merges.size();) {
    const size_t end = std::min(merges.find('\n', at), merges.size());
    std::string_view line = merges.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const BPEMerge merge = split_merge(
        line, number, label + ": line " + std::to_string(line_number) + " of the merges");
    made[static_cast<size_t>(merge.result)] = true;
    model->merges.push_back(merge);
  }
  for (const auto& [text, token] : number) {
    const bool byte = code_point_at(text + '\0', 0).length == text.size();
    if (!byte && !made[static_cast<size_t>(token)]) model->specials.push_back(token);
  }
  std::sort(model->specials.begin(), model->specials.end());
  fill_tokens(*model, number, label);
  model->finish(label);
  return BPETokenizer(std::move(model));
}

}  // namespace hero::nn::data
