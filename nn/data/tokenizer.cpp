#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/tokenizer.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

using core::JSON;

// JSON holds UTF-8 only: a lone byte is written as <0xNN>, five characters more than any other
// entry has.
std::string to_json_text(const std::string& character) {
  if (code_point_at(character, 0).value != kInvalidCodePoint) return character;
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>",
                static_cast<unsigned>(static_cast<unsigned char>(character[0])));
  return text;
}

std::string from_json_text(const std::string& text, const std::string& path) {
  unsigned byte = 0;
  if (text.size() == 6 && std::sscanf(text.c_str(), "<0x%02X>", &byte) == 1) {
    return {static_cast<char>(byte)};
  }
  check(!text.empty() && code_point_at(text, 0).length == text.size(), "char_tokenizer: ", path,
        " has an entry that is not one character: '", core::cut_text(text), "'");
  return text;
}

}  // namespace

std::string Tokenizer::decode(const Tensor& tokens) const {
  check(tokens.defined() && !is_floating(tokens.dtype()) && tokens.dtype() != kBool,
        "decode: tokens must be an integer tensor");
  return decode(std::span<const int64_t>(tokens.to_vector<int64_t>()));
}

CharTokenizer::CharTokenizer(std::vector<std::string> characters)
    : characters_(std::move(characters)) {}

CharTokenizer::CharTokenizer(std::string_view text) {
  // ASCII by a flag each, the rest collected and sorted.
  std::array<bool, 128> seen{};
  std::vector<std::string_view> wide;
  std::unordered_map<std::string_view, bool> known;
  for (size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, one.length);
    if (one.value < seen.size()) {
      seen[one.value] = true;
    } else if (known.emplace(bytes, true).second) {
      wide.push_back(bytes);
    }
    at += one.length;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) characters_.emplace_back(1, static_cast<char>(i));
  }
  std::sort(wide.begin(), wide.end());  // UTF-8 sorts as its code points do
  characters_.insert(characters_.end(), wide.begin(), wide.end());
}

std::vector<int64_t> CharTokenizer::encode(std::string_view text) const {
  std::array<int64_t, 128> ascii;
  ascii.fill(-1);
  std::unordered_map<std::string_view, int64_t> wide;
  for (size_t i = 0; i < characters_.size(); ++i) {
    const std::string& one = characters_[i];
    const auto first = static_cast<unsigned char>(one[0]);
    if (first < ascii.size()) {
      ascii[first] = static_cast<int64_t>(i);
    } else {
      wide.emplace(one, static_cast<int64_t>(i));
    }
  }
  std::vector<int64_t> tokens;
  tokens.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint one = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, one.length);
    int64_t token = -1;
    if (one.value < ascii.size()) {
      token = ascii[one.value];
    } else if (const auto found = wide.find(bytes); found != wide.end()) {
      token = found->second;
    }
    check(token >= 0, "char_tokenizer: the character '", to_json_text(std::string(bytes)),
          "' at byte ", at, " is not in the vocabulary of ", vocab_size());
    tokens.push_back(token);
    at += one.length;
  }
  return tokens;
}

std::string CharTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    check(token >= 0 && token < vocab_size(), "decode: there is no token ", token,
          ", the vocabulary has ", vocab_size());
    text += characters_[static_cast<size_t>(token)];
  }
  return text;
}

void CharTokenizer::save(const std::string& path) const {
  JSON characters = JSON::array();
  for (const std::string& one : characters_) characters.push_back(to_json_text(one));
  OutputFile file(path);
  file.write(JSON{{"type", "characters"}, {"characters", characters}}.dump() + "\n");
  file.commit();
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  return with_file_errors("char_tokenizer", path, [&] { return parse(read_text(path), path); });
}

CharTokenizer CharTokenizer::parse(std::string_view text, const std::string& path) {
  JSON document;
  try {
    document = core::parse_json(text, "char_tokenizer", path);
  } catch (const Error& error) {
    fail(error.what(), "; it is not a file that CharTokenizer::save wrote");
  }
  check(document.is_object() && document.value("type", JSON()) == "characters" &&
            document.contains("characters") && document["characters"].is_array(),
        "char_tokenizer: ", path, " is not a file that CharTokenizer::save wrote");
  std::vector<std::string> characters;
  for (const JSON& one : document["characters"]) {
    check(one.is_string(), "char_tokenizer: ", path, " has an entry that is not a string");
    characters.push_back(from_json_text(one.text(), path));
  }
  std::vector<std::string> sorted = characters;
  std::sort(sorted.begin(), sorted.end());
  check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "char_tokenizer: ", path,
        " has a character twice");
  return CharTokenizer(std::move(characters));
}

}  // namespace hero::nn::data
