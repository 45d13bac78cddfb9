#pragma once
// What a checkpoint of several ranks consists of, to and from the files of its folder.
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
  RankStates* own = nullptr;     ///< beside an optimizer, or alone
  core::Encoding encoding = {};  ///< of a module's or an optimizer's arrays
  ToldPlaces told = {};          ///< of a module's values

  /// "module", "optimizer", "object", "integer", "number", "generator", "rank states".
  const char* kind() const;
};
using TrackedList = std::vector<std::shared_ptr<Tracked>>;

/// The modules' names, a line each, with a hash of its values' names, whole shapes and dtypes.
std::string modules_of(const TrackedList& tracked);

/// Writes every rank's files into `folder`; gives the manifest of all ranks, but for the step, and
/// on other ranks than 0 without the indices of the files. A collective.
Manifest save_files(const std::string& folder, const Communicator& world,
                    const TrackedList& tracked);

/// \name The same in three parts, of which a thread can do the second and the third
/// \{
/// A file of this rank, before it is written.
struct RankFile {
  std::string name;    ///< in the folder
  std::string object;  ///< whose state it is
  bool boxes = false;  ///< a part of it lies in boxes
  FileContent content = {};
  core::Encoding encoding = {};
};
/// What this rank saves, of the moment it was taken.
struct Snapshot {
  int rank = 0;
  std::vector<RankFile> files;                              ///< copies
  Manifest mine;                                            ///< of this rank's files
  Manifest all;                                             ///< what is no rank's own
  std::map<std::string, std::map<int, FileIndex>> indices;  ///< on rank 0, by object and rank
  std::string token;                                        ///< of this save, rank 0's
};
/// Copies into the host's memory what every rank saves. A collective.
Snapshot take_snapshot(const Communicator& world, const TrackedList& tracked);
/// Writes this rank's files and lets go of each; the text that rank 0 must have of it.
std::string write_files(const std::string& folder, Snapshot& snapshot);
/// The manifest of all ranks, by their texts.
Manifest manifest_of(const Snapshot& snapshot, const std::vector<std::string>& texts);
/// \}

/// Everything that is wrong with the files of a manifest, found by all ranks together; "" where
/// nothing is. A collective.
std::string files_damage(const std::string& folder, const Communicator& world,
                         const Manifest& manifest);

/// Loads every rank's parts. Where something does not fit on one rank, all ranks throw and nothing
/// has changed. A collective.
void load_files(const std::string& folder, const Communicator& world, const Manifest& manifest,
                const TrackedList& tracked);

}  // namespace hero::dist
