#pragma once
// The header of a safetensors file, validated in full before any data is touched; internal to
// safetensors.cpp.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/safetensors.h>

namespace hero::core::safetensors {

using Entry = SafetensorsReader::Entry;

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct Header {
  std::vector<Entry> entries;  // in the order of the text
  Metadata metadata;
};

/// Reads the JSON `text` of a file with `data_bytes` bytes behind it; `label` names it in errors.
/// Checks names, dtypes, shapes, and that the arrays cover the data without holes or overlap.
Header parse_header(std::string_view text, uint64_t data_bytes, const std::string& label);

/// The JSON text for these entries.
std::string header_text(const Header& header);

}  // namespace hero::core::safetensors
