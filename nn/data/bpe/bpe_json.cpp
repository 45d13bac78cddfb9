#include <algorithm>
#include <string_view>

#include <hero/core/error.h>
#include <hero/core/json/json.h>
#include <hero/nn/data/bpe/bpe_json.h>

namespace hero::nn::data {
namespace {

using core::JSON;
using core::shown;

const JSON kNull;

// The member of an object with this name; a JSON null if there is none.
const JSON& member(const JSON& object, const char* name) {
  const JSON* found = object.find(name);
  return found == nullptr ? kNull : *found;
}

bool flag(const JSON& object, const char* name, const std::string& where) {
  const JSON& value = member(object, name);
  check(value.is_boolean(), "bpe: ", where, " has ", name, " ", shown(value),
        ", expected true or false");
  return value.boolean();
}

const std::string& type_of(const JSON& section, const std::string& where, const char* known) {
  const JSON& type = member(section, "type");
  check(type.is_string(), "bpe: ", where, " is ", shown(section), ", only ", known, " is known");
  return type.text();
}

[[noreturn]] void unknown_type(const std::string& type, const std::string& where,
                               const char* known) {
  fail("bpe: ", where, " has type ", shown(JSON(type)), ", only ", known, " is known");
}

const JSON& list(const JSON& section, const char* name, const std::string& where) {
  const JSON& value = member(section, name);
  check(value.is_array(), "bpe: ", where, " has ", name, " ", shown(value), ", expected a list");
  return value;
}

void require_nothing(const JSON& section, const char* name, const std::string& where) {
  const JSON& value = member(section, name);
  check(value.is_null(), "bpe: ", where, " has ", name, " ", shown(value), ", only null is known");
}

// Fields of ByteLevel, which stands in three sections; only two of them change tokens, and those
// only in the pre-tokenizer.
BPEStep read_byte_level(const JSON& section, const std::string& where) {
  bpe_fields(section, where, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  flag(section, "trim_offsets", where);
  const bool split = !section.contains("use_regex") || flag(section, "use_regex", where);
  return {split ? BPEPattern::gpt2 : BPEPattern::whole, flag(section, "add_prefix_space", where)};
}

bool read_normalizer(const JSON& section, const std::string& where) {
  constexpr const char* kKnown = "NFC";
  if (section.is_null()) return false;
  const std::string& type = type_of(section, where, kKnown);
  if (type == "NFC") {
    bpe_fields(section, where, {"type"});
    return true;
  }
  if (type != "Sequence") unknown_type(type, where, kKnown);
  bpe_fields(section, where, {"type", "normalizers"});
  bool nfc = false;
  for (const JSON& one : list(section, "normalizers", where)) {
    nfc = read_normalizer(one, where) || nfc;
  }
  return nfc;
}

BPEPattern read_split(const JSON& section, const std::string& where) {
  bpe_fields(section, where, {"type", "pattern", "behavior", "invert"});
  const JSON &pattern = member(section, "pattern"), &behavior = member(section, "behavior");
  // The patterns match all of a text, so what is left between matches is nothing.
  const bool invert = flag(section, "invert", where);
  check(behavior == "Isolated" ? !invert : behavior == "Removed" && invert, "bpe: ", where,
        " has a Split with behavior ", shown(behavior), " and invert ", invert,
        ", only \"Isolated\" and false is known");
  const JSON& regex = pattern.is_object() ? member(pattern, "Regex") : pattern;
  if (pattern.is_object()) bpe_fields(pattern, where + ": pattern", {"Regex", "String"});
  if (regex == kGPT2Pattern) return BPEPattern::gpt2;
  if (regex == kLlama3Pattern) return BPEPattern::llama3;
  if (regex == kQwen2Pattern) return BPEPattern::qwen2;
  fail("bpe: ", where, " has a Split by ", shown(pattern),
       ", only the patterns of GPT-2, Llama 3 and Qwen2 are known");
}

// Adds the steps of a pre-tokenizer; true where it ends with bytes.
bool read_pre_tokenizer(const JSON& section, const std::string& where,
                        std::vector<BPEStep>& steps) {
  constexpr const char* kKnown = "ByteLevel, alone or after Split and Digits,";
  const std::string& type = type_of(section, where, kKnown);
  if (type == "ByteLevel") {
    steps.push_back(read_byte_level(section, where));
    return true;
  }
  if (type == "Split") {
    steps.push_back({read_split(section, where), false});
  } else if (type == "Digits") {
    bpe_fields(section, where, {"type", "individual_digits"});
    const bool single = flag(section, "individual_digits", where);
    steps.push_back({single ? BPEPattern::single_digits : BPEPattern::digits, false});
  } else if (type == "Sequence") {
    bpe_fields(section, where, {"type", "pretokenizers"});
    bool bytes = false;
    for (const JSON& one : list(section, "pretokenizers", where)) {
      check(!bytes, "bpe: ", where, " has a step after ByteLevel: ", shown(one));
      bytes = read_pre_tokenizer(one, where, steps);
    }
    return bytes;
  } else {
    unknown_type(type, where, kKnown);
  }
  return false;
}

// "sep" and "cls" of the older post-processors: a token's text and its number.
int64_t token_number(const JSON& section, const char* name, const std::string& where) {
  const JSON& value = member(section, name);
  check(value.is_array() && value.size() == 2 && value[1].is_unsigned(), "bpe: ", where, " has ",
        name, " ", shown(value), ", expected a text and a number");
  return core::json_integer<int32_t>(value[1], where + ": " + name);
}

// Numbers that stand before and behind the text in a template.
void read_template(const JSON& section, const std::string& where, BPEModel& model) {
  bpe_fields(section, where, {"type", "single", "pair", "special_tokens"});
  const JSON& tokens = member(section, "special_tokens");
  std::vector<int64_t> before, after;
  int texts = 0;
  for (const JSON& piece : list(section, "single", where)) {
    const bool single = piece.is_object() && piece.size() == 1;
    const bool is_text = single && piece.contains("Sequence");
    check(is_text || (single && piece.contains("SpecialToken")), "bpe: ", where,
          ": single has the part ", shown(piece), ", expected a SpecialToken or a Sequence");
    const JSON& part = piece.members().begin()->second;
    check(part.is_object() && member(part, "id").is_string(), "bpe: ", where,
          ": single has the part ", shown(piece), " without an id");
    bpe_fields(part, where + ": single", {"id", "type_id"});
    const std::string& id = part["id"].text();
    if (is_text) {
      check(id == "A" && ++texts == 1, "bpe: ", where,
            ": single must have the text \"A\" once, not ", shown(piece));
      continue;
    }
    const JSON& token = tokens.is_object() ? member(tokens, id.c_str()) : tokens;
    check(token.is_object() && member(token, "ids").is_array(), "bpe: ", where,
          ": special_tokens has no ids of ", shown(part["id"]));
    bpe_fields(token, where + ": special_tokens", {"id", "ids", "tokens"});
    for (const JSON& one : token["ids"]) {
      (texts == 0 ? before : after).push_back(core::json_integer<int32_t>(one, where + ": an id"));
    }
  }
  check(texts == 1, "bpe: ", where, ": single has no text \"A\"");
  model.before.insert(model.before.begin(), before.begin(), before.end());
  model.after.insert(model.after.end(), after.begin(), after.end());
}

void read_post_processor(const JSON& section, const std::string& where, BPEModel& model) {
  constexpr const char* kKnown =
      "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing or a Sequence of them";
  if (section.is_null()) return;
  const std::string& type = type_of(section, where, kKnown);
  if (type == "ByteLevel") {
    read_byte_level(section, where);
  } else if (type == "TemplateProcessing") {
    read_template(section, where, model);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    bpe_fields(section, where, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    model.before.insert(model.before.begin(), token_number(section, "cls", where));
    model.after.push_back(token_number(section, "sep", where));
  } else if (type == "Sequence") {
    bpe_fields(section, where, {"type", "processors"});
    for (const JSON& one : list(section, "processors", where)) {
      read_post_processor(one, where, model);
    }
  } else {
    unknown_type(type, where, kKnown);
  }
}

void read_model(const JSON& section, BPEModel& model, const std::string& label) {
  const std::string where = label + ": model";
  bpe_fields(section, where,
             {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
              "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  // The first files of the format have no type.
  const JSON& type = section.contains("type") ? section["type"] : JSON("BPE");
  check(type == "BPE", "bpe: ", label, " has type ", shown(type), ", only \"BPE\" is known");
  if (member(section, "dropout") != 0.0) require_nothing(section, "dropout", where);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (member(section, name) != "") require_nothing(section, name, where);
  }
  const auto given = [&](const char* name) {
    return section.contains(name) && flag(section, name, where);
  };
  given("byte_fallback");  // whether it matters is known with the vocabulary
  model.fuse_unknown = given("fuse_unk");
  model.ignore_merges = given("ignore_merges");
  const JSON& unknown = member(section, "unk_token");
  check(unknown.is_null() || unknown.is_string(), "bpe: ", where, " has unk_token ", shown(unknown),
        ", expected a text");
  model.unk_token = unknown.dump();
}

}  // namespace

void bpe_fields(const JSON& object, const std::string& where,
                std::initializer_list<const char*> known) {
  for (const auto& [name, value] : object.members()) {
    const bool found = std::find(known.begin(), known.end(), std::string_view(name)) != known.end();
    check(found, "bpe: ", where, " has the field ", shown(JSON(name)), ": ", shown(value),
          ", which is not known");
  }
}

void bpe_read_settings(const JSON& document, BPEModel& model, const std::string& label) {
  bpe_fields(document, label,
             {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
              "post_processor", "decoder", "model"});
  check(!document.contains("version") || document["version"] == "1.0", "bpe: ", label,
        " has version ", shown(member(document, "version")), ", only \"1.0\" is known");
  require_nothing(document, "truncation", label);
  require_nothing(document, "padding", label);
  read_model(member(document, "model"), model, label);
  model.normalizer = member(document, "normalizer").dump();
  model.nfc = read_normalizer(member(document, "normalizer"), label + ": normalizer");
  const JSON& splitter = member(document, "pre_tokenizer");
  model.pre_tokenizer = splitter.dump();
  model.steps.clear();
  const std::string where = label + ": pre_tokenizer";
  check(read_pre_tokenizer(splitter, where, model.steps), "bpe: ", where, " is ", shown(splitter),
        ", which does not end with ByteLevel; only vocabularies of bytes are known");
  model.post_processor = member(document, "post_processor").dump();
  read_post_processor(member(document, "post_processor"), label + ": post_processor", model);
  const JSON& decoder = member(document, "decoder");
  const std::string& type = type_of(decoder, label + ": decoder", "ByteLevel");
  if (type != "ByteLevel") unknown_type(type, label + ": decoder", "ByteLevel");
  read_byte_level(decoder, label + ": decoder");
  model.decoder = decoder.dump();
}

void bpe_read_added(const JSON& added, BPENumbers& numbers, BPEModel& model,
                    const std::string& label) {
  check(added.is_array(), "bpe: ", label, ": added_tokens is not a list");
  const auto vocabulary = static_cast<int64_t>(numbers.size());
  std::unordered_map<int32_t, std::string_view> text_of;
  for (const auto& [text, number] : numbers) text_of.emplace(number, text);
  int64_t last = -1;  // the largest number of those read so far
  for (const JSON& one : added) {
    check(one.is_object() && member(one, "content").is_string() && member(one, "id").is_unsigned(),
          "bpe: ", label, " has an added token without content and id");
    const auto text = one["content"].text();
    const std::string where = label + ": the added token '" + text + "'";
    bpe_fields(one, where,
               {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    const auto found = numbers.find(text);
    const bool known = found != numbers.end();
    const int64_t expected = known ? found->second : last >= vocabulary ? last + 1 : vocabulary;
    check(one["id"].whole() == static_cast<uint64_t>(expected), "bpe: ", where, " has number ",
          one["id"].whole(), ", expected ", expected);
    const auto number = static_cast<int32_t>(expected);
    if (!known) {
      const auto place = numbers.emplace(text, number).first;
      const auto [other, fresh] = text_of.emplace(number, place->first);
      check(fresh, "bpe: ", where, " has number ", number, ", which is that of '", other->second,
            "', too");
    }
    last = std::max(last, expected);
    model.added.push_back({.token = number,
                           .text = text,
                           .found = {},
                           .single_word = flag(one, "single_word", where),
                           .lstrip = flag(one, "lstrip", where),
                           .rstrip = flag(one, "rstrip", where),
                           .normalized = flag(one, "normalized", where),
                           .special = flag(one, "special", where),
                           .in_vocabulary = known});
  }
  std::sort(model.added.begin(), model.added.end(),
            [](const auto& left, const auto& right) { return left.token < right.token; });
}

}  // namespace hero::nn::data
