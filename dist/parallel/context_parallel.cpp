#include <algorithm>
#include <string>

#include <hero/autograd/ops/collectives.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/dist/checkpoint/agree.h>
#include <hero/dist/context_parallel.h>
#include <hero/dist/parallel/random_draws.h>
#include <hero/dist/parallel/shared_sequence.h>
#include <hero/nn/attention.h>
#include <hero/nn/gpt.h>
#include <hero/nn/llama.h>

namespace hero::dist {
namespace {

int checked_slices(const Communicator& group, int slice_count) {
  check(group.defined(), "context_parallel: the group of ranks is undefined");
  const int ranks = group.size();
  if (slice_count == 0) return ranks;
  check(slice_count > 0 && slice_count % ranks == 0, "context_parallel: ", ranks,
        " ranks do not divide ", slice_count, " slices");
  const int each = slice_count / ranks;
  check((each & (each - 1)) == 0, "context_parallel: ", slice_count, " slices are ", each,
        " for each of ", ranks,
        " ranks, and sums of these would depend on the number of ranks; give each 2^k");
  return slice_count;
}

// The modules that ask where a sequence's positions are, by their paths.
struct Sharers {
  nn::Named<nn::GPT*> models;
  nn::Named<nn::Llama*> llamas;
  nn::Named<nn::CausalSelfAttention*> causal;
  nn::Named<nn::LlamaAttention*> llama_attention;
  nn::Named<nn::MultiheadAttention*> attention;

