#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/memory/allocator.h>
#include <hero/nn/causal_lm.h>
#include <hero/nn/module/reset_parameter.h>

namespace hero::nn {

namespace before_linear {

// A norm whose output only linear layers read: under Autocast it is computed in autocast's dtype,
// to which those layers would cast it, unless a hook, or a module that replaced such a layer, would
// see the difference.
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

void set_readers(ResidualNorm& norm, const std::vector<const Module*>& readers) {
  if (auto* layer_norm = dynamic_cast<LayerNorm*>(&norm)) layer_norm->readers = readers;
}

}  // namespace before_linear

namespace {

int64_t head_dim_of(const CausalLMConfig& c) { return c.head_dim.value_or(c.width / c.heads); }

int64_t kv_heads_of(const CausalLMConfig& c) { return c.kv_heads.value_or(c.heads); }

int64_t inner_width_of(const CausalLMConfig& c) { return c.inner_width.value_or(4 * c.width); }

const CausalLMConfig& checked_lm(const CausalLMConfig& c) {
  const std::string& model = c.names.model;
  check(c.vocab_size > 0 && c.context_length > 0 && c.layers > 0 && c.heads > 0 && c.width > 0,
        model, ": sizes must be positive: vocab_size ", c.vocab_size, ", context_length ",
        c.context_length, ", layers ", c.layers, ", heads ", c.heads, ", width ", c.width);
  Shape{c.width, c.width, 4}.numel(model.c_str());  // before it is multiplied by 4
  check(c.head_dim || c.width % c.heads == 0, model, ": heads ", c.heads, " does not divide width ",
        c.width, "; give a head_dim");
  check(head_dim_of(c) > 0 && inner_width_of(c) > 0, model, ": head_dim ", head_dim_of(c),
        " and inner_width ", inner_width_of(c), " must be positive");
  check(kv_heads_of(c) > 0 && c.heads % kv_heads_of(c) == 0, model, ": kv_heads ", kv_heads_of(c),
        " does not divide heads ", c.heads);
  Shape{c.heads, head_dim_of(c), c.width, 3}.numel(model.c_str());
  check(c.dropout >= 0.0 && c.dropout <= 1.0, model, ": dropout is outside [0, 1]: ", c.dropout);
  std::vector<Heads> rows;
  for (const HeadWeight& each : c.names.projections) {
    rows.insert(rows.end(), each.rows.begin(), each.rows.end());
  }
  std::sort(rows.begin(), rows.end());
  check(rows == std::vector{Heads::queries, Heads::keys, Heads::values}, model,
        ": names.projections must give queries, keys and values, each once");
  return c;
}

// An Error where a model whose ranks share sequences is asked for one token at a time.
void check_generates(const SequencePart* sequence) {
  check(sequence == nullptr,
        "generate: ranks share each sequence of this model (dist::context_parallel), and one token "
        "at a time is no sequence; load its state into a model of its own");
}

// x [B, H, T, D] turned by the positions from 0 on or, with a sequence, by those of this rank.
Tensor turned_by_position(RotaryEmbedding& rotary, const Tensor& x, const SequencePart* sequence) {
  if (sequence == nullptr) return rotary(x);
  const std::vector<int64_t> begins = sequence->begins(x.size(2));
  const std::vector<Tensor> runs = split(x, x.size(2) / static_cast<int64_t>(begins.size()), 2);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < runs.size(); ++i) parts.push_back(rotary(runs[i], begins[i]));
  return cat(parts, 2);
}

}  // namespace

ResidualNorm& CausalLMPart::add_norm(const std::string& name, const CausalLMConfig& c) {
  if (c.rms_norm) return add<RMSNorm>(name, Shape{c.width}, RMSNormOptions{.eps = c.norm_eps});
  return add<before_linear::LayerNorm>(name, Shape{c.width},
                                       LayerNormOptions{.eps = c.norm_eps, .bias = c.norm_bias});
}

