#pragma once
// JSON that is written to files; for sources only, as no public header includes nlohmann-json.
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <hero/core/error.h>

namespace hero::core {

/// The document as text, in one line or indented by so many spaces; an Error "op: .." where a text
/// in it is not UTF-8, of which JSON consists. So it is with files that are read again; text that
/// is only shown, in metrics, traces and reports, has escapes in such places, see utf8_text().
template <class JSON>
std::string json_dump(const JSON& document, std::string_view op, int indent = -1) {
  try {
    return document.dump(indent);
  } catch (const nlohmann::json::exception&) {
    fail(op, ": a name or a text is not UTF-8, so that it cannot be written as JSON; rename it");
  }
}

}  // namespace hero::core
