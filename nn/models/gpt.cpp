#include <algorithm>
#include <cmath>
#include <optional>

#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/memory/allocator.h>
#include <hero/nn/gpt.h>
#include <hero/nn/models/blocks.h>
#include <hero/nn/module/refill.h>

namespace hero::nn {

namespace before_linear {

// A norm that a linear layer alone reads: under Autocast it has autocast's dtype, to which the
// layer would cast it. Not where a hook, or what replaced a reader, would see that.
class LayerNorm : public nn::LayerNorm {
 public:
  using nn::LayerNorm::LayerNorm;
  Tensor forward(const Tensor& x) override {
    const hero::detail::HalfNorms half(read_by_linear());
    return nn::LayerNorm::forward(x);
  }
  std::vector<const Module*> readers;

 protected:
  SumAndNorm forward_sum(const Tensor& x, const Tensor& residual) override {
    const hero::detail::HalfNorms half(read_by_linear());
    return nn::LayerNorm::forward_sum(x, residual);
  }

 private:
  bool read_by_linear() const {
    return !has_hooks_for_values() && !readers.empty() &&
           std::none_of(readers.begin(), readers.end(),
                        [](const Module* reader) { return reader->has_hooks(); });
  }
};

void set_readers(nn::LayerNorm& norm, const std::vector<const Module*>& readers) {
  static_cast<LayerNorm&>(norm).readers = readers;
}

}  // namespace before_linear

namespace {

const GPTConfig& checked(const GPTConfig& c) {
  check(c.vocab_size > 0 && c.block_size > 0 && c.n_layer > 0 && c.n_head > 0 && c.n_embd > 0,
        "GPT: sizes must be positive: vocab_size ", c.vocab_size, ", block_size ", c.block_size,
        ", n_layer ", c.n_layer, ", n_head ", c.n_head, ", n_embd ", c.n_embd);
  check(c.n_embd % c.n_head == 0, "GPT: n_head ", c.n_head, " does not divide n_embd ", c.n_embd);
  const int64_t kv = c.n_kv_head.value_or(c.n_head);
  check(kv > 0 && c.n_head % kv == 0, "GPT: n_kv_head ", kv, " does not divide n_head ", c.n_head);
  Shape{c.n_embd, c.n_embd, 4}.numel("GPT");  // rows of weights are multiples of it
  check(c.dropout >= 0.0 && c.dropout <= 1.0, "GPT: dropout is outside [0, 1]: ", c.dropout);
  return c;
}

LayerNormOptions gpt_norm_options(const GPTConfig& c) {
  return {.eps = c.norm_eps, .bias = c.bias};
}

int64_t kv_rows(const GPTConfig& c) { return c.n_embd / c.n_head * c.n_kv_head.value_or(c.n_head); }

}  // namespace

CausalSelfAttention::CausalSelfAttention(const GPTConfig& config)
    : c_attn(add<Linear>("c_attn", config.n_embd, config.n_embd + 2 * kv_rows(config),
                         LinearOptions{.bias = config.bias})),
      c_proj(
          add<Linear>("c_proj", config.n_embd, config.n_embd, LinearOptions{.bias = config.bias})),
      n_head_(config.n_head),
      n_kv_head_(config.n_kv_head.value_or(config.n_head)),
      dropout_(config.dropout),
      rotary_(config.rotary ? &add<RotaryEmbedding>("rotary", config.n_embd / config.n_head)
                            : nullptr) {}

Tensor CausalSelfAttention::operator()(const Tensor& x, KeyValueCache& cache, size_t layer) {
  const Past past{cache, layer};
  return run_hooked({x}, [&](const Tensors& in) -> Tensors { return {run(in[0], &past)}; })[0];
}

Tensor CausalSelfAttention::forward(const Tensor& x) { return run(x, nullptr); }

Tensor CausalSelfAttention::run(const Tensor& x, const Past* past) {
  const Tensor qkv = c_attn(x);
  const int64_t B = qkv.size(0), T = qkv.size(1), D = x.size(2) / n_head_;
  const int64_t kv_heads = n_kv_head_ * kv_copies();
  const int64_t all = n_head_ + 2 * kv_heads;  // heads; here may be a part of them
  const int64_t C = qkv.size(2) * n_head_ / all, rows = qkv.size(2) * kv_heads / all;
  check(C == x.size(2) || dropout_ == 0.0 || !training(), "CausalSelfAttention: dropout ", dropout_,
        " of the attention weights of ", C / D, " of ", n_head_,
        " heads would not be that of all; train with dropout 0 where heads are cut");
  check(sequence() == nullptr || past == nullptr,
        "CausalSelfAttention: keys and values of a past are of whole sequences, and here ranks "
        "share them (dist::context_parallel); generate with a model of its own");
  const std::vector<Tensor> parts = split(qkv, {C, rows, rows}, 2);
  const auto heads = [&](const Tensor& part) {  // [B, T, H D] to [B, H, T, D]
    return transpose(part.reshape({B, T, part.size(2) / D, D}), 1, 2);
  };
  Tensor q = heads(parts[0]), k = heads(parts[1]);
  const Tensor v = heads(parts[2]);
  Tensor y;
  if (past == nullptr) {
    if (rotary_ != nullptr) {
      q = turned_by_position(*rotary_, q, sequence());
      k = turned_by_position(*rotary_, k, sequence());
    }
    y = attend(q, k, v);
  } else {
    if (rotary_ != nullptr) {
      q = (*rotary_)(q, past->cache.first());
      k = (*rotary_)(k, past->cache.first());
    }
    y = past->cache.attend(past->layer, q, k, v, {.enable_gqa = n_kv_head_ != n_head_});
  }
  return dropout(c_proj(transpose(y, 1, 2).reshape({B, T, C})), dropout_, training());
}

Tensor CausalSelfAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v) const {
  return shared_attention(q, k, v,
                          {.is_causal = true,
                           .dropout_p = training() ? dropout_ : 0.0,
                           .enable_gqa = n_kv_head_ != n_head_});
}