CausalSelfAttention::CausalSelfAttention(const CausalLMConfig& c)
    : CausalLMPart(c.names.attention_type),
      projections(added_projections(checked_lm(c))),
      out(add<Linear>(c.names.attention_out, c.heads * head_dim_of(c), c.width,
                      LinearOptions{.bias = c.attention_bias})),
      weights_(c.names.projections),
      heads_(c.heads),
      kv_heads_(kv_heads_of(c)),
      dim_(head_dim_of(c)),
      dropout_(c.dropout),
      rotary_(c.rotary ? &add<RotaryEmbedding>(c.names.rotary, dim_, *c.rotary) : nullptr) {
  weights_.push_back({c.names.attention_out});
}

std::vector<Linear*> CausalSelfAttention::added_projections(const CausalLMConfig& c) {
  std::vector<Linear*> added;
  for (const HeadWeight& each : c.names.projections) {
    int64_t heads = 0;
    for (const Heads rows : each.rows) heads += rows == Heads::queries ? c.heads : kv_heads_of(c);
    added.push_back(&add<Linear>(each.path, c.width, heads * head_dim_of(c),
                                 LinearOptions{.bias = c.qkv_bias}));
  }
  return added;
}

Tensor CausalSelfAttention::operator()(const Tensor& x, KeyValueCache& cache, size_t layer) {
  const Past past{cache, layer};
  return run_hooked({x}, [&](const Tensors& in) -> Tensors { return {run(in[0], &past)}; })[0];
}

Tensor CausalSelfAttention::forward(const Tensor& x) { return run(x, nullptr); }

Tensor CausalSelfAttention::run(const Tensor& x, const Past* past) {
  std::array<Tensor, 3> qkv;  // [B, H, T, D], in the order of Heads
  for (size_t i = 0; i < projections.size(); ++i) {
    const Tensor y = (*projections[i])(x);
    const std::vector<Heads>& rows = weights_[i].rows;
    int64_t all = 0;  // heads of the whole layer in y, which may have a part of them
    std::vector<int64_t> sizes;
    for (const Heads each : rows) {
      sizes.push_back(each == Heads::queries ? heads_ : kv_heads_ * kv_copies());
      all += sizes.back();
    }
    for (int64_t& size : sizes) size = y.size(2) * size / all;
    const std::vector<Tensor> parts = rows.size() == 1 ? std::vector{y} : split(y, sizes, 2);
    for (size_t p = 0; p < parts.size(); ++p) {
      const Shape heads = {y.size(0), y.size(1), sizes[p] / dim_, dim_};
      qkv[static_cast<size_t>(rows[p])] = transpose(parts[p].reshape(heads), 1, 2);
    }
  }
  auto& [q, k, v] = qkv;
  check(q.size(1) == heads_ || dropout_ == 0.0 || !training(), "CausalSelfAttention: dropout ",
        dropout_, " of the attention weights of ", q.size(1), " of ", heads_,
        " heads would not be that of all; train with dropout 0 where heads are cut");
  const bool grouped = heads_ != kv_heads_;
  Tensor y;
  if (past == nullptr) {
    if (rotary_ != nullptr) {
      q = turned_by_position(*rotary_, q, sequence());
      k = turned_by_position(*rotary_, k, sequence());
    }
    y = shared_attention(
        q, k, v,
        {.is_causal = true, .dropout_p = training() ? dropout_ : 0.0, .enable_gqa = grouped});
  } else {
    check_generates(sequence());
    if (rotary_ != nullptr) {
      q = (*rotary_)(q, past->cache.first());
      k = (*rotary_)(k, past->cache.first());
    }
    y = past->cache.attend(past->layer, q, k, v, {.enable_gqa = grouped});
  }
  const Tensor rows = transpose(y, 1, 2).reshape({y.size(0), y.size(2), y.size(1) * dim_});
  return dropout(out(rows), dropout_, training());
}

ParallelForm CausalSelfAttention::parallel_form() const {
  ParallelForm form{.attention = {{.heads = heads_, .kv_heads = kv_heads_, .weights = weights_}},
                    .shares_sequence = true};
  for (const HeadWeight& each : weights_) form.by_position.push_back(each.path);
  return form;
}

