#include <algorithm>

#include <hero/core/memory/allocator.h>
#include <hero/nn/llama.h>
#include <hero/nn/models/blocks.h>
#include <hero/nn/module/refill.h>

namespace hero::nn {

namespace {

int64_t head_dim_of(const LlamaConfig& c) {
  return c.head_dim.value_or(c.hidden_size / c.num_attention_heads);
}

int64_t kv_heads_of(const LlamaConfig& c) {
  return c.num_key_value_heads.value_or(c.num_attention_heads);
}

const LlamaConfig& checked_llama(const LlamaConfig& c) {
  check(c.vocab_size > 0 && c.hidden_size > 0 && c.intermediate_size > 0 &&
            c.num_hidden_layers > 0 && c.num_attention_heads > 0 && c.max_position_embeddings > 0,
        "Llama: sizes must be positive: vocab_size ", c.vocab_size, ", hidden_size ", c.hidden_size,
        ", intermediate_size ", c.intermediate_size, ", num_hidden_layers ", c.num_hidden_layers,
        ", num_attention_heads ", c.num_attention_heads, ", max_position_embeddings ",
        c.max_position_embeddings);
  check(c.head_dim || c.hidden_size % c.num_attention_heads == 0, "Llama: num_attention_heads ",
        c.num_attention_heads, " does not divide hidden_size ", c.hidden_size, "; give a head_dim");
  check(head_dim_of(c) > 0 && head_dim_of(c) % 2 == 0, "Llama: head_dim is ", head_dim_of(c),
        "; it must be even and positive, as pairs of elements turn");
  check(kv_heads_of(c) > 0 && c.num_attention_heads % kv_heads_of(c) == 0,
        "Llama: num_key_value_heads ", kv_heads_of(c), " does not divide num_attention_heads ",
        c.num_attention_heads);
  Shape{c.num_attention_heads, head_dim_of(c), c.hidden_size}.numel("Llama");
  return c;
}

RMSNormOptions rms_options(const LlamaConfig& c) { return {.eps = c.rms_norm_eps}; }

}  // namespace

LlamaAttention::LlamaAttention(const LlamaConfig& c)
    : q_proj(add<Linear>("q_proj", c.hidden_size, c.num_attention_heads * head_dim_of(c),
                         LinearOptions{.bias = c.qkv_bias})),
      k_proj(add<Linear>("k_proj", c.hidden_size, kv_heads_of(c) * head_dim_of(c),
                         LinearOptions{.bias = c.qkv_bias})),
      v_proj(add<Linear>("v_proj", c.hidden_size, kv_heads_of(c) * head_dim_of(c),
                         LinearOptions{.bias = c.qkv_bias})),
      o_proj(add<Linear>("o_proj", c.num_attention_heads * head_dim_of(c), c.hidden_size,
                         LinearOptions{.bias = c.o_bias})),
      rotary_emb(
          add<RotaryEmbedding>("rotary_emb", head_dim_of(c),
                               RotaryOptions{.base = c.rope_theta, .scaling = c.rope_scaling})),
      heads_(c.num_attention_heads),
      kv_heads_(kv_heads_of(c)),
      dim_(head_dim_of(c)) {}

Tensor LlamaAttention::operator()(const Tensor& x, KeyValueCache& cache, size_t layer) {
  const Past past{cache, layer};
  return run_hooked({x}, [&](const Tensors& in) -> Tensors { return {run(in[0], &past)}; })[0];
}

Tensor LlamaAttention::forward(const Tensor& x) { return run(x, nullptr); }

Tensor LlamaAttention::run(const Tensor& x, const Past* past) {
  const auto heads = [this](const Tensor& rows) {  // [B, T, H D] to [B, H, T, D]
    return transpose(rows.reshape({rows.size(0), rows.size(1), rows.size(2) / dim_, dim_}), 1, 2);
  };
  const Tensor q = heads(q_proj(x)), k = heads(k_proj(x)), v = heads(v_proj(x));
  const bool grouped = heads_ != kv_heads_;
  Tensor y;
  if (past == nullptr) {
    const Tensor turned_q = turned_by_position(rotary_emb, q, sequence());
    const Tensor turned_k = turned_by_position(rotary_emb, k, sequence());
    const AttentionOptions options{.is_causal = true, .enable_gqa = grouped};
    y = shared_attention(turned_q, turned_k, v, options);
  } else {
    check_generates(sequence());
    const auto first = past->cache.first();
    y = past->cache.attend(past->layer, rotary_emb(q, first), rotary_emb(k, first), v,
                           {.enable_gqa = grouped});
  }
  return o_proj(transpose(y, 1, 2).reshape({y.size(0), y.size(2), y.size(1) * dim_}));
}

ParallelForm LlamaAttention::parallel_form() const {
  return {.attention = {{.heads = heads_,
                         .kv_heads = kv_heads_,
                         .weights = {{"q_proj", {Heads::queries}},
                                     {"k_proj", {Heads::keys}},
                                     {"v_proj", {Heads::values}},
                                     {"o_proj"}}}},
          .by_position = {"q_proj", "k_proj", "v_proj", "o_proj"},
          .shares_sequence = true};
}

LlamaMLP::LlamaMLP(const LlamaConfig& c)
    : gate_proj(add<Linear>("gate_proj", c.hidden_size, c.intermediate_size,
                            LinearOptions{.bias = c.mlp_bias})),
      up_proj(add<Linear>("up_proj", c.hidden_size, c.intermediate_size,
                          LinearOptions{.bias = c.mlp_bias})),
      down_proj(add<Linear>("down_proj", c.intermediate_size, c.hidden_size,
                            LinearOptions{.bias = c.mlp_bias})) {}

// Compilers differ in which operand they evaluate first, and shards travel in the order of the
// graph.
Tensor LlamaMLP::forward(const Tensor& x) {
  const Tensor up = up_proj(x);
  return down_proj(silu(gate_proj(x)) * up);
}

ParallelForm LlamaMLP::parallel_form() const {
  return {.cuts = {{"gate_proj", Cut::rows}, {"up_proj", Cut::rows}, {"down_proj", Cut::columns}}};
}

LlamaDecoderLayer::LlamaDecoderLayer(const LlamaConfig& c)
    : self_attn(add<LlamaAttention>("self_attn", c)),
      mlp(add<LlamaMLP>("mlp", c)),
      input_layernorm(add<RMSNorm>("input_layernorm", Shape{c.hidden_size}, rms_options(c))),
      post_attention_layernorm(
          add<RMSNorm>("post_attention_layernorm", Shape{c.hidden_size}, rms_options(c))) {}

Tensor LlamaDecoderLayer::operator()(const Tensor& x, KeyValueCache& cache, size_t layer) {
  return run_hooked({x}, [&](const Tensors& in) -> Tensors {
    const auto [y, norm] =
        post_attention_layernorm(in[0], self_attn(input_layernorm(in[0]), cache, layer));
    return {y + mlp(norm)};
  })[0];
}

SumAndNorm LlamaDecoderLayer::operator()(const SumAndNorm& x, RMSNorm& next) {
  const Tensors out = run_hooked({x.sum, x.norm}, [&](const Tensors& in) -> Tensors {
    const auto [y, norm] = post_attention_layernorm(in[0], self_attn(in[1]));
    const auto [sum, next_norm] = next(y, mlp(norm));
    return {sum, next_norm};
  });
  return {out[0], out[1]};
}

Tensor LlamaDecoderLayer::forward(const Tensor& x) {
  const auto [y, norm] = post_attention_layernorm(x, self_attn(input_layernorm(x)));
  return y + mlp(norm);
}

ParallelForm LlamaDecoderLayer::parallel_form() const {
  return {.by_position = {"input_layernorm", "post_attention_layernorm", "mlp"}};
}

Llama::Body::Body(const LlamaConfig& c)
    : embed_tokens(add<Embedding>("embed_tokens", c.vocab_size, c.hidden_size)),
      layers(add<ModuleListOf<LlamaDecoderLayer>>("layers")),
      norm(add<RMSNorm>("norm", Shape{c.hidden_size}, rms_options(c))) {
  core::check_room("Llama", c.num_hidden_layers);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) layers.append(c);
}

