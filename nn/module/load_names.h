#pragma once
// Checks of names and shapes when a state is loaded into a module, whole or in shards.
#include <string>
#include <vector>

#include <hero/nn/module.h>

namespace hero::nn::detail {

/// The prefix that a wrapper has put before all names of a state: "module." of PyTorch's DDP, or
/// "_orig_mod." of torch.compile. "" unless all names of the state have one, and none of the
/// module's own.
std::string wrapper_of(const std::vector<std::string>& of_state,
                       const std::vector<std::string>& of_module);

/// The names of a state that have another shape than in the module.
class MisShaped {
 public:
  /// Notes a name, its shape in the state, and that in the module.
  void add(const std::string& name, const Shape& given, const Shape& own);
  bool empty() const { return names_.empty(); }
  /// "; mis-shaped: ..." with what to do if all of them are matrices that lie the other way round,
  /// as in transformers' files of GPT-2; "" if there are none.
  std::string text() const;

 private:
  std::vector<std::string> names_;
  bool all_transposed_ = true;
};

/// Throws an Error that lists what is mis-shaped and, if options.strict, missing or unexpected.
/// `target` is what the state is loaded into.
void check_fits(const std::string& target, const LoadResult& result, const MisShaped& mis_shaped,
                const LoadOptions& options);

/// True if two arrays of one shape, converted to a dtype, are the same bit for bit. On meta, where
/// there are no values, all are.
bool same_values(const Array& a, const Array& b, DType dtype);
/// Throws the Error of a state that has different values for a tensor of the target with two names.
[[noreturn]] void fail_tied(const char* op, const std::string& target, const std::string& name,
                            const std::string& other);

}  // namespace hero::nn::detail
