// Finds the lines of keys in the text, and reports problems.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/dist/trainer/json_keys.h>

namespace hero::dist {

using core::JSON;

namespace {

// Changes of one letter that make one word of the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearest(std::string key, const std::vector<std::string>& known) {
  key.resize(std::min<size_t>(key.size(), 100));  // no name is so long
  const auto at = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return distance(key, a) < distance(key, b);
  });
  return at == known.end() ? "" : *at;
}

// The line of every key of a document that is JSON, objects in arrays apart.
std::map<std::string, int> lines_of(std::string_view text, std::vector<std::string>& twice) {
  std::map<std::string, int> lines;
  std::vector<std::string> path;  // of the objects around; an array counts as one without a name
  std::string word, key;
  int line = 1, begun = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '"') {
      word.clear();
      begun = line;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
        word += text[std::min(i, text.size() - 1)];
      }
    } else if (c == ':') {
      key = (path.empty() || path.back().empty() ? "" : path.back() + ".") + word;
      if (!lines.emplace(key, begun).second) twice.push_back(key);
    } else if (c == '{' || c == '[') {
      path.push_back(path.empty() ? "" : key + (c == '[' ? "[]" : ""));
    } else if ((c == '}' || c == ']') && !path.empty()) {
      path.pop_back();
    }
  }
  return lines;
}

}  // namespace

JSONProblems::JSONProblems(std::string name, std::string_view text) : label(std::move(name)) {
  std::vector<std::string> twice;
  lines = lines_of(text, twice);
  for (const std::string& key : twice) add(key, "is there twice");
}

void JSONProblems::add(const std::string& path, const std::string& what) {
  const auto line = lines.find(path);
  found.push_back((line == lines.end() ? "" : "line " + std::to_string(line->second) + ": ") +
                  core::cut_text(path) + " " + what);
}

void JSONProblems::raise() const {
  core::NameList all("; ", 1000);
  for (const std::string& each : found) all.add(each);
  check(found.empty(), "config: ", label, ": ", all.text());
}

JSONSection::JSONSection(JSONProblems& problems, const JSON* object, std::string path)
    : problems_(&problems), object_(object), path_(std::move(path)) {
  if (object_ == nullptr || object_->is_object()) return;
  problems_->add(path_, "is " + core::shown(*object_) + ", not an object");
  object_ = nullptr;
}

bool JSONSection::has(const std::string& key) const {
  return object_ != nullptr && object_->contains(key);
}

const JSON* JSONSection::take(const std::string& key) {
  taken_.push_back(key);
  return object_ == nullptr ? nullptr : object_->find(key);
}

double JSONSection::number(const std::string& key, double fallback, double least) {
  const JSON* value = take(key);
  if (value == nullptr) return fallback;
  if (value->is_number() && std::isfinite(value->number()) && value->number() >= least) {
    return value->number();
  }
  problem(key,
          "is " + core::shown(*value) + ", not a number from " + core::shown(JSON(least)) + " on");
  return fallback;
}

int64_t JSONSection::integer(const std::string& key, int64_t fallback, int64_t least,
                             int64_t most) {
  const JSON* value = take(key);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->number() : -1.0;
  if (value->is_number() && number == std::floor(number) && number >= static_cast<double>(least)) {
    if (number <= static_cast<double>(most)) return static_cast<int64_t>(number);
    problem(key, "is " + core::shown(*value) + ", more than " + std::to_string(most));
    return fallback;
  }
  problem(key, "is " + core::shown(*value) + ", not a whole number from " + std::to_string(least) +
                   " on");
  return fallback;
}

int JSONSection::count(const std::string& key, int fallback) {
  return static_cast<int>(integer(key, fallback, 1, std::numeric_limits<int>::max()));
}

bool JSONSection::flag(const std::string& key, bool fallback) {
  const JSON* value = take(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->boolean();
  problem(key, "is " + core::shown(*value) + ", not true or false");
  return fallback;
}

std::string JSONSection::text(const std::string& key, const std::string& fallback,
                              std::initializer_list<std::string_view> choices) {
  const JSON* value = take(key);
  if (value == nullptr) return fallback;
  std::string list;
  for (const std::string_view choice : choices) {
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  if (value->is_string()) {
    const std::string got = value->text();
    if (choices.size() == 0 || std::find(choices.begin(), choices.end(), got) != choices.end()) {
      return got;
    }
  }
  problem(key, "is " + core::shown(*value) + "; " +
                   (list.empty() ? "it must be text" : "there are " + list));
  return fallback;
}

bool JSONSection::pair(const std::string& key, double& first, double& second) {
  const JSON* value = take(key);
  if (value == nullptr) return false;
  if (value->is_array() && value->size() == 2 && (*value)[0].is_number() &&
      (*value)[1].is_number()) {
    first = (*value)[0].number();
    second = (*value)[1].number();
    return true;
  }
  problem(key, "is " + core::shown(*value) + ", not two numbers in brackets");
  return false;
}

JSONSection JSONSection::section(const std::string& key) {
  const JSON* value = take(key);
  const bool is_off = value != nullptr && (value->is_null() || *value == JSON(false));
  return JSONSection(*problems_, is_off ? nullptr : value, at(key));
}

void JSONSection::only(const std::string& key, const std::vector<JSON>& values,
                       const std::string& why) {
  const JSON* got = take(key);
  if (got == nullptr || std::find(values.begin(), values.end(), *got) != values.end()) return;
  std::string list;
  for (const JSON& value : values) list += (list.empty() ? "" : " or ") + core::shown(value);
  problem(key, "is " + core::shown(*got) + ", only " + list + " is possible: " + why);
}

void JSONSection::any(std::initializer_list<const char*> keys) {
  for (const char* key : keys) take(key);
}

void JSONSection::any_flag(std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (has(key) && (*object_)[key].is_null()) {
      take(key);
    } else {
      flag(key, false);
    }
  }
}

void JSONSection::off(const std::string& key, const std::string& why,
                      std::initializer_list<std::string_view> known) {
  const JSON* got = take(key);
  if (got == nullptr || got->is_null() || *got == JSON(false)) return;
  if (!got->is_object()) return problem(key, "is refused: " + why);
  if (const JSON* enabled = got->find("enabled")) {
    if (*enabled != JSON(false)) problem(key, "is refused: " + why);
    return;
  }
  JSONSection inner(*problems_, got, at(key));
  inner.taken_ = {"enabled"};
  inner.taken_.insert(inner.taken_.end(), known.begin(), known.end());
  inner.finish();
}

void JSONSection::refuse(const std::string& key, const std::string& why) {
  if (take(key) != nullptr) problem(key, "is refused: " + why);
}

void JSONSection::finish() {
  if (object_ == nullptr) return;
  for (const auto& [key, value] : object_->members()) {
    if (std::find(taken_.begin(), taken_.end(), key) != taken_.end()) continue;
    problem(key, "is unknown; the nearest is '" + nearest(key, taken_) + "'");
  }
}

}  // namespace hero::dist