Llama::Llama(const LlamaConfig& config)
    : model(add<Body>("model", checked_llama(config))),
      lm_head([&]() -> Linear& {
        std::optional<DeviceScope> planned;  // its own weight never takes memory where it is tied
        if (config.tie_word_embeddings) planned.emplace(kMeta);
        return add<Linear>("lm_head", config.hidden_size, config.vocab_size,
                           LinearOptions{.bias = false});
      }()),
      config_(config) {
  if (config.tie_word_embeddings) lm_head.weight = model.embed_tokens.weight;
  init_parameters();
}

void Llama::init_parameters() {
  for (auto& [name, slot] : slots()) {
    const bool tied = config_.tie_word_embeddings && name == "lm_head.weight";
    if (tied || name.find("norm.") != std::string::npos) continue;
    refill(*slot,
           slot->tensor.ndim() == 1 ? init::zeros() : init::normal(0.0, config_.initializer_range));
  }
}

Tensor Llama::checked_tokens(const Tensor& tokens) const {
  check(tokens.ndim() == 1 || tokens.ndim() == 2, "Llama: tokens must be [B, T] or [T]: got ",
        tokens.shape());
  check(tokens.size(-1) > 0 && tokens.size(-1) <= context_length(), "Llama: ", tokens.size(-1),
        " tokens do not fit max_position_embeddings of ", context_length());
  return tokens.ndim() == 1 ? unsqueeze(tokens, 0) : tokens;
}

