#include <algorithm>

#include <hero/core/io/name_list.h>
#include <hero/core/json/reader.h>

namespace hero::core {

using nlohmann::json;

namespace {

// How deep brackets lie within brackets, up to the first that are too deep. Where the text is no
// JSON the parser stops before the count goes wrong.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size() && deepest <= kMaxJSONDepth; ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its name.
std::string reason_of(const json::exception& error) {
  const std::string_view text = error.what();
  const size_t end = text.find("] ");
  return std::string(text.substr(end == text.npos ? 0 : end + 2));
}

}  // namespace

json parse_json(std::string_view text, const char* op, const std::string& label) {
  check(depth_of(text) <= kMaxJSONDepth, op, ": ", label, " is JSON of more than ", kMaxJSONDepth,
        " brackets within brackets");
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    // which quotes what was read last, a string of any length
    fail(op, ": ", label, " is not JSON: ", cut_text(reason_of(error), 300));
  }
}

std::string shown(const json& value) {
  constexpr size_t kMost = 80;
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMost) {
    return '"' + cut_text(value.get_ref<const std::string&>(), kMost) + '"';
  }
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return cut_text(text, kMost);
}

const json& json_member(const json& value, const char* name) {
  check(value.is_object() && value.contains(name), "it has no '", name, "'");
  return *value.find(name);
}

const json& json_object(const json& value, const char* name) {
  const json& member = json_member(value, name);
  check(member.is_object(), "'", name, "' is ", shown(member), ", not an object");
  return member;
}

const std::string& json_text(const json& value, std::string_view what) {
  check(value.is_string(), what, " is ", shown(value), ", not a text");
  return value.get_ref<const std::string&>();
}

}  // namespace hero::core
