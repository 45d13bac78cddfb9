#pragma once
// What a checkpoint of several ranks consists of, to and from the files of its folder.
#include <functional>
#include <string>
#include <vector>

#include <hero/dist/checkpoint/manifest.h>
#include <hero/dist/communicator.h>
#include <hero/nn/module.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// One thing that a checkpointer tracks: a module, an optimizer with its parameters, an object that
/// saves and loads itself, or a number or generator.
struct Tracked {
  std::string name;
  nn::Module* module = nullptr;
  optim::Optimizer* optimizer = nullptr;
  std::function<std::vector<Tensor>()> parameters = {};
  std::function<nn::StateDict()> save = {};
  std::function<void(const nn::StateDict&)> load = {};
  int64_t* integer = nullptr;
  double* number = nullptr;
  Generator* generator = nullptr;

  /// "module", "optimizer", "object", "integer", "number", "generator".
  const char* kind() const;
};
using TrackedList = std::vector<std::shared_ptr<Tracked>>;

/// The modules' names, each with a hash of its values' names, whole shapes and dtypes.
std::string modules_of(const TrackedList& tracked);

/// Writes every rank's files into `folder`; gives the manifest of all ranks, but for the step, and
/// on other ranks than 0 without the indices of the files. A collective.
Manifest save_files(const std::string& folder, const Communicator& world,
                    const TrackedList& tracked);

/// Everything that is wrong with the files of a manifest, found by all ranks together; "" where
/// nothing is. A collective.
std::string files_damage(const std::string& folder, const Communicator& world,
                         const Manifest& manifest);

/// Loads every rank's parts. Where something does not fit on one rank, all ranks throw and nothing
/// has changed. A collective.
void load_files(const std::string& folder, const Communicator& world, const Manifest& manifest,
                const TrackedList& tracked);

}  // namespace hero::dist
