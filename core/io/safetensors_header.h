#pragma once
// The header of a safetensors file, which is validated in full before any data is read, and the
// writing of a file; internal to the readers and writers of safetensors.
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
  std::vector<Entry> entries;  // entries of dtypes that arrays have, in the order of the text
  Metadata metadata;
  std::map<std::string, Codec, std::less<>> codecs = {};  // codecs of encoded entries, by name
  std::map<std::string, std::string, std::less<>> unreadable = {};  // dtypes of others, by name

  const Codec* codec_of(const Entry& entry) const {
    const auto found = codecs.find(entry.name);
    return found == codecs.end() ? nullptr : &found->second;
  }
};

/// Converts a dtype to the format's name, such as "F32", and back.
std::string_view name_of(DType dtype);
std::optional<DType> dtype_of(std::string_view text);
/// A name from outside in quotes; of a long one only the start.
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
/// The bytes before the first array of a file, and the places of its arrays.
struct Layout {
  std::vector<Entry> entries;
  std::vector<size_t> order;  ///< the order in which arrays are written, as indices into entries
  std::string head;           ///< all bytes before the first array
};
/// The layout for these entries, whose begin and end are ignored. Throws an Error if no reader
/// would accept the file.
Layout layout_of(std::vector<Entry> entries, const Metadata& metadata);
/// Appends an array, which must have the dtype and shape of its entry.
void write_array(OutputFile& file, const Entry& entry, const Array& array);
/// \}

/// \name Encoded arrays
/// \{
/// Whether an array of this dtype and shape is encoded if the codec is requested for it.
bool takes_codec(DType dtype, const Shape& shape, Codec codec);
/// Replaces the dtype and shape of encoded entries by those of the arrays, which the metadata name.
/// Throws an Error that begins with `what` if the metadata and the entries contradict each other.
void take_codecs(Header& header, const std::string& what);
/// Reads elements first ... first + out.numel() - 1 of an encoded array into `out`, in cpu memory;
/// read(begin, bytes) is called to read from the array's bytes.
void read_encoded(Codec codec, int64_t first, const Array& out,
                  const std::function<void(uint64_t begin, std::span<std::byte> bytes)>& read);
/// \}

}  // namespace hero::core::safetensors
