#pragma once
// Weights of a folder of Hugging Face's transformers, which are safetensors files, one or several
// with an index, or of another file.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <hero/core/safetensors.h>
#include <hero/nn/module.h>
#include <hero/nn/pretrained.h>

namespace hero::nn {

/// Named tensors from which a model takes its weights.
class PretrainedWeights {
 public:
  using Entry = core::SafetensorsReader::Entry;

  virtual ~PretrainedWeights() = default;
  /// The folder or file, for errors.
  virtual const std::string& path() const = 0;
  /// Names of all tensors, also of those whose dtype cannot be read.
  virtual std::vector<std::string> names() const = 0;
  /// The dtypes that cannot be read, by the names of their tensors.
  virtual const std::map<std::string, std::string>& unreadable() const = 0;
  /// The tensor of this name; null if there is none that can be read.
  virtual const Entry* find(const std::string& name) const = 0;
  /// Reads a tensor into cpu memory; in this dtype if it is stored in a format that arrays do not
  /// have.
  virtual Array load(const std::string& name, DType dtype) const = 0;
};

/// The tensors of a folder, whichever file each is in.
class FolderWeights : public PretrainedWeights {
 public:
  FolderWeights(const char* reader, const std::string& folder);

  const std::string& path() const override { return folder_; }
  std::vector<std::string> names() const override;
  const std::map<std::string, std::string>& unreadable() const override { return unreadable_; }
  const Entry* find(const std::string& name) const override;
  Array load(const std::string& name, DType dtype) const override;

 private:
  struct Located {
    const core::SafetensorsReader* file;
    const Entry* entry;
  };
  void open(const std::string& path);

  std::string reader_, folder_;
  std::vector<std::unique_ptr<core::SafetensorsReader>> files_;
  std::map<std::string, Located> located_;
  std::map<std::string, std::string> unreadable_;
};

/// How a parameter is called in the files, and whether its matrix lies there as [in, out].
struct PretrainedName {
  std::string name;
  bool transposed = false;
};
using PretrainedNames = std::function<PretrainedName(const std::string& parameter)>;

/// Gives every parameter of a module on meta its values. Throws one Error, before anything is read,
/// that lists all tensors that are missing, superfluous (unless spare(name) is true) or mis-shaped.
void load_pretrained(Module& module, const PretrainedWeights& weights, const PretrainedNames& names,
                     const std::function<bool(const std::string& name)>& spare,
                     const PretrainedOptions& options);

/// Writes config.json and the module's parameters, each tied one under its first name alone.
/// config.json comes last. Throws an Error if the folder has another set of files.
void save_pretrained_folder(const Module& module, const std::string& folder,
                            const std::string& config, const PretrainedNames& names,
                            const SavePretrainedOptions& options);

/// Writes folder/config.json and makes the folder where there is none.
void save_pretrained_config(const std::string& folder, const std::string& config);

}  // namespace hero::nn
