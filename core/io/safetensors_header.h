#pragma once
// The header of a safetensors file, validated in full before any data is touched, and what writes a
// file behind it; internal to what reads and writes safetensors.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/io/encoding.h>
#include <hero/core/io/file.h>

namespace hero::core::safetensors {

using Entry = SafetensorsReader::Entry;

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct Header {
  std::vector<Entry> entries;  // in the order of the text, of dtypes that arrays have
  Metadata metadata;
  std::map<std::string, Codec, std::less<>> codecs = {};            // of encoded entries, by name
  std::map<std::string, std::string, std::less<>> unreadable = {};  // the other dtypes, by name

  const Codec* codec_of(const Entry& entry) const {
    const auto found = codecs.find(entry.name);
    return found == codecs.end() ? nullptr : &found->second;
  }
};

/// "F32" and the like, and back.
std::string_view name_of(DType dtype);
std::optional<DType> dtype_of(std::string_view text);
/// A name that comes from outside, in quotes and only its start where it is long.
std::string start_of(std::string_view name);

/// Reads the JSON `text` of a file with `data_bytes` bytes behind it; `label` names it in errors.
/// Checks names, dtypes, shapes, and that the arrays cover the data without holes or overlap.
/// Arrays of a dtype that only the format has (I8, U16, F8_E4M3, ...) are listed apart.
/// Entries of encoded arrays have the arrays' dtypes and shapes, and no metadata.
Header parse_header(std::string_view text, uint64_t data_bytes, const std::string& label);

/// The JSON text for these entries.
std::string header_text(const Header& header);

/// \name Writing
/// \{
/// What a file begins with, and where its arrays lie.
struct Layout {
  std::vector<Entry> entries;
  std::vector<size_t> order;  ///< in which the arrays are written, as indices into entries
  std::string head;           ///< all bytes before the first array
};
/// The layout for these entries, whose begin and end are ignored. An Error where no reader would
/// take the file.
Layout layout_of(std::vector<Entry> entries, const Metadata& metadata);
/// Appends an array, which must be as its entry says.
void write_array(OutputFile& file, const Entry& entry, const Array& array);
/// \}

/// \name Encoded arrays
/// \{
/// Whether an array with these elements is kept in the codec where that is asked for.
bool takes_codec(DType dtype, const Shape& shape, Codec codec);
/// Makes entries of bytes those of the arrays that the metadata speak of. An Error, which begins
/// with `what`, where the metadata say something that the entries do not.
void take_codecs(Header& header, const std::string& what);
/// Elements first ... first + out.numel() - 1 of an encoded array into cpu memory; read(begin,
/// bytes) reads of its bytes.
void read_encoded(Codec codec, int64_t first, const Array& out,
                  const std::function<void(uint64_t begin, std::span<std::byte> bytes)>& read);
/// \}

}  // namespace hero::core::safetensors
