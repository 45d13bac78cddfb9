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

/// What a rank writes: the piece `array` of a value of that name.
struct NamedPart {
  std::string name;
  ShardRange range;
  Array array;
};

/// What is called with a rank and one of the parts that it saves.
using PartFn = std::function<void(int rank, const NamedPart& part)>;

/// What one file holds.
struct FileContent {
  std::vector<core::NamedArray> arrays = {};
  core::Metadata metadata = {};
};

/// The parts as one file has them.
FileContent content_of(std::vector<NamedPart> parts);

/// A file, and what it holds where that is known without opening it.
struct PartFile {
  std::string path;
  std::optional<FileIndex> index = {};
};

/// Elements of a value, to be read into a contiguous cpu array of as many and of the value's dtype.
struct Wanted {
  std::string name;
  ShardRange range;
  Array into;
};

/// The values of a set of files. No file stays open, as thousands of ranks may have one each; those
/// whose index is given are opened only where they hold what is wanted.
class PartFiles {
 public:
  struct Value {
    DType dtype = kFloat32;
    Shape whole;
  };

  /// Reads the headers of files without an index. An Error where a value's pieces overlap, leave a
  /// hole or disagree.
  explicit PartFiles(std::vector<PartFile> files);

  /// By name.
  const std::map<std::string, Value>& values() const { return values_; }
  /// Reads the elements that are wanted, and no others, file by file. An Error where a file does
  /// not hold what its index says.
  void read(std::span<const Wanted> wanted) const;

 private:
  std::vector<PartFile> files_;  // each with its index
  std::map<std::string, Value> values_;
};

}  // namespace hero::dist
