#pragma once
// An optimizer's state under its parameters' names, in pieces: "state.0.exp_avg" of the optimizer
// is "state.fc1.weight.exp_avg" in a file, with the place that the parameter has. For checkpoints.
#include <string>
#include <unordered_map>
#include <vector>

#include <hero/dist/checkpoint/part_files.h>
#include <hero/dist/checkpoint/parts.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// An optimizer, with the values of the module that are its parameters.
class OptimizerParts {
 public:
  /// `parameters`: the module's own, in the optimizer's order. Throws an Error that names a
  /// parameter which is not among `values`.
  OptimizerParts(const optim::Optimizer& optimizer, const std::vector<Tensor>& parameters,
                 const std::vector<ShardedValue>& values);

  /// Calls fn with the parts that each rank saves: its pieces of the states. Rank 0 also saves the
  /// numbers and options, except numbers of parameters of which it may hold nothing, such as those
  /// of other pipeline stages; the rank with a parameter's first elements saves these. Only this
  /// rank's parts have valid arrays; those of other ranks have only the right dtype.
  void each_part(const PartFn& fn) const;
  /// Reads this rank's part of the saved state, in the form in which the optimizer loads it. Throws
  /// an Error that lists entries which belong to none of its parameters or have another shape.
  optim::StateDict read(const PartFiles& files) const;

 private:
  /// A name in a file or a state dict, taken apart.
  struct Key {
    size_t parameter = 0;
    std::string state;    ///< "" for a master copy
    bool number = false;  ///< true: one number for the whole parameter
  };
  bool parse(const std::string& name, Key& key) const;
  bool parse_indexed(const std::string& name, Key& key) const;

  const optim::Optimizer& optimizer_;
  std::vector<const ShardedValue*> of_;  // the value for each parameter of the optimizer
  std::unordered_map<std::string, size_t>
      numbers_;  // the number of each parameter, by each of its names
};

}  // namespace hero::dist
