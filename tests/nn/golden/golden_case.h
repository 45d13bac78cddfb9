#pragma once
// Reference cases of modules, made with PyTorch by golden/nn/make_sequence.py.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <hero/nn/module.h>

namespace hero::test {

/// One case: its arguments, its expected outputs, and what a module with its weights gives.
class GoldenCase {
 public:
  using Inputs = std::map<std::string, Tensor>;
  using Call = std::function<std::vector<Tensor>(const Inputs& inputs)>;

  /// Opens golden/nn/<file>.safetensors.
  GoldenCase(const std::string& file, const std::string& name);

  /// Converts the module to float64, gives it the case's weights (strictly, by name), runs `call`
  /// and backward, and fails the test unless outputs and all gradients are the case's.
  void check(nn::Module& module, const Call& call) const;

 private:
  std::map<std::string, Array> part(const std::string& kind) const;

  std::string name_;
  std::vector<core::NamedArray> arrays_;
};

}  // namespace hero::test
