#pragma once
// safetensors files: a JSON header and the raw little-endian bytes of named arrays, the format in
// which weights travel to and from Python.
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/array.h>

namespace hero::core {

struct NamedArray {
  std::string name;
  Array array;
};

/// Free text of a file, key to value.
using Metadata = std::map<std::string, std::string>;

/// What a file holds; arrays in the order of its header.
struct NamedArrays {
  std::vector<NamedArray> arrays;
  Metadata metadata;

  /// The array of that name; an error that lists what there is when it is missing.
  const Array& at(std::string_view name) const;
};

/// Writes the arrays under their names; the file appears whole or not at all. Names must differ.
/// "format": "pt" is added to the metadata unless it has a format, so that Python's loaders take
/// it.
void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const Metadata& metadata = {});

/// A file written array by array, so that they need not be in memory together. As with
/// save_safetensors() the file appears when commit() returns, or not at all.
class SafetensorsWriter {
 public:
  /// What a file says about one array.
  struct Entry {
    std::string name;
    DType dtype = kFloat32;
    Shape shape;
    uint64_t begin = 0, end = 0;  // bytes, from the start of the data
  };

  /// `entries` say what will come; their begin and end do not matter.
  SafetensorsWriter(const std::string& path, std::vector<Entry> entries,
                    const Metadata& metadata = {});
  ~SafetensorsWriter();
  /// The order in which the arrays must come, as indices of `entries`: widest elements first.
  static std::vector<size_t> order_of(const std::vector<Entry>& entries);
  /// The next of the arrays.
  void write(const Array& array);
  /// An Error where an array has not come.
  void commit();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Reads every array into cpu memory.
NamedArrays load_safetensors(const std::string& path);

/// The same from the bytes of a file.
NamedArrays parse_safetensors(std::span<const std::byte> bytes);

/// An open file whose header is read and validated; arrays are read one by one on request.
class SafetensorsReader {
 public:
  using Entry = SafetensorsWriter::Entry;

  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;

  /// In the order of the header.
  const std::vector<Entry>& entries() const;
  std::vector<std::string> names() const;
  const Metadata& metadata() const;
  bool contains(std::string_view name) const;
  /// Reads one array into cpu memory.
  Array load(std::string_view name) const;
  /// Reads elements first ... first + target.numel() - 1 of the row-major array into `target`, a
  /// contiguous cpu array of its dtype.
  void read(const Entry& entry, int64_t first, const Array& target) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace hero::core