  explicit Sharers(nn::Module& module) {
    for (const auto& [path, found] : module.named_modules()) {
      if (auto* model = dynamic_cast<nn::GPT*>(found)) models.emplace_back(path, model);
      if (auto* model = dynamic_cast<nn::Llama*>(found)) llamas.emplace_back(path, model);
      if (auto* layer = dynamic_cast<nn::LlamaAttention*>(found)) {
        llama_attention.emplace_back(path, layer);
      }
      if (auto* layer = dynamic_cast<nn::CausalSelfAttention*>(found)) {
        causal.emplace_back(path, layer);
      }
      if (auto* layer = dynamic_cast<nn::MultiheadAttention*>(found)) {
        attention.emplace_back(path, layer);
      }
    }
  }
  bool any() const { return !causal.empty() || !llama_attention.empty() || !attention.empty(); }
  std::string text(int slice_count) const {
    std::string all = std::to_string(slice_count) + " slices";
    for (const auto& [path, layer] : causal) all += ", '" + path + "'";
    for (const auto& [path, layer] : llama_attention) all += ", '" + path + "'";
    for (const auto& [path, layer] : attention) all += ", '" + path + "'";
    return all;
  }
};

void check_alike(const Communicator& group, const std::string& text) {
  if (group.size() == 1) return;
  const std::vector<std::string> texts = tell_all(group, text, "context_parallel");
  for (size_t r = 1; r < texts.size(); ++r) {
    check(texts[r] == texts[0], "context_parallel: ranks share different modules: rank 0 has ",
          texts[0], ", rank ", r, " has ", texts[r], "; share the same module on every rank");
  }
}

// Slices of a rank are known where positions are dimension 1: within a GPT and within attention.
void check_sliceable(nn::Module& module, const Sharers& sharers) {
  for (const auto& [path, layer] : sharers.attention) {
    check(layer->batch_first(),
          "context_parallel: more slices than ranks want the positions second, "
          "and MultiheadAttention '",
          path, "' has them first; set batch_first, or slices to 0");
  }
  for (const auto& [name, slot] : module.slots()) {
    const auto below = [&name = name](const auto& named) {
      return named.first.empty() || name.rfind(named.first + ".", 0) == 0;
    };
    const auto any = [&below](const auto& list) {
      return std::any_of(list.begin(), list.end(), below);
    };
    check(any(sharers.models) || any(sharers.llamas) || any(sharers.attention),
          "context_parallel: more slices than ranks are for nn::GPT, nn::Llama and "
          "nn::MultiheadAttention alone, and '",
          name, "' is outside of them; set slices to 0");
    check(partition(slot->tensor) == nullptr, "context_parallel: '", name,
          "' is cut (tensor_parallel), so a rank can have one slice of the sequence alone; set "
          "slices "
          "to 0");
  }
}

void slice_model(nn::GPT& model, const std::shared_ptr<const SharedSequence>& sequence) {
  compute_in_slices(model.transformer.wte, sequence);
  for (size_t i = 0; i < model.transformer.h.size(); ++i) {
    nn::Block& block = model.transformer.h[i];
    compute_in_slices(block.ln_1, sequence);
    compute_in_slices(block.attn.c_attn, sequence);
    compute_in_slices(block.attn.c_proj, sequence);
    compute_in_slices(block.ln_2, sequence);
    compute_in_slices(block.mlp, sequence);
  }
  compute_in_slices(model.transformer.ln_f, sequence);
  compute_in_slices(model.lm_head, sequence);  // its loss has slices of its own
}

void slice_model(nn::Llama& model, const std::shared_ptr<const SharedSequence>& sequence) {
  compute_in_slices(model.model.embed_tokens, sequence);
  for (size_t i = 0; i < model.model.layers.size(); ++i) {
    nn::LlamaDecoderLayer& layer = model.model.layers[i];
    nn::LlamaAttention& attention = layer.self_attn;
    for (nn::Linear* each :
         {&attention.q_proj, &attention.k_proj, &attention.v_proj, &attention.o_proj}) {
      compute_in_slices(*each, sequence);
    }
    compute_in_slices(layer.input_layernorm, sequence);
    compute_in_slices(layer.post_attention_layernorm, sequence);
    compute_in_slices(layer.mlp, sequence);
  }
  compute_in_slices(model.model.norm, sequence);
  compute_in_slices(model.lm_head, sequence);  // its loss has slices of its own
}

}  // namespace

ContextParallel context_parallel(nn::Module& module, const Communicator& group,
                                 const ContextParallelOptions& options) {
  const int slice_count = checked_slices(group, options.slices);
  const Sharers sharers(module);
  check(sharers.any(), "context_parallel: ", module.type_name(),
        " has no attention, whose keys and values the ranks would share");
  check_alike(group, sharers.text(slice_count));
  const auto sequence = std::make_shared<const SharedSequence>(group, slice_count);
  if (slice_count == 1) return ContextParallel(sequence);
  if (sequence->slices() > 1) {
    check_sliceable(module, sharers);
    for (const auto& [path, model] : sharers.models) slice_model(*model, sequence);
    for (const auto& [path, model] : sharers.llamas) slice_model(*model, sequence);
    for (const auto& [path, layer] : sharers.attention) {
      compute_in_slices(layer->out_proj, sequence);
    }
  }
  for (const auto& [path, layer] : sharers.causal) layer->set_sequence(sequence);
  for (const auto& [path, layer] : sharers.llama_attention) layer->set_sequence(sequence);
  for (const auto& [path, layer] : sharers.attention) layer->set_sequence(sequence);
  for (const auto& [path, model] : sharers.models) model->set_sequence(sequence);
  for (const auto& [path, model] : sharers.llamas) model->set_sequence(sequence);
  refuse_draws(module);
  return ContextParallel(sequence);
}

std::vector<int64_t> ContextParallel::positions(int64_t T) const {
  return take(arange(T), 0).to_vector<int64_t>();
}

Tensor ContextParallel::take(const Tensor& x, int64_t dim) const {
  return sequence_->part_of(x, dim);
}

Tensor ContextParallel::gather(const Tensor& x, int64_t dim) const {
  const NoGrad no_grad;
  const int axis = static_cast<int>(dim < 0 ? dim + x.ndim() : dim);
  const int64_t runs = sequence_->slice_count() == 1 ? 1 : 2 * sequence_->slices();
  check(axis >= 0 && axis < x.ndim() && x.size(axis) % runs == 0, "context_parallel: dimension ",
        dim, " of ", x.shape(), " has no part of a sequence");
  return sequence_->in_order(collectives::gather(x.detach(), axis, sequence_->owners()), axis);
}

Tensor ContextParallel::mean(const Tensor& loss) const {
  return collectives::mean_out({loss}, sequence_->owners());
}

}  // namespace hero::dist