ParallelForm CausalSelfAttention::parallel_form() const {
  return {.attention = {{.heads = n_head_,
                         .kv_heads = n_kv_head_,
                         .weights = {{"c_attn", {Heads::queries, Heads::keys, Heads::values}},
                                     {"c_proj"}}}},
          .by_position = {"c_attn", "c_proj"},
          .shares_sequence = true};
}

FeedForward::FeedForward(const GPTConfig& config)
    : c_fc(add<Linear>("c_fc", config.n_embd, 4 * config.n_embd,
                       LinearOptions{.bias = config.bias})),
      c_proj(add<Linear>("c_proj", 4 * config.n_embd, config.n_embd,
                         LinearOptions{.bias = config.bias})),
      dropout_(config.dropout),
      gelu_(config.gelu) {}

Tensor FeedForward::forward(const Tensor& x) {
  const bool apart = c_fc.has_hooks_for_values() || c_proj.has_hooks_for_values();
  return dropout(apart ? c_proj(gelu(c_fc(x), gelu_)) : fused(x), dropout_, training());
}

// Both layers and what is between them, one node under every strategy: its bits are not those of
// three.
Tensor FeedForward::fused(const Tensor& x) {
  return c_fc.run_fused(x, [this](const Tensor& in) {
    return c_proj.run_fused(in, [this](const Tensor& rows) {
      return linear_gelu_linear(rows, {c_fc.weight, c_fc.bias}, {c_proj.weight, c_proj.bias},
                                gelu_);
    });
  });
}

ParallelForm FeedForward::parallel_form() const {
  return {.cuts = {{"c_fc", Cut::rows}, {"c_proj", Cut::columns}}};
}

Block::Block(const GPTConfig& config)
    : ln_1(add<before_linear::LayerNorm>("ln_1", Shape{config.n_embd}, gpt_norm_options(config))),
      attn(add<CausalSelfAttention>("attn", config)),
      ln_2(add<before_linear::LayerNorm>("ln_2", Shape{config.n_embd}, gpt_norm_options(config))),
      mlp(add<FeedForward>("mlp", config)) {
  before_linear::set_readers(ln_1, {&attn, &attn.c_attn});
  before_linear::set_readers(ln_2, {&mlp, &mlp.c_fc});
}

Tensor Block::operator()(const Tensor& x, KeyValueCache& cache, size_t layer) {
  return run_hooked({x}, [&](const Tensors& in) -> Tensors {
    const auto [y, norm] = ln_2(in[0], attn(ln_1(in[0]), cache, layer));
    return {y + mlp(norm)};
  })[0];
}

