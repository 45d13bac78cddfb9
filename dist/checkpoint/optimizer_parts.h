#pragma once
// An optimizer's state under its parameters' names, in pieces: "state.0.exp_avg" of the optimizer
// is "state.fc1.weight.exp_avg" in a file, with the place that the parameter has. For checkpoints.
#include <string>
#include <vector>

#include <hero/dist/checkpoint/part_files.h>
#include <hero/dist/checkpoint/parts.h>
#include <hero/optim/optimizer.h>

namespace hero::dist {

/// An optimizer beside the values that its parameters are.
class OptimizerParts {
 public:
  /// `parameters`: the module's own, in the optimizer's order. An Error names one that is not among
  /// `values`.
  OptimizerParts(const optim::Optimizer& optimizer, const std::vector<Tensor>& parameters,
                 const std::vector<Held>& values);

  /// Calls fn with what every rank saves: its pieces of the states; rank 0 the numbers and options,
  /// too, but for numbers of parameters of which it may have nothing, such as those of other stages
  /// of a pipeline: the rank with the first elements saves these. The arrays are this rank's: of
  /// other ranks' parts they tell the dtype alone.
  void each_part(const PartFn& fn) const;
  /// This rank's part of the state that the files hold, as the optimizer loads it. An Error lists
  /// what belongs to no parameter of it or has another shape.
  optim::StateDict read(const PartFiles& files) const;

 private:
  /// A name in a file or a state dict, taken apart.
  struct Key {
    size_t parameter = 0;
    std::string state;    ///< "" for a master copy
    bool number = false;  ///< one for the whole parameter
  };
  bool parse(const std::string& name, Key& key) const;
  bool parse_indexed(const std::string& name, Key& key) const;

  const optim::Optimizer& optimizer_;
  std::vector<const Held*> of_;  // of each parameter of the optimizer
};

}  // namespace hero::dist
