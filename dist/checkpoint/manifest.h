#pragma once
// trainer_state.json of a checkpoint of several ranks: what belongs to it, and every file's hash.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hero/core/io/sha256.h>
#include <hero/core/random.h>
#include <hero/dist/checkpoint/part_files.h>

namespace hero::dist {

/// What belongs to a checkpoint.
struct Manifest {
  struct File {
    FileHash hash;
    std::string object;  ///< whose state it is
    int rank = 0;        ///< who wrote it
    /// Of a file of parts, so that ranks open those alone that hold what they want; nothing in
    /// checkpoints that were written before there was one.
    std::optional<FileIndex> index = {};
  };
  using States = std::vector<Generator::State>;

  int format = 1;  ///< 2 where parts lie in boxes, which readers of format 1 do not know
  int64_t step = 0;
  int ranks = 1;
  std::map<std::string, std::string> tracked;  ///< name to kind: "module", "optimizer", ...
  std::map<std::string, File> files;           ///< by name in the folder
  std::map<std::string, int64_t> integers;
  std::map<std::string, double> numbers;
  std::map<std::string, States> generators;  ///< of each rank

  /// The files of one object, with their folder.
  std::vector<PartFile> files_of(const std::string& object, const std::string& folder) const;
  /// Takes over what another rank wrote.
  void add(const Manifest& of_rank);
};

std::string to_text(const Manifest& manifest);
/// An Error says what is wrong with the text; `path` names it.
Manifest parse_manifest(const std::string& text, const std::string& path);

/// What is wrong with a file of the manifest, or "".
std::string file_damage(const std::string& folder, const std::string& name,
                        const Manifest::File& file);

/// A rank's state of a generator, where as many ranks were saved as there are in `saved`.
Generator::State state_of(const Manifest::States& saved, int rank, int ranks);

}  // namespace hero::dist