FeedForward::FeedForward(const CausalLMConfig& c)
    : CausalLMPart(c.names.mlp_type),
      gate(c.gated ? &add<Linear>(c.names.gate, c.width, inner_width_of(c),
                                  LinearOptions{.bias = c.mlp_bias})
                   : nullptr),
      up(add<Linear>(c.names.up, c.width, inner_width_of(c), LinearOptions{.bias = c.mlp_bias})),
      down(
          add<Linear>(c.names.down, inner_width_of(c), c.width, LinearOptions{.bias = c.mlp_bias})),
      dropout_(c.dropout),
      gelu_(c.gelu) {}

Tensor FeedForward::forward(const Tensor& x) {
  Tensor y;
  if (gate != nullptr) {
    // Compilers differ in which operand they evaluate first, and shards travel in the order of the
    // graph.
    const Tensor values = up(x);
    y = down(silu((*gate)(x)) * values);
  } else {
    const bool apart = up.has_hooks_for_values() || down.has_hooks_for_values();
    y = apart ? down(gelu(up(x), gelu_)) : fused(x);
  }
  return dropout(y, dropout_, training());
}

// Both layers and what is between them, one node under every strategy: its bits are not those of
// three.
Tensor FeedForward::fused(const Tensor& x) {
  return up.run_fused(x, [this](const Tensor& in) {
    return down.run_fused(in, [this](const Tensor& rows) {
      return linear_gelu_linear(rows, {up.weight, up.bias}, {down.weight, down.bias}, gelu_);
    });
  });
}

ParallelForm FeedForward::parallel_form() const {
  ParallelForm form{.cuts = {{up.name(), Cut::colwise}, {down.name(), Cut::rowwise}}};
  if (gate != nullptr) form.cuts.insert(form.cuts.begin(), {gate->name(), Cut::colwise});
  return form;
}

Block::Block(const CausalLMConfig& c)
    : CausalLMPart(c.names.block_type),
      parts_(added_parts(c)),
      by_position_({c.names.norm_1, c.names.norm_2, c.names.mlp}),
      norm_1(*parts_.norm_1),
      attn(*parts_.attn),
      norm_2(*parts_.norm_2),
      mlp(*parts_.mlp) {
  std::vector<const Module*> readers(attn.projections.begin(), attn.projections.end());
  readers.push_back(&attn);
  before_linear::set_readers(norm_1, readers);
  before_linear::set_readers(norm_2, {&mlp, &mlp.up});
}

Block::Parts Block::added_parts(const CausalLMConfig& c) {
  Parts parts;
  if (!c.names.norms_last) parts.norm_1 = &add_norm(c.names.norm_1, c);
  parts.attn = &add<CausalSelfAttention>(c.names.attention, c);
  if (!c.names.norms_last) parts.norm_2 = &add_norm(c.names.norm_2, c);
  parts.mlp = &add<FeedForward>(c.names.mlp, c);
  if (c.names.norms_last) {
    parts.norm_1 = &add_norm(c.names.norm_1, c);
    parts.norm_2 = &add_norm(c.names.norm_2, c);
  }
  return parts;
}

Tensor Block::operator()(const Tensor& x, KeyValueCache& cache, size_t layer) {
  return run_hooked({x}, [&](const Tensors& in) -> Tensors {
    const auto [y, norm] = norm_2(in[0], attn(norm_1(in[0]), cache, layer));
    return {y + mlp(norm)};
  })[0];
}

SumAndNorm Block::operator()(const SumAndNorm& x, ResidualNorm& next) {
  const Tensors out = run_hooked({x.sum, x.norm}, [&](const Tensors& in) -> Tensors {
    const auto [y, norm] = norm_2(in[0], attn(in[1]));
    const auto [sum, next_norm] = next(y, mlp(norm));
    return {sum, next_norm};
  });
  return {out[0], out[1]};
}

