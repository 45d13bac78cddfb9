#include <algorithm>
#include <cmath>

#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/dist/plan/keys.h>

namespace hero::dist {

Keys::Keys(const core::JSON& value, std::string path, std::string label,
           std::vector<std::string>& unknown)
    : value_(&value), path_(std::move(path)), label_(std::move(label)), unknown_(&unknown) {
  check(value.is_object(), label_, ": ", path_.empty() ? "the document" : path_, " is ",
        core::shown(value), ", not an object {..}");
}

std::string Keys::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const core::JSON* Keys::find(const char* key) {
  asked_.emplace_back(key);
  return value_->find(key);
}

void Keys::refuse(const char* key, const std::string& wrong) const {
  fail(label_, ": ", path_of(key), " ", wrong);
}

double Keys::number(const char* key, const core::JSON& value) const {
  if (!value.is_number()) refuse(key, "is " + core::shown(value) + ", not a number");
  return value.number();
}

void Keys::positive(const char* key, double& value) {
  const core::JSON* member = find(key);
  if (member == nullptr) return;
  value = number(key, *member);
  if (!(value > 0.0 && std::isfinite(value))) {
    refuse(key, "is " + core::shown(*member) + "; it must be above zero");
  }
}

void Keys::not_negative(const char* key, double& value) {
  const core::JSON* member = find(key);
  if (member == nullptr) return;
  value = number(key, *member);
  if (!(value >= 0.0 && std::isfinite(value))) {
    refuse(key, "is " + core::shown(*member) + "; it must not be negative");
  }
}

void Keys::count(const char* key, int64_t& value) {
  const core::JSON* member = find(key);
  if (member == nullptr) return;
  value = core::json_integer<int64_t>(*member, label_ + ": " + path_of(key));
  if (value < 1) refuse(key, "is " + core::shown(*member) + "; it must be at least 1");
}

void Keys::count(const char* key, int& value) {
  int64_t wide = value;
  count(key, wide);
  if (wide > 1 << 30) refuse(key, "is " + std::to_string(wide) + ", which is too much");
  value = static_cast<int>(wide);
}

Keys Keys::object(const char* key) {
  const core::JSON* member = find(key);
  if (member == nullptr) refuse(key, "is missing");
  return Keys(*member, path_of(key), label_, *unknown_);
}

void Keys::end() {
  for (const auto& [key, value] : value_->members()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
      unknown_->push_back(path_of(key));
    }
  }
}

void refuse_unknown(const std::vector<std::string>& unknown, const std::string& label) {
  core::NameList list;
  for (const std::string& key : unknown) list.add("'" + core::cut_text(key) + "'");
  check(unknown.empty(), label, ": unknown keys: ", list.text(),
        "; docs/tutorials/21_plan.md lists those that act");
}

}  // namespace hero::dist
