#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/data/bpe.h>
#include <hero/nn/data/bpe/bpe_bytes.h>
#include <hero/nn/data/bpe/bpe_json.h>
#include <hero/nn/data/bpe_model.h>
#include <hero/nn/data/bytes.h>
#include <hero/nn/data/utf8.h>

namespace hero::nn::data {
namespace {

using core::JSON;
using core::shown;

std::string quoted(const std::string& text) { return core::json_dump(JSON(text), "save"); }

JSON parse_object(std::string_view text, const std::string& label) {
  JSON document = core::parse_json(text, "bpe", label);
  check(document.is_object(), "bpe: ", label, " is not a JSON object");
  return document;
}

// Numbers of a vocabulary, each at most once. There may be some that no token has, though not so
// many that a small file takes much memory.
BPENumbers read_vocabulary(const JSON& vocab, const std::string& label) {
  check(vocab.is_object(), "bpe: ", label, " has no vocabulary");
  const uint64_t most = 16 * vocab.size() + 1024;
  BPENumbers number;
  std::unordered_map<int32_t, std::string_view> seen;
  for (const auto& [text, value] : vocab.members()) {
    check(value.is_unsigned() && value.whole() < most, "bpe: ", label, ": the number of token '",
          core::cut_text(text), "' is ", shown(value), ", not in [0, ", most,
          "), where the numbers of ", vocab.size(), " tokens should lie");
    const auto token = static_cast<int32_t>(value.whole());
    check(seen.emplace(token, text).second, "bpe: ", label, " has two tokens with number ", token);
    number.emplace(text, token);
  }
  return number;
}

BPEMerge make_merge(const std::string& left, const std::string& right, const BPENumbers& number,
                    const std::string& where) {
  const auto find = [&](const std::string& text) {
    const auto found = number.find(text);
    check(found != number.end(), "bpe: ", where, ": the token '", core::cut_text(text),
          "' is not in the vocabulary");
    return found->second;
  };
  return {find(left), find(right), find(left + right)};
}

// "left right", with one space between them.
BPEMerge split_merge(std::string_view line, const BPENumbers& number, const std::string& where) {
  const size_t space = line.find(' ');
  check(space != line.npos && space > 0 && space + 1 < line.size() &&
            line.find(' ', space + 1) == line.npos,
        "bpe: ", where, " is not two tokens: '", core::cut_text(line), "'");
  return make_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), number,
                    where);
}

// Texts become bytes, but for added tokens, which are what they are.
void fill_tokens(BPEModel& model, const BPENumbers& number, const std::string& label) {
  int32_t last = -1;
  for (const auto& [text, token] : number) last = std::max(last, token);
  model.tokens.resize(static_cast<size_t>(last) + 1);
  std::vector<bool> filled(model.tokens.size()), added(model.tokens.size());
  for (const BPEAddedToken& one : model.added) added[static_cast<size_t>(one.token)] = true;
  for (const auto& [text, token] : number) {
    std::string& bytes = model.tokens[static_cast<size_t>(token)];
    filled[static_cast<size_t>(token)] = true;
    if (added[static_cast<size_t>(token)]) {
      bytes = text;
    } else {
      check(bpe_bytes(text, bytes), "bpe: ", label, ": the token '", text,
            "' has a character that stands for no byte; it is not a byte-level vocabulary");
    }
  }
  if (number.size() < filled.size()) {
    filled.flip();
    model.missing = std::move(filled);
  }
}

std::string vocabulary_text(const BPEModel& model, bool with_added) {
  std::string text = "{";
  size_t next = 0;  // of the added tokens
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const bool added =
        next < model.added.size() && model.added[next].token == static_cast<int32_t>(i);
    const bool listed = with_added || !added || model.added[next].in_vocabulary;
    next += added ? 1 : 0;
    if (!listed || !model.has(static_cast<int64_t>(i))) continue;
    if (text.size() > 1) text += ',';
    text += quoted(added ? model.tokens[i] : bpe_text(model.tokens[i])) + ":" + std::to_string(i);
  }
  return text + "}";
}

std::string merge_text(const BPEModel& model, const BPEMerge& merge) {
  const auto text_of = [&](int32_t token) {
    const std::string& bytes = model.tokens[static_cast<size_t>(token)];
    for (const BPEAddedToken& one : model.added) {
      if (one.token == token) return bytes;
    }
    return bpe_text(bytes);
  };
  return text_of(merge.left) + " " + text_of(merge.right);
}

