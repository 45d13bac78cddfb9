#pragma once
// LoRA: a trained model stays unchanged, while small adapters beside its linear layers are trained.
// Hu et al., arXiv 2106.09685.
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

/// Options of add_lora().
struct LoRAOptions {
  int64_t rank = 8;      ///< inner size of each adapter's two matrices
  double alpha = 16.0;   ///< the output of an adapter is scaled by alpha / rank
  double dropout = 0.0;  ///< rate of dropout on the adapters' input, in training
  /// Which linear layers get an adapter: those whose path is one of these, or ends in "." and one
  /// of these.
  std::vector<std::string> targets = {};
};

/// Gives each of these layers an adapter, which does not change any output yet, and freezes all
/// other parameters. Returns the paths of the layers. Call it before dist::tensor_parallel(), which
/// cuts an adapter as it cuts its layer, and before fully_shard(), DDP or ZeRO, whose units then
/// contain the adapters; the model may be on meta. Throws an Error, before
/// anything is changed, if no module has a target's name, or a module of that name is not a Linear.
/// \snippet test_examples_models.cpp add_lora
std::vector<std::string> add_lora(Module& model, const LoRAOptions& options);
/// The parameters of all adapters, which are the only ones that train.
std::vector<Tensor> lora_parameters(const Module& model);
/// The entries of a state that belong to adapters. The state comes from Module::state_dict(), or
/// from dist::full_state_dict(), which gathers shards.
StateDict lora_state_dict(const StateDict& state);
/// Writes only the adapters, or reads them into a model that has them. Throws an Error that lists
/// what is missing, unexpected or of the wrong shape, or that names a weight into which an adapter
/// is merged: it would stay in the weight beside the new one.
void save_lora(const Module& model, const std::string& path);
void load_lora(Module& model, const std::string& path);

/// Adds alpha / rank lora_B lora_A to the weight of each layer that has an adapter, after which
/// forward() leaves the adapters out; layers that are merged already stay as they are. `model` is
/// the whole model, or one Linear that shares its weight with nothing. A saved state cannot tell
/// that adapters are merged, so while they are, everything that saves or loads the model's state
/// (state_dict(), save(), a Checkpointer, dist::save_full(), ...) throws an Error. Throws an Error,
/// and then changes nothing, if the model has no adapters, or if a weight is a shard or tied to
/// another parameter, which would change with it.
void merge_lora(Module& model);
/// Subtracts from the weights what merge_lora() added, which rounds once more. Throws an Error, and
/// then changes nothing, as merge_lora() does.
void unmerge_lora(Module& model);
/// Removes all adapters; merged weights stay merged, and are plain weights from then on. Frozen
/// parameters stay frozen; requires_grad_() makes them train again. Throws an Error if the model
/// has no adapters.
void remove_lora(Module& model);

}  // namespace hero::nn
