#include <hero/core/error.h>
#include <hero/nn/hooks.h>
#include <hero/nn/parallel_form.h>

namespace hero::nn {

int64_t Parallelizable::kv_copies() const { return WithoutHooks::active() ? 1 : kv_copies_; }

void Parallelizable::set_sequence(const std::shared_ptr<const SequencePart>& sequence) {
  sequence_ = sequence;
}

bool Parallelizable::set_checkpoint(bool) { return false; }

Tensor Parallelizable::shared_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const AttentionOptions& options) const {
  if (!sequence_) return scaled_dot_product_attention(q, k, v, options);
  check(!options.mask.defined() && !options.bias.defined(),
        "shared_attention: masks and biases are of whole sequences, which ranks share here "
        "(dist::context_parallel); is_causal is what they can do");
  return sequence_->attention(q, k, v, options);
}

std::optional<ParallelForm> parallel_form_of(const Module& module) {
  const auto* said = dynamic_cast<const Parallelizable*>(&module);
  if (said == nullptr) return std::nullopt;
  return said->parallel_form();
}

Named<Module*> blocks_of(Module& module, const StackForm& stack) {
  check(!stack.blocks.empty(), module.type_name(),
        ": its parallel form has a stack without blocks");
  Named<Module*> blocks = module.get_submodule(stack.blocks).named_children();
  for (auto& [path, block] : blocks) path = stack.blocks + "." + path;
  check(!blocks.empty(), module.type_name(), ": its parallel form has its blocks in '",
        stack.blocks, "', in which there are none");
  return blocks;
}

}  // namespace hero::nn