void write(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

const char* word(bool value) { return value ? "true" : "false"; }

// That GPT-2's pair of files, which have no place for settings, tells all about a tokenizer.
void check_gpt2(const BPEModel& model, const std::string& path) {
  const bool plain = model.steps.size() == 1 && model.steps[0].pattern == BPEPattern::gpt2 &&
                     !model.steps[0].prefix_space && !model.nfc && !model.ignore_merges &&
                     model.unk_token == "null" && model.before.empty() && model.after.empty();
  const bool added =
      std::all_of(model.added.begin(), model.added.end(), [&](const BPEAddedToken& one) {
        return one.special && !one.single_word && !one.lstrip && !one.rstrip &&
               one.normalized == model.added[0].normalized;
      });
  check(plain && added, "bpe: ", path, ": GPT-2's files cannot hold ",
        plain ? "how added tokens are found" : "the settings",
        " of this tokenizer, use save() for a tokenizer.json");
}

}  // namespace

void BPETokenizer::save(const std::string& path) const {
  const BPEModel& model = *model_;
  JSON added = JSON::array();
  for (const BPEAddedToken& one : model.added) {
    added.push_back({{"id", one.token},
                     {"content", one.text},
                     {"single_word", one.single_word},
                     {"lstrip", one.lstrip},
                     {"rstrip", one.rstrip},
                     {"normalized", one.normalized},
                     {"special", one.special}});
  }
  std::string text = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)";
  text += core::json_dump(added, "save") + R"(,"normalizer":)" + model.normalizer;
  text += R"(,"pre_tokenizer":)" + model.pre_tokenizer;
  text += R"(,"post_processor":)" + model.post_processor + R"(,"decoder":)" + model.decoder;
  text += R"(,"model":{"type":"BPE","dropout":null,"unk_token":)" + model.unk_token;
  text += R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":)";
  text += std::string(word(model.fuse_unknown)) + R"(,"byte_fallback":false,"ignore_merges":)";
  text += std::string(word(model.ignore_merges)) + R"(,"vocab":)";
  text += vocabulary_text(model, false) + R"(,"merges":[)";
  for (size_t i = 0; i < model.merges.size(); ++i) {
    if (i > 0) text += ',';
    text += quoted(merge_text(model, model.merges[i]));
  }
  write(path, text + "]}}\n");
}

void BPETokenizer::save_gpt2(const std::string& encoder_json, const std::string& vocab_bpe) const {
  check_gpt2(*model_, encoder_json);
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
  const JSON document = parse_object(text, label);
  const JSON model_part = document.value("model", JSON());
  check(model_part.is_object(), "bpe: ", label, " has no model");
  auto model = std::make_shared<BPEModel>();
  bpe_read_settings(document, *model, label);
  BPENumbers number = read_vocabulary(model_part.value("vocab", JSON()), label);
  const JSON merges = model_part.value("merges", JSON());
  check(merges.is_array(), "bpe: ", label, " has no merges");
  for (const JSON& one : merges) {
    const std::string where = label + ": merge " + std::to_string(model->merges.size());
    const bool two = one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string();
    check(two || one.is_string(), "bpe: ", where, " is not two tokens: ", shown(one));
    model->merges.push_back(two ? make_merge(one[0].text(), one[1].text(), number, where)
                                : split_merge(one.text(), number, where));
  }
  if (const JSON unknown = model_part.value("unk_token", JSON()); unknown.is_string()) {
    const auto found = number.find(unknown.text());
    if (found != number.end()) model->unknown = found->second;
  }
  bpe_read_added(document.value("added_tokens", JSON::array()), number, *model, label);
  fill_tokens(*model, number, label);
  model->finish(label);
  const bool complete = std::all_of(model->byte_tokens.begin(), model->byte_tokens.end(),
                                    [](int32_t token) { return token >= 0; });
  check(complete || model_part.value("byte_fallback", false) == false, "bpe: ", label,
        " has byte_fallback true, which is only known where every byte has a token");
  for (const auto& ids : {model->before, model->after}) {
    for (const int64_t id : ids) {
      check(model->has(id), "bpe: ", label, ": post_processor adds the token ", id,
            ", which there is not");
    }
  }
  return BPETokenizer(std::move(model));
}

BPETokenizer BPETokenizer::parse_gpt2(std::string_view encoder, std::string_view merges,
                                      const std::string& label) {
  auto model = std::make_shared<BPEModel>();
  const BPENumbers number = read_vocabulary(parse_object(encoder, label), label);
  std::unordered_set<int32_t> made;
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
    made.insert(merge.result);
    model->merges.push_back(merge);
  }
  for (const auto& [text, token] : number) {
    const bool byte = code_point_at(text + '\0', 0).length == text.size();
    if (!byte && !made.contains(token)) model->added.push_back({.token = token, .text = text});
  }
  std::sort(model->added.begin(), model->added.end(),
            [](const auto& left, const auto& right) { return left.token < right.token; });
  // Special tokens behind all others need no place in the vocabulary of a tokenizer.json.
  const size_t plain = number.size() - model->added.size();
  const bool last = model->added.empty() || model->added[0].token == static_cast<int32_t>(plain);
  for (BPEAddedToken& one : model->added) one.in_vocabulary = !last;
  fill_tokens(*model, number, label);
  model->finish(label);
  return BPETokenizer(std::move(model));
}

}  // namespace hero::nn::data