// [snippet: block]
Tensor Block::forward(const Tensor& x) {
  const auto [y, norm] = norm_2(x, attn(norm_1(x)));  // y = x + attn(..), norm = norm_2(y)
  return y + mlp(norm);
}
// [end]

ParallelForm Block::parallel_form() const { return {.by_position = by_position_}; }

CausalLM::Body::Body(const CausalLMConfig& c)
    : CausalLMPart(c.names.body_type),
      tokens(add<Embedding>(c.names.tokens, c.vocab_size, c.width)),
      positions(c.rotary ? nullptr : &add<Embedding>(c.names.positions, c.context_length, c.width)),
      blocks(add<ModuleListOf<Block>>(c.names.blocks)),
      norm(add_norm(c.names.last_norm, c)) {
  core::check_room(c.names.model.c_str(), c.layers);
  for (int64_t i = 0; i < c.layers; ++i) blocks.append(c);
}

CausalLM::CausalLM(const CausalLMConfig& config)
    : body(add<Body>(config.names.body, checked_lm(config))),
      lm_head([&]() -> Linear& {
        std::optional<DeviceScope> planned;  // its own weight never takes memory where it is tied
        if (config.tie_weights) planned.emplace(kMeta);
        return add<Linear>("lm_head", config.width, config.vocab_size,
                           LinearOptions{.bias = false});
      }()),
      config_(config) {
  if (config.tie_weights) lm_head.weight = body.tokens.weight;
  before_linear::set_readers(body.norm, {&lm_head});
  init_parameters();
}

void CausalLM::init_parameters() {
  std::set<const Slot*> of_norms, residual;
  for (Module* module : modules()) {
    if (dynamic_cast<ResidualNorm*>(module) == nullptr) continue;
    for (const auto& [name, slot] : module->slots()) of_norms.insert(slot);
  }
  for (Block& block : body.blocks) {
    for (Linear* last : {&block.attn.out, &block.mlp.down})
      residual.insert(last->slots()[0].second);
  }
  for (auto& [name, slot] : slots()) {
    const bool tied = config_.tie_weights && name == "lm_head.weight";
    if (tied || !slot->tensor.defined() || of_norms.contains(slot)) continue;
    const double std = residual.contains(slot)
                           ? config_.residual_init_std.value_or(config_.init_std)
                           : config_.init_std;
    reset_parameter(*slot, slot->tensor.ndim() == 1 ? init::zeros() : init::normal(0.0, std));
  }
}

// Tokens [B, T] or [T] as [B, T].
Tensor CausalLM::checked_tokens(const Tensor& tokens) const {
  const CausalLMNames& names = config_.names;
  check(tokens.ndim() == 1 || tokens.ndim() == 2, names.model,
        ": tokens must be [B, T] or [T]: got ", tokens.shape());
  check(tokens.size(-1) > 0 && tokens.size(-1) <= config_.context_length, names.model, ": ",
        tokens.size(-1), " tokens do not fit ", names.context_length, " of ",
        config_.context_length);
  return tokens.ndim() == 1 ? unsqueeze(tokens, 0) : tokens;
}

// Tokens [B, T] at the cache's new positions, or from 0 on: [B, T, C], of which a rank of several
// that share the sequence has its own positions.
Tensor CausalLM::embed(const Tensor& tokens, const KeyValueCache* cache) {
  check(sequence() == nullptr || config_.dropout == 0.0 || !training(), config_.names.model,
        ": dropout ", config_.dropout,
        " would draw alike for the positions of several ranks that share a sequence "
        "(dist::context_parallel); train with dropout 0");
  Tensor x = body.tokens(sequence() ? sequence()->take(tokens, 1) : tokens);
  if (body.positions != nullptr) {
    const Tensor positions = cache != nullptr
                                 ? cache->positions(tokens.device())
                                 : arange(Scalar(tokens.size(1)), {.device = tokens.device()});
    x = x + (*body.positions)(sequence() ? sequence()->take(positions, 0) : positions);
  }
  return dropout(x, config_.dropout, training());
}

