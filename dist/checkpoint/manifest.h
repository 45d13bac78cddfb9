#pragma once
// Manifest: trainer_state.json of a checkpoint of several ranks, with its contents and the hash of
// every file.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hero/core/io/sha256.h>
#include <hero/core/random.h>
#include <hero/dist/checkpoint/part_files.h>

namespace hero::dist {

/// The contents of a checkpoint.
struct Manifest {
  struct File {
    FileHash hash;
    std::string object;  ///< name of the tracked object
    int rank = 0;        ///< the rank that wrote it
    /// The index of a file with parts, so that ranks open only the files that they need; absent in
    /// checkpoints of older versions.
    std::optional<FileIndex> index = {};
  };
  using States = std::vector<Generator::State>;

  int format = 1;  ///< 2 if parts consist of boxes, which readers of format 1 do not know
  int64_t step = 0;
  int ranks = 1;
  std::map<std::string, std::string> tracked;  ///< name to kind: "module", "optimizer", ...
  std::map<std::string, File> files;           ///< all files, by name in the folder
  std::map<std::string, int64_t> integers;
  std::map<std::string, double> numbers;
  std::map<std::string, States> generators;  ///< states of each generator, one for each rank

  /// The files of one object, with their folder.
  std::vector<PartFile> files_of(const std::string& object, const std::string& folder) const;
  /// Adds the entries of another rank.
  void add(const Manifest& of_rank);
};

std::string to_text(const Manifest& manifest);
/// Parses a manifest. Throws an Error that says what is wrong with the text; `path` names it.
Manifest parse_manifest(const std::string& text, const std::string& path);

/// What is wrong with a file of the manifest, or "".
std::string file_damage(const std::string& folder, const std::string& name,
                        const Manifest::File& file);

/// The state of a generator for `rank` of `ranks`, from the states of the ranks in `saved`.
Generator::State state_of(const Manifest::States& saved, int rank, int ranks);

}  // namespace hero::dist
