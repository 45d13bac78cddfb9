#pragma once
// Documents of JSON that come from files, read and checked; for sources only, as no public header
// includes nlohmann-json. Everything that the library reads as a tree comes through here;
// safetensors headers build no tree (core/io/safetensors_header.cpp).
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <hero/core/error.h>

namespace hero::core {

/// Brackets within brackets that a document may have. The parser itself does not recurse, but
/// whatever prints, copies or compares a tree does, and a deep one ends the process.
inline constexpr int kMaxJSONDepth = 100;

/// The document in `text`; an Error "op: label is not JSON: ..." where it is none or too deep.
nlohmann::json parse_json(std::string_view text, const char* op, const std::string& label);

/// A value as an error shows it: the start of a long one.
std::string shown(const nlohmann::json& value);

/// The member of that name; an Error "it has no 'name'" where the value has none.
const nlohmann::json& json_member(const nlohmann::json& value, const char* name);
/// A member that must be an object.
const nlohmann::json& json_object(const nlohmann::json& value, const char* name);
/// The text of a value, which `what` names in the Error where it has none.
const std::string& json_text(const nlohmann::json& value, std::string_view what);

/// The whole number that a value is, with every digit; an Error that says what `what` is where it
/// is none or does not fit into T. A cast from JSON's floats would be undefined for large ones.
template <class T>
T json_integer(const nlohmann::json& value, std::string_view what) {
  constexpr auto kMost = std::numeric_limits<T>::max();
  bool fits = false;
  if (value.is_number_unsigned()) {
    fits = value.get<uint64_t>() <= static_cast<uint64_t>(kMost);
  } else if (value.is_number_integer() && std::numeric_limits<T>::is_signed) {
    fits = value.get<int64_t>() >= static_cast<int64_t>(std::numeric_limits<T>::min());
  }
  check(fits, what, " is ", shown(value), ", not a whole number ",
        std::numeric_limits<T>::is_signed ? "of " : "from 0 of ", 8 * sizeof(T), " bits");
  return value.get<T>();
}

}  // namespace hero::core