// What blocks begin ... end - 1 make of x [B, T, C] or, with LastNorm::yes, where they are the last
// ones, the model's last norm of it.
Tensor CausalLM::run_blocks(const Tensor& x, size_t begin, size_t end, LastNorm norm) {
  ModuleListOf<Block>& blocks = body.blocks;
  bool chained =
      norm == LastNorm::yes && begin < end && !config_.checkpoint && !config_.offload.has_value();
  for (size_t i = begin; i < end; ++i) chained = chained && !blocks[i].has_hooks();
  if (chained) {  // each block hands the next its norm
    SumAndNorm y{x, blocks[begin].norm_1(x)};
    for (size_t i = begin; i < end; ++i) {
      y = blocks[i](y, i + 1 < end ? blocks[i + 1].norm_1 : body.norm);
    }
    return y.norm;
  }
  Tensor y = x;
  for (size_t i = begin; i < end; ++i) {
    const auto run = [this, block = &blocks[i]](const Tensor& in) {
      if (!config_.checkpoint) return (*block)(in);
      return checkpoint([block](const Tensor& given) { return (*block)(given); }, in);
    };
    y = config_.offload.has_value() ? offload(*config_.offload, run, y) : run(y);
  }
  return norm == LastNorm::yes ? body.norm(y) : y;
}

// What lm_head reads of what the layers before `begin` made: [B, T, C].
Tensor CausalLM::features_from(size_t begin, const Tensor& x) {
  const Tensor y = begin == 0 ? embed(checked_tokens(x)) : x;
  return run_blocks(y, begin == 0 ? 0 : begin - 1, body.blocks.size(), LastNorm::yes);
}

Tensor CausalLM::forward(const Tensor& tokens) {
  const Tensor logits = lm_head(features_from(0, tokens));
  return tokens.ndim() == 1 ? logits.squeeze(0) : logits;
}

Tensor CausalLM::loss(const Tensor& tokens, const Tensor& targets) {
  return run_hooked({tokens, targets}, [this](const Tensors& in) -> Tensors {
    check(in[0].shape() == in[1].shape(), config_.names.model, ": targets ", in[1].shape(),
          " do not fit tokens ", in[0].shape());
    const bool keeps = sequence() && is_same(lm_head.weight, body.tokens.weight);
    const auto kept = keeps ? sequence()->keep_copies(lm_head.weight) : nullptr;
    return {head_loss(features_from(0, in[0]), in[1])};
  })[0];
}

// The mean cross entropy of lm_head's logits of features [B, T, C] with targets [B, T]. The logits
// never exist as a whole, unless lm_head has hooks that see them.
Tensor CausalLM::head_loss(const Tensor& features, const Tensor& targets) {
  if (sequence() != nullptr) return shared_head_loss(features, targets);
  const Tensor x = flatten(features, 0, 1), target = flatten(targets);
  if (lm_head.has_hooks_for_values()) return cross_entropy(lm_head(x), target);
  return lm_head.run_fused(
      x, [&](const Tensor& rows) { return linear_cross_entropy(rows, lm_head.weight, target); });
}

// The same of features at this rank's positions; targets are those of all positions.
Tensor CausalLM::shared_head_loss(const Tensor& features, const Tensor& targets) {
  check(features.dtype() != kFloat16 || autocast_enabled(), config_.names.model,
        ": sums of losses of positions leave the range of float16 where ranks share sequences "
        "(dist::context_parallel); use bfloat16, or float32 under autocast");
  const SequencePart& part = *sequence();
  const Tensor all = targets.ndim() == 1 ? unsqueeze(targets, 0) : targets;
  const Tensor count = sum(all != kIgnoredTarget);
  std::vector<Tensor> target = slices_of(part, part.take(all, 1), 1);
  for (Tensor& each : target) each = flatten(each);
  const auto joined = [&](const Tensor& x, const auto& loss_of_rows) {
    const std::vector<Tensor> rows = slices_of(part, x, 1);
    std::vector<Tensor> sums;
    for (size_t i = 0; i < rows.size(); ++i) {
      sums.push_back(loss_of_rows(i, flatten(rows[i], 0, 1)));
    }
    return part.mean(sums, count);
  };
  if (lm_head.has_hooks_for_values()) {
    return joined(lm_head(features), [&](size_t i, const Tensor& logits) {
      return cross_entropy(logits, target[i], {.reduction = Reduction::sum});
    });
  }
  return lm_head.run_fused(features, [&](const Tensor& x) {
    const std::vector<Tensor> weights = part.copies(lm_head.weight);
    return joined(x, [&](size_t i, const Tensor& rows) {
      return linear_cross_entropy(rows, weights[i], target[i], {.reduction = Reduction::sum});
    });
  });
}

