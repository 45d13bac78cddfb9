#pragma once
// GGUF files: metadata and named arrays in one file, most of them quantised in small blocks. It is
// the format in which llama.cpp keeps language models.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hero/core/array.h>

namespace hero::core {

/// An open GGUF file of version 2 or 3, little-endian, whose metadata and list of tensors are read
/// and validated. The elements of arrays in the metadata, and tensors, are read on request.
class GGUFReader {
 public:
  /// A tensor in the file.
  struct Entry {
    std::string name;        ///< as the file writes it, such as "blk.0.attn_q.weight"
    std::string type;        ///< how its elements are stored, such as "Q4_K"
    bool readable = false;   ///< whether load() knows this type
    bool in_blocks = false;  ///< whether load_blocks() reads it: a readable quantised matrix
    Shape shape;             ///< row-major, as everywhere here; the file lists sizes in reverse
    uint64_t begin = 0;      ///< where its bytes begin in the file
    uint64_t bytes = 0;      ///< the number of its bytes; 0 for types that are not readable
  };

  /// Opens a file. Throws an Error that names the file and what is wrong in it: another format,
  /// version 1, big-endian numbers, a count or length that the file has no room for, a name that
  /// occurs twice, a tensor whose bytes are not all in the file or overlap those of another tensor.
  /// Tensors of types that are not known here are no obstacle to reading the others.
  explicit GGUFReader(const std::string& path);
  ~GGUFReader();
  GGUFReader(GGUFReader&&) noexcept;

  /// The path of the file.
  const std::string& path() const;
  /// 2 or 3.
  uint32_t version() const;
  /// The keys of the metadata, in the order of the file.
  const std::vector<std::string>& keys() const;
  /// Whether the metadata have this key.
  bool has(std::string_view key) const;

  /// \name Metadata
  /// The value of a key; nullopt if the file does not have the key. Throws an Error that names the
  /// file, the key and the type of its value if the value is of another type. integer() accepts
  /// integers of all sizes and throws an Error for one above 2^63 - 1; number() accepts integers,
  /// too.
  /// \{
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// \}

  /// The tensors, in the order of the file.
  const std::vector<Entry>& entries() const;
  /// The tensor of this name; null if there is none.
  const Entry* find(std::string_view name) const;
  /// Reads a tensor into cpu memory as floating numbers of this dtype: F64, F32, F16 and BF16 as
  /// they are, and Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K dequantised in float32, each
  /// number then rounded once to the dtype. Beside the result it needs a few MB. Throws an Error if
  /// there is no tensor of this name, if its type is another one, or if the dtype is not floating.
  Array load(std::string_view name, DType dtype = kFloat32) const;
  /// Reads a matrix as it lies in the file, uint8 [rows, bytes of a row], for QuantizedMatrix.
  /// Throws an Error unless it has two dimensions and a type that is quantised and read by load().
  Array load_blocks(std::string_view name) const;

 private:
  struct File;
  const Entry& readable(std::string_view name) const;
  const File& file() const;
  std::unique_ptr<File> file_;
};

}  // namespace hero::core
