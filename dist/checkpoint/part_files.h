#pragma once
// safetensors files that together hold named arrays in pieces: a piece that is not the whole is
// flat, and the metadata say where it belongs, {"part:fc1.weight": "45 of 13,7"} or, in boxes of
// the array, "45 of 13,7 in 0:13,2:5". A file whose arrays are all whole is an ordinary one. For
// checkpoints.
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hero/core/safetensors.h>
#include <hero/dist/checkpoint/parts.h>

namespace hero::dist {

/// A part that a rank writes: the piece `array` of the value of that name.
struct NamedPart {
  std::string name;
  ShardRange range;
  Array array;
};

/// A function that is called with a rank and one of the parts that it saves.
using PartFn = std::function<void(int rank, const NamedPart& part)>;

/// The content of one file.
struct FileContent {
  std::vector<core::NamedArray> arrays = {};
  core::Metadata metadata = {};
};

/// The content of a file with these parts.
FileContent content_of(std::vector<NamedPart> parts);

/// A file, and its index if that is known without opening the file.
struct PartFile {
  std::string path;
  std::optional<FileIndex> index = {};
};

/// Elements of a value that are to be read into a contiguous cpu array of the same number of
/// elements and the value's dtype.
struct Wanted {
  std::string name;
  ShardRange range;
  Array into;
};

/// The values of a set of files. No file stays open, since there may be thousands; files with an
/// index are opened only if they hold wanted elements.
class PartFiles {
 public:
  struct Value {
    DType dtype = kFloat32;
    Shape whole;
  };

  /// Reads the headers of files without an index. Throws an Error if a value's pieces overlap,
  /// leave a hole, or disagree in dtype or shape.
  explicit PartFiles(std::vector<PartFile> files);

  /// The values by name.
  const std::map<std::string, Value>& values() const { return values_; }
  /// Reads the elements that are wanted, and no others, file by file. Throws an Error if a file
  /// does not hold what its index says.
  void read(std::span<const Wanted> wanted) const;

 private:
  std::vector<PartFile> files_;  // each with its index
  std::map<std::string, Value> values_;
};

}  // namespace hero::dist