SumAndNorm Block::operator()(const SumAndNorm& x, LayerNorm& next) {
  const Tensors out = run_hooked({x.sum, x.norm}, [&](const Tensors& in) -> Tensors {
    const auto [y, norm] = ln_2(in[0], attn(in[1]));
    const auto [sum, next_norm] = next(y, mlp(norm));
    return {sum, next_norm};
  });
  return {out[0], out[1]};
}

// [snippet: block]
Tensor Block::forward(const Tensor& x) {
  const auto [y, norm] = ln_2(x, attn(ln_1(x)));  // y = x + attn(..), norm = ln_2(y)
  return y + mlp(norm);
}
// [end]

ParallelForm Block::parallel_form() const { return {.by_position = {"ln_1", "ln_2", "mlp"}}; }

GPT::Transformer::Transformer(const GPTConfig& config)
    : wte(add<Embedding>("wte", config.vocab_size, config.n_embd)),
      wpe(config.rotary ? nullptr : &add<Embedding>("wpe", config.block_size, config.n_embd)),
      h(add<ModuleListOf<Block>>("h")),
      ln_f(add<before_linear::LayerNorm>("ln_f", Shape{config.n_embd}, gpt_norm_options(config))) {
  core::check_room("GPT", config.n_layer);
  for (int64_t i = 0; i < config.n_layer; ++i) h.append(config);
}

GPT::GPT(const GPTConfig& config)
    : transformer(add<Transformer>("transformer", checked(config))),
      lm_head([&]() -> Linear& {
        std::optional<DeviceScope> planned;  // its own weight never takes memory where it is tied
        if (config.tie_weights) planned.emplace(kMeta);
        return add<Linear>("lm_head", config.n_embd, config.vocab_size,
                           LinearOptions{.bias = false});
      }()),
      config_(config) {
  if (config.tie_weights) lm_head.weight = transformer.wte.weight;
  before_linear::set_readers(transformer.ln_f, {&lm_head});
  init_parameters();
}

void GPT::init_parameters() {
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(config_.n_layer));
  const auto ends_with = [](const std::string& name, const std::string& end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  for (auto& [name, slot] : slots()) {
    const bool tied = config_.tie_weights && name == "lm_head.weight";
    if (tied || slot->tensor.ndim() == 0 || name.find("ln_") != std::string::npos) continue;
    if (ends_with(name, "bias")) {
      refill(*slot, init::zeros());
    } else {
      refill(*slot, init::normal(0.0, ends_with(name, "c_proj.weight") ? residual : 0.02));
    }
  }
}

// Tokens [B, T] at the cache's new positions, or from 0 on: [B, T, C], of which a rank of several
// that share the sequence has its own positions.
Tensor GPT::embed(const Tensor& tokens, const KeyValueCache* cache) {
  check(sequence() == nullptr || config_.dropout == 0.0 || !training(), "GPT: dropout ",
        config_.dropout,
        " would draw alike for the positions of several ranks that share a sequence "
        "(dist::context_parallel); train with dropout 0");
  Tensor x = transformer.wte(sequence() ? sequence()->take(tokens, 1) : tokens);
  if (transformer.wpe != nullptr) {
    const Tensor positions = cache != nullptr
                                 ? cache->positions(tokens.device())
                                 : arange(Scalar(tokens.size(1)), {.device = tokens.device()});
    x = x + (*transformer.wpe)(sequence() ? sequence()->take(positions, 0) : positions);
  }
  return dropout(x, config_.dropout, training());
}

// As run_blocks() of this model's.
Tensor GPT::run_range(const Tensor& x, size_t begin, size_t end, bool with_norm) {
  return run_blocks(transformer.h, transformer.ln_f, {config_.checkpoint, &config_.offload}, begin,
                    end, x, with_norm ? LastNorm::yes : LastNorm::no);
}

// What lm_head reads of what the layers before `begin` made: [B, T, C].
Tensor GPT::run_to_head(size_t begin, const Tensor& x) {
  if (begin == 0) return features(x);
  return run_range(x, begin - 1, transformer.h.size(), true);
}

Tensor GPT::run_layers(size_t begin, size_t end, const Tensor& x) {
  const size_t head = transformer.h.size() + 1;
  check(begin < end && end <= layers(), "GPT: layers ", begin, " to ", end, " of ", layers());
  if (end > head) return lm_head(run_to_head(begin, x));
  const Tensor y = begin == 0 ? embed(checked_tokens(x)) : x;
  return run_range(y, begin == 0 ? 0 : begin - 1, end - 1, false);
}

