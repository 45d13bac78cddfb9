#pragma once
// safetensors files that together hold named arrays in pieces: a piece that is not the whole is
// flat, and the metadata say where it belongs, {"part:fc1.weight": "45 of 13,7"}. A file whose
// arrays are all whole is an ordinary one. For checkpoints.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <hero/core/safetensors.h>
#include <hero/dist/checkpoint/parts.h>

namespace hero::dist {

/// What a rank writes: the piece `array` of a value of that name.
struct NamedPart {
  std::string name;
  Place place;
  Array array;
};

/// Writes the parts into one file.
void save_parts(const std::string& path, const std::vector<NamedPart>& parts);

/// Elements first ... first + into.numel() - 1 of a value, to be read into a contiguous cpu array
/// of the value's dtype.
struct Wanted {
  std::string name;
  int64_t first = 0;
  Array into;
};

/// The values of a set of files. No file stays open, as thousands of ranks may have one each.
class PartFiles {
 public:
  struct Value {
    DType dtype = kFloat32;
    Shape whole;
  };

  /// Reads the headers. An Error where a value's pieces overlap, leave a hole or disagree.
  explicit PartFiles(std::vector<std::string> paths);

  /// By name.
  const std::map<std::string, Value>& values() const { return values_; }
  /// Reads the elements that are wanted, and no others, file by file.
  void read(std::span<const Wanted> wanted) const;

 private:
  std::vector<std::string> paths_;
  std::map<std::string, Value> values_;
};

}  // namespace hero::dist
