#pragma once
// What loading a state into a module, whole or in shards, does with names.
#include <string>
#include <vector>

#include <hero/nn/module.h>

namespace hero::nn::detail {

/// The prefix that a wrapper has put before all names of a state: "module." of PyTorch's DDP, or
/// "_orig_mod." of torch.compile. "" unless all names of the state have one, and none of the
/// module's own.
std::string wrapper_of(const std::vector<std::string>& of_state,
                       const std::vector<std::string>& of_module);

/// Throws an Error that lists what is mis-shaped and, if options.strict, missing or unexpected.
/// `target` is what the state is loaded into.
void check_fits(const std::string& target, const LoadResult& result,
                const std::vector<std::string>& mis_shaped, const LoadOptions& options);

}  // namespace hero::nn::detail
