#pragma once
// safetensors files: a JSON header and the raw little-endian bytes of named arrays, a format for
// exchanging weights with Python.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/array.h>

namespace hero::core {

/// An array with a name.
struct NamedArray {
  std::string name;
  Array array;
};

/// Free text in a file, as keys and values.
using Metadata = std::map<std::string, std::string>;

/// The contents of a file, with arrays in the order of its header.
struct NamedArrays {
  std::vector<NamedArray> arrays;
  Metadata metadata;

  /// The array of this name. Throws an Error that lists the names that exist if it is missing.
  const Array& at(std::string_view name) const;
};

/// Writes the arrays under their names, which must differ; the file appears whole or not at all.
/// Unless the metadata has a "format", "format": "pt" is added, which Python's loaders expect.
void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata = {});

/// Writes a file array by array, so that they need not be in memory together. The file appears when
/// commit() returns, or not at all.
class SafetensorsWriter {
 public:
  /// The entry of an array in the header of a file.
  struct Entry {
    std::string name;
    DType dtype = kFloat32;
    Shape shape;
    uint64_t begin = 0, end = 0;  // bytes, from the start of the data
  };

  /// Begins a file with these entries, whose begin and end are ignored.
  SafetensorsWriter(const std::string& path, std::vector<Entry> entries,
                    const Metadata& metadata = {});
  ~SafetensorsWriter();
  /// The order in which the arrays have to be written, as indices into `entries`: widest elements
  /// first.
  static std::vector<size_t> order_of(const std::vector<Entry>& entries);
  /// Writes the next array.
  void write(const Array& array);
  /// Completes the file. Throws an Error if an array is missing.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Reads every array into cpu memory. Throws an Error that names a tensor of a dtype that arrays do
/// not have (I8, U16, F8_E4M3, ...), if there is one; SafetensorsReader reads the others.
NamedArrays load_safetensors(const std::string& path);

/// Reads every array from the bytes of a safetensors file.
NamedArrays parse_safetensors(std::span<const std::byte> bytes);

/// An open file whose header is read and validated; arrays are read one by one on request.
class SafetensorsReader {
 public:
  using Entry = SafetensorsWriter::Entry;

  /// Opens a file and validates its header. Tensors of dtypes that arrays do not have stay
  /// unread, and are no obstacle to reading the others.
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;

  /// The entries that can be read, in the order of the header.
  const std::vector<Entry>& entries() const;
  /// The names of entries().
  std::vector<std::string> names() const;
  /// Names of the tensors that cannot be read, and the dtype that the file gives them, such as
  /// "F8_E4M3".
  const std::map<std::string, std::string, std::less<>>& unreadable() const;
  const Metadata& metadata() const;
  /// Whether the file has a tensor of this name, be it one that can be read or not.
  bool contains(std::string_view name) const;
  /// Reads one array into cpu memory. Throws an Error if there is no tensor of this name, or,
  /// naming its dtype, if it cannot be read.
  Array load(std::string_view name) const;
  /// Reads elements first to first + target.numel() - 1 of the row-major array into `target`, a
  /// contiguous cpu array of the same dtype.
  void read(const Entry& entry, int64_t first, const Array& target) const;

 private:
  struct File;
  const File& file() const;
  std::unique_ptr<File> file_;
};

}  // namespace hero::core