Tensor GPT::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  check(begin < layers(), "GPT: a loss from layer ", begin, " of ", layers());
  return head_loss(run_to_head(begin, x), target);
}

double GPT::target_count(const Tensor& target) const { return valid_targets(target); }

Tensor GPT::run_layers_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) {
  const size_t head = transformer.h.size() + 1;
  check(begin < end && end <= layers(), "GPT: layers ", begin, " to ", end, " of ", layers());
  Tensor y = begin == 0 ? embed(x, &cache) : x;
  for (size_t i = std::max<size_t>(begin, 1); i < std::min(end, head); ++i) {
    y = transformer.h[i - 1](y, cache, i - 1);
  }
  return end > head ? lm_head(transformer.ln_f(cache.last(y))) : y;
}

Tensor GPT::next_logits(const Tensor& tokens, KeyValueCache& cache) {
  check_generates(sequence());
  return run_hooked({tokens}, [&](const Tensors& in) -> Tensors {
    return {run_layers_after(cache, 0, layers(), in[0])};
  })[0];
}

std::vector<Module*> GPT::modules_of(size_t layer) {
  check(layer < layers(), "GPT: layer ", layer, " of ", layers());
  if (layer + 1 == layers()) return {&transformer.ln_f, &lm_head};
  if (layer > 0) return {&transformer.h[layer - 1]};
  if (transformer.wpe == nullptr) return {&transformer.wte};
  return {&transformer.wte, transformer.wpe};
}

// What lm_head reads of tokens [B, T] or [T]: [B, T, C].
Tensor GPT::features(const Tensor& tokens) {
  return run_range(embed(checked_tokens(tokens)), 0, transformer.h.size(), true);
}

// Tokens [B, T] or [T] as [B, T].
Tensor GPT::checked_tokens(const Tensor& tokens) const {
  check(tokens.ndim() == 1 || tokens.ndim() == 2, "GPT: tokens must be [B, T] or [T]: got ",
        tokens.shape());
  check(tokens.size(-1) > 0 && tokens.size(-1) <= config_.block_size, "GPT: ", tokens.size(-1),
        " tokens do not fit the block size of ", config_.block_size);
  return tokens.ndim() == 1 ? unsqueeze(tokens, 0) : tokens;
}

Tensor GPT::forward(const Tensor& tokens) {
  const Tensor logits = lm_head(features(tokens));
  return tokens.ndim() == 1 ? logits.squeeze(0) : logits;
}

Tensor GPT::loss(const Tensor& tokens, const Tensor& targets) {
  return run_hooked({tokens, targets}, [this](const Tensors& in) -> Tensors {
    check(in[0].shape() == in[1].shape(), "GPT: targets ", in[1].shape(), " do not fit tokens ",
          in[0].shape());
    const bool keeps = sequence() && is_same(lm_head.weight, transformer.wte.weight);
    const auto kept = keeps ? sequence()->keep_copies(lm_head.weight) : nullptr;
    return {head_loss(features(in[0]), in[1])};
  })[0];
}

// The loss of what features() gives, [B, T, C].
Tensor GPT::head_loss(const Tensor& features, const Tensor& targets) {
  if (sequence()) return shared_head_loss("GPT", lm_head, *sequence(), features, targets);
  return head_loss_of(lm_head, features, targets);
}

ParallelForm GPT::parallel_form() const {
  StackForm stack{.embedding = {"transformer.wte"},
                  .blocks = "transformer.h",
                  .norm = "transformer.ln_f",
                  .head = "lm_head"};
  ParallelForm form{.cuts = {{"transformer.wte", Cut::vocabulary}, {"lm_head", Cut::vocabulary}},
                    .by_position = {"transformer.wte", "transformer.ln_f", "lm_head"},
                    .shares_sequence = true};
  if (transformer.wpe != nullptr) {
    stack.embedding.push_back("transformer.wpe");
    form.position_parameters = {"transformer.wpe.weight"};
  }
  form.stack = std::move(stack);
  return form;
}

void GPT::set_sequence(const std::shared_ptr<const SequencePart>& sequence) {
  Parallelizable::set_sequence(sequence);
  for (size_t i = 0; i < transformer.h.size(); ++i) transformer.h[i].attn.set_sequence(sequence);
}

}  // namespace hero::nn
