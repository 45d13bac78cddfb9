#pragma once
// Writing and reading the files of a checkpoint of several ranks.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <hero/core/io/encoding.h>
#include <hero/dist/checkpoint/manifest.h>
#include <hero/dist/checkpoint/parts.h>
#include <hero/dist/communicator.h>
#include <hero/dist/rank_states.h>
#include <hero/nn/module.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// One thing that a checkpointer tracks: a module, an optimizer with its parameters, an object that
/// saves and loads itself, or a number or generator.
struct Tracked {
  std::string name;
  nn::Module* module = nullptr;
  optim::Optimizer* optimizer = nullptr;
  std::function<nn::StateDict()> save = {};
  std::function<void(const nn::StateDict&)> load = {};
  int64_t* integer = nullptr;
  double* number = nullptr;
  Generator* generator = nullptr;
  /// State that differs from rank to rank, of an optimizer or tracked by itself.
  RankStates* own = nullptr;
  core::Encoding encoding = {};    ///< how arrays of a module or an optimizer are encoded
  ExchangedPieces exchanged = {};  ///< known shards of a module's values on all ranks

  /// "module", "optimizer", "object", "integer", "number", "generator", "rank states".
  const char* kind() const;
};
using TrackedList = std::vector<std::shared_ptr<Tracked>>;

/// A line for each module: its name, and a hash of the names, whole shapes and dtypes of its
/// values.
std::string modules_of(const TrackedList& tracked);

/// Writes every rank's files into `folder`. Returns the manifest of all ranks, without the step
/// and, on ranks other than 0, without the indices of the files. A collective.
Manifest save_files(const std::string& folder, const Communicator& world,
                    const TrackedList& tracked);

/// \name The same in three parts, of which a thread can do the second and the third
/// \{
/// A file of this rank, before it is written.
struct RankFile {
  std::string name;    ///< name of the file in the folder
  std::string object;  ///< name of the tracked object
  bool boxes = false;  ///< true: it has a part that consists of boxes
  FileContent content = {};
  core::Encoding encoding = {};
};
/// A copy of the state that this rank saves.
struct Snapshot {
  int rank = 0;
  std::vector<RankFile> files;  ///< files with copies of the arrays
  Manifest mine;                ///< manifest of this rank's files
  Manifest all;                 ///< manifest entries that belong to no single rank
  std::map<std::string, std::map<int, FileIndex>> indices;  ///< on rank 0, by object and rank
  std::string token;  ///< identifies this save; chosen by rank 0
};
/// Copies into the host's memory what every rank saves. A collective.
Snapshot take_snapshot(const Communicator& world, const TrackedList& tracked);
/// Writes this rank's files and frees the copies of each. Returns the text that rank 0 needs for
/// the manifest.
std::string write_files(const std::string& folder, Snapshot& snapshot);
/// The manifest of all ranks, from their texts.
Manifest manifest_of(const Snapshot& snapshot, const std::vector<std::string>& texts);
/// \}

/// Everything that is wrong with the files of a manifest, which all ranks check together; "" if
/// nothing is. A collective.
std::string files_damage(const std::string& folder, const Communicator& world,
                         const Manifest& manifest);

/// Loads every rank's parts. If something does not fit on a rank, throws an Error on all ranks and
/// changes nothing. A collective.
void load_files(const std::string& folder, const Communicator& world, const Manifest& manifest,
                const TrackedList& tracked);

}  // namespace hero::dist
