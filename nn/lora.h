#pragma once
// LoRA: a trained model stays as it is, and small adapters beside its linear layers are trained. Hu
// et al., arXiv 2106.09685.
//
//   nn::Llama model = nn::Llama::from_pretrained(folder);
//   nn::add_lora(model, {.rank = 8, .alpha = 16.0, .targets = {"q_proj", "v_proj"}});
//   optim::AdamW adamw(nn::lora_parameters(model), {.lr = 1e-4});
//   ...
//   nn::save_lora(model, "adapters.safetensors");
#include <string>
#include <vector>

#include <hero/nn/linear.h>

namespace hero::nn {

struct LoRAOptions {
  int64_t rank = 8;
  double alpha = 16.0;   ///< what an adapter adds is scaled by alpha / rank
  double dropout = 0.0;  ///< of what goes into the adapters, in training
  /// Which linear layers get one: those whose path is one of these or ends in "." and one of them.
  std::vector<std::string> targets = {};
};

/// Gives the layers an adapter each, which changes no output yet, and freezes all other parameters.
/// Returns their paths. Before fully_shard(), DDP and ZeRO, of which each unit then holds its
/// adapters too; a model on meta may have them. An Error, before anything is changed, for a target
/// that no module has, or that is no Linear.
/// \snippet test_examples_models.cpp add_lora
std::vector<std::string> add_lora(Module& model, const LoRAOptions& options);
/// The adapters' parameters, which are all that train.
std::vector<Tensor> lora_parameters(const Module& model);
/// Those entries of a state that are adapters': of Module::state_dict(), or of what
/// dist::full_state_dict() gathers from shards.
StateDict lora_state_dict(const StateDict& state);
/// Writes the adapters alone, or reads them into a model that has them: an Error that lists what is
/// missing, unexpected or mis-shaped.
void save_lora(const Module& model, const std::string& path);
void load_lora(Module& model, const std::string& path);

/// \name The adapters of all layers below a model: Linear::merge_adapter() and so on. An Error
/// where there is none.
/// \{
void merge_lora(Module& model);
void unmerge_lora(Module& model);
/// What was frozen stays frozen; requires_grad_() thaws it.
void remove_lora(Module& model);
/// \}

}  // namespace hero::nn