int64_t Llama::context_length() const {
  const RotaryScaling& scaling = config_.rope_scaling;
  if (scaling.kind != RotaryScaling::Kind::dynamic) return config_.max_position_embeddings;
  return static_cast<int64_t>(
      std::min(0x1p53, static_cast<double>(config_.max_position_embeddings) * scaling.factor));
}

// As run_blocks() of this model's.
Tensor Llama::run_range(const Tensor& x, size_t begin, size_t end, bool with_norm) {
  return run_blocks(model.layers, model.norm, {config_.checkpoint, &config_.offload}, begin, end, x,
                    with_norm ? LastNorm::yes : LastNorm::no);
}

// Tokens [B, T] or [T] as [B, T, C], of which a rank of several that share the sequence has its own
// positions.
Tensor Llama::embed(const Tensor& tokens) {
  const Tensor rows = checked_tokens(tokens);
  return model.embed_tokens(sequence() ? sequence()->take(rows, 1) : rows);
}

// What lm_head reads of what the layers before `begin` made: [B, T, C].
Tensor Llama::features_from(size_t begin, const Tensor& x) {
  const Tensor y = begin == 0 ? embed(x) : x;
  return run_range(y, begin == 0 ? 0 : begin - 1, model.layers.size(), true);
}

Tensor Llama::forward(const Tensor& tokens) {
  const Tensor logits = lm_head(features_from(0, tokens));
  return tokens.ndim() == 1 ? logits.squeeze(0) : logits;
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets) {
  return run_hooked({tokens, targets}, [this](const Tensors& in) -> Tensors {
    check(in[0].shape() == in[1].shape(), "Llama: targets ", in[1].shape(), " do not fit tokens ",
          in[0].shape());
    const bool keeps = sequence() && is_same(lm_head.weight, model.embed_tokens.weight);
    const auto kept = keeps ? sequence()->keep_copies(lm_head.weight) : nullptr;
    return {head_loss(features_from(0, in[0]), in[1])};
  })[0];
}

Tensor Llama::head_loss(const Tensor& features, const Tensor& targets) {
  if (sequence()) return shared_head_loss("Llama", lm_head, *sequence(), features, targets);
  return head_loss_of(lm_head, features, targets);
}

ParallelForm Llama::parallel_form() const {
  return {.cuts = {{"model.embed_tokens", Cut::vocabulary}, {"lm_head", Cut::vocabulary}},
          .stack = {{.embedding = {"model.embed_tokens"},
                     .blocks = "model.layers",
                     .norm = "model.norm",
                     .head = "lm_head"}},
          .by_position = {"model.embed_tokens", "model.norm", "lm_head"},
          .shares_sequence = true};
}

void Llama::set_sequence(const std::shared_ptr<const SequencePart>& sequence) {
  check(config_.rope_scaling.kind != RotaryScaling::Kind::dynamic,
        "Llama: ranks that share a sequence do not know its length, on which dynamic scaling of "
        "rotations depends; use linear, llama3 or yarn");
  Parallelizable::set_sequence(sequence);
  for (size_t i = 0; i < model.layers.size(); ++i) model.layers[i].self_attn.set_sequence(sequence);
}

Tensor Llama::run_layers(size_t begin, size_t end, const Tensor& x) {
  check(begin < end && end <= layers(), "Llama: layers ", begin, " to ", end, " of ", layers());
  if (end == layers()) return lm_head(features_from(begin, x));
  const Tensor y = begin == 0 ? embed(x) : x;
  return run_range(y, begin == 0 ? 0 : begin - 1, end - 1, false);
}

Tensor Llama::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  check(begin < layers(), "Llama: a loss from layer ", begin, " of ", layers());
  return head_loss(features_from(begin, x), target);
}

double Llama::target_count(const Tensor& target) const { return valid_targets(target); }

std::vector<Module*> Llama::modules_of(size_t layer) {
  check(layer < layers(), "Llama: layer ", layer, " of ", layers());
  if (layer + 1 == layers()) return {&model.norm, &lm_head};
  if (layer > 0) return {&model.layers[layer - 1]};
  return {&model.embed_tokens};
}

Tensor Llama::run_layers_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) {
  const size_t head = model.layers.size() + 1;
  check(begin < end && end <= layers(), "Llama: layers ", begin, " to ", end, " of ", layers());
  Tensor y = begin == 0 ? model.embed_tokens(x) : x;
  for (size_t i = std::max<size_t>(begin, 1); i < std::min(end, head); ++i) {
    y = model.layers[i - 1](y, cache, i - 1);
  }
  return end > head ? lm_head(model.norm(cache.last(y))) : y;
}

Tensor Llama::next_logits(const Tensor& tokens, KeyValueCache& cache) {
  check_generates(sequence());
  return run_hooked({tokens}, [&](const Tensors& in) -> Tensors {
    return {run_layers_after(cache, 0, layers(), in[0])};
  })[0];
}

}  // namespace hero::nn