void CausalLM::check_range(size_t begin, size_t end) const {
  check(begin < end && end <= layers(), config_.names.model, ": layers ", begin, " to ", end,
        " of ", layers());
}

Tensor CausalLM::run_layers(size_t begin, size_t end, const Tensor& x) {
  check_range(begin, end);
  if (end == layers()) return lm_head(features_from(begin, x));
  const Tensor y = begin == 0 ? embed(checked_tokens(x)) : x;
  return run_blocks(y, begin == 0 ? 0 : begin - 1, end - 1, LastNorm::no);
}

Tensor CausalLM::loss_from(size_t begin, const Tensor& x, const Tensor& target) {
  check(begin < layers(), config_.names.model, ": a loss from layer ", begin, " of ", layers());
  return head_loss(features_from(begin, x), target);
}

double CausalLM::target_count(const Tensor& target) const { return valid_targets(target); }

std::vector<Module*> CausalLM::modules_of(size_t layer) {
  check(layer < layers(), config_.names.model, ": layer ", layer, " of ", layers());
  if (layer + 1 == layers()) return {&body.norm, &lm_head};
  if (layer > 0) return {&body.blocks[layer - 1]};
  if (body.positions == nullptr) return {&body.tokens};
  return {&body.tokens, body.positions};
}

Tensor CausalLM::run_layers_after(KeyValueCache& cache, size_t begin, size_t end, const Tensor& x) {
  check_range(begin, end);
  const size_t head = body.blocks.size() + 1;
  Tensor y = begin == 0 ? embed(x, &cache) : x;
  for (size_t i = std::max<size_t>(begin, 1); i < std::min(end, head); ++i) {
    y = body.blocks[i - 1](y, cache, i - 1);
  }
  return end > head ? lm_head(body.norm(cache.last(y))) : y;
}

Tensor CausalLM::next_logits(const Tensor& tokens, KeyValueCache& cache) {
  check_generates(sequence());
  return run_hooked({tokens}, [&](const Tensors& in) -> Tensors {
    return {run_layers_after(cache, 0, layers(), in[0])};
  })[0];
}

ParallelForm CausalLM::parallel_form() const {
  const auto path = [this](const Module& part) { return body.name() + "." + part.name(); };
  const std::string tokens = path(body.tokens), norm = path(body.norm);
  ParallelForm form{.cuts = {{tokens, Cut::vocabulary}, {"lm_head", Cut::vocabulary}},
                    .stack = {{.embedding = {tokens},
                               .blocks = path(body.blocks),
                               .norm = norm,
                               .head = "lm_head"}},
                    .by_position = {tokens, norm, "lm_head"},
                    .shares_sequence = true};
  if (body.positions != nullptr) {
    form.stack->embedding.push_back(path(*body.positions));
    form.position_parameters = {path(*body.positions) + ".weight"};
  }
  return form;
}

void CausalLM::set_sequence(const std::shared_ptr<const SequencePart>& sequence) {
  check(!config_.rotary || config_.rotary->scaling.kind != RotaryScaling::Kind::dynamic,
        config_.names.model,
        ": ranks that share a sequence do not know its length, on which dynamic scaling of "
        "rotations depends; use linear, llama3 or yarn");
  Parallelizable::set_sequence(sequence);
  for (Block& block : body.blocks) block.attn.set_sequence(sequence);
}

}  // namespace hero::nn
