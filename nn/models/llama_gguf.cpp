#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <hero/core/gguf.h>
#include <hero/core/io/name_list.h>
#include <hero/nn/models/llama_gguf.h>
#include <hero/nn/models/pretrained_config.h>
#include <hero/nn/models/pretrained_weights.h>
#include <hero/nn/quantized.h>

namespace hero::nn {

using core::GGUFReader;

namespace {

constexpr const char* kRotationFactors = "rope_freqs.weight";

// Metadata of an architecture, read key by key: a key of the architecture that was not read is an
// Error, since it may change what the model computes.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GGUFReader& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::string key(const char* name) const { return architecture_ + "." + name; }
  bool has(const char* name) {
    asked_.insert(key(name));
    return file_.has(key(name));
  }
  int64_t integer(const char* name) {
    check(has(name), "Llama: ", file_.path(), " has no key ", key(name));
    return *file_.integer(key(name));
  }
  int64_t integer(const char* name, int64_t absent) { return has(name) ? integer(name) : absent; }
  double number(const char* name, double absent) {
    return has(name) ? *file_.number(key(name)) : absent;
  }
  std::string text(const char* name, const std::string& absent) {
    return has(name) ? *file_.text(key(name)) : absent;
  }
  template <class Value>
  [[noreturn]] void fail_key(const char* name, const Value& value, const std::string& why) const {
    fail("Llama: ", file_.path(), ": ", key(name), " is ", value, "; ", why);
  }
  void finish(const std::vector<std::string>& ignored) const {
    core::NameList unknown;
    for (const std::string& each : file_.keys()) {
      const bool known = !each.starts_with(architecture_ + ".") || asked_.contains(each) ||
                         std::find(ignored.begin(), ignored.end(), each) != ignored.end();
      if (!known) unknown.add(each);
    }
    check(unknown.empty(), "Llama: ", file_.path(),
          " has keys that are not known here: ", unknown.text(),
          "; name those in .ignore_keys that do not change what the model computes");
  }

 private:
  const GGUFReader& file_;
  std::string architecture_;
  std::set<std::string> asked_;
};

std::string architecture_of(const GGUFReader& file) {
  constexpr const char* kKey = "general.architecture";
  const auto name = file.text(kKey);
  check(name.has_value(), "Llama: ", file.path(), " has no key ", kKey);
  check(*name == "llama" || *name == "qwen2", "Llama: ", file.path(), " holds the architecture '",
        core::cut_text(*name), "'; nn::Llama reads llama and qwen2");
  const int64_t parts = file.integer("split.count").value_or(1);
  check(parts <= 1, "Llama: ", file.path(), " is one of ", parts,
        " files of a model; merge them with llama.cpp's gguf-split");
  return *name;
}

// Llama 3.1 and later write no rule of scaling into a file, but the factors by which it divides the
// rates. Which rule it was is known if they are those of the rule.
RotaryScaling scaling_of_factors(const GGUFReader& file, const LlamaConfig& c,
                                 int64_t original_positions) {
  const int64_t dim = c.head_dim.value_or(0);
  const Array array = file.load(kRotationFactors);
  const std::vector<double> factors = array.to_vector<double>();
  const auto where = [&] {
    return "Llama: " + file.path() + ": the factors in " + kRotationFactors;
  };
  check(static_cast<int64_t>(factors.size()) == dim / 2, where(), " are ", factors.size(),
        ", and heads of ", dim, " elements have ", dim / 2, " pairs");
  const double factor = *std::max_element(factors.begin(), factors.end());
  RotaryScaling scaling{.kind = RotaryScaling::Kind::llama3,
                        .factor = factor,
                        .low_freq_factor = 1.0,
                        .high_freq_factor = 4.0,
                        .original_positions = original_positions};
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double rate =
        std::pow(c.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    const double turns = static_cast<double>(original_positions) * rate / (2.0 * std::numbers::pi);
    const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    const double expected = 1.0 / ((1.0 - share) / factor + share);
    check(factor >= 1.0 && std::abs(factors[i] - expected) <= 1e-4 * expected, where(),
          " are not those of Llama 3's rule for ", original_positions, " positions: number ", i,
          " is ", factors[i], ", not ", expected);
  }
  if (factor == 1.0) scaling.kind = RotaryScaling::Kind::none;
  return scaling;
}

RotaryScaling scaling_of(ArchitectureKeys& keys, const GGUFReader& file, const LlamaConfig& c) {
  const bool has_factors = file.find(kRotationFactors) != nullptr;
  const int64_t original =
      keys.integer("rope.scaling.original_context_length", has_factors ? 8192 : 0);
  const double factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1.0));
  // A file that has a factor and no type means positions that are divided by it; 0 stands for none.
  const std::string type =
      keys.text("rope.scaling.type", factor == 1.0 || factor == 0.0 ? "none" : "linear");
  if (type != "none" && type != "linear" && type != "yarn") {
    keys.fail_key("rope.scaling.type", type,
                  "of the types of rotary scaling none, linear and yarn are known, and Llama 3's "
                  "by the tensor rope_freqs.weight");
  }
  const double attention = keys.number("rope.scaling.attn_factor", 1.0);
  keys.has("rope.scaling.finetuned");  // how the weights came to be
  if (attention != 1.0) {
    keys.fail_key("rope.scaling.attn_factor", attention, "only 1 is known");
  }
  if (has_factors) {
    if (type != "none") {
      keys.fail_key("rope.scaling.type", type,
                    std::string("and there is a tensor ") + kRotationFactors + ", too");
    }
    return scaling_of_factors(file, c, original);
  }
  if (type == "none" || factor == 1.0) return {};
  if (type == "linear") return {.kind = RotaryScaling::Kind::linear, .factor = factor};
  if (original < 1) {
    keys.fail_key("rope.scaling.original_context_length", original, "yarn needs it");
  }
  return {.kind = RotaryScaling::Kind::yarn, .factor = factor, .original_positions = original};
}

// What is no row of the embedding can neither be drawn nor read.
void check_token(const GGUFReader& file, const char* name, std::optional<int64_t> id,
                 int64_t vocabulary) {
  check(!id || (*id >= 0 && *id < vocabulary), "Llama: ", file.path(), ": tokenizer.ggml.", name,
        "_token_id is ", id.value_or(0), ", and token_embd.weight has ", vocabulary, " rows");
}

TokenIds token_ids_of(const GGUFReader& file, int64_t vocabulary) {
  TokenIds ids{.bos = file.integer("tokenizer.ggml.bos_token_id"),
               .pad = file.integer("tokenizer.ggml.padding_token_id")};
  check_token(file, "bos", ids.bos, vocabulary);
  // the end of a text, of a turn, and of a message that calls a tool
  for (const char* name : {"eos", "eot", "eom"}) {
    const auto id = file.integer(std::string("tokenizer.ggml.") + name + "_token_id");
    check_token(file, name, id, vocabulary);
    if (id && std::find(ids.eos.begin(), ids.eos.end(), *id) == ids.eos.end()) {
      ids.eos.push_back(*id);
    }
  }
  return ids;
}

LlamaConfig config_of(const GGUFReader& file, const PretrainedOptions& options) {
  const std::string architecture = architecture_of(file);
  ArchitectureKeys keys(file, architecture);
  const GGUFReader::Entry* embedding = file.find("token_embd.weight");
  check(embedding != nullptr && embedding->shape.size() == 2, "Llama: ", file.path(),
        " has no matrix token_embd.weight");
  LlamaConfig c;
  c.vocab_size = embedding->shape[0];
  const int64_t stated = keys.integer("vocab_size", c.vocab_size);
  if (stated != c.vocab_size) {
    keys.fail_key("vocab_size", stated,
                  "token_embd.weight has " + std::to_string(c.vocab_size) + " rows");
  }
  c.hidden_size = keys.integer("embedding_length");
  c.intermediate_size = keys.integer("feed_forward_length");
  c.num_hidden_layers = keys.integer("block_count");
  c.num_attention_heads = keys.integer("attention.head_count");
  c.num_key_value_heads = keys.integer("attention.head_count_kv", c.num_attention_heads);
  check(c.num_attention_heads > 0, "Llama: ", file.path(), ": ", keys.key("attention.head_count"),
        " is ", c.num_attention_heads, "; it must be positive");
  const int64_t dim = keys.integer("attention.key_length", c.hidden_size / c.num_attention_heads);
  c.head_dim = dim;
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    const int64_t given = keys.integer(name, dim);
    if (given != dim) {
      keys.fail_key(name, given,
                    "heads of keys have " + std::to_string(dim) +
                        " elements, and values have as many, which all turn, here");
    }
  }
  c.max_position_embeddings = keys.integer("context_length");
  constexpr const char* kEpsilon = "attention.layer_norm_rms_epsilon";
  check(keys.has(kEpsilon), "Llama: ", file.path(), " has no key ", keys.key(kEpsilon));
  c.rms_norm_eps = keys.number(kEpsilon, 0.0);
  c.rope_theta = keys.number("rope.freq_base", 10000.0);
  c.rope_scaling = scaling_of(keys, file, c);
  c.tie_word_embeddings = file.find("output.weight") == nullptr;
  c.qkv_bias = file.find("blk.0.attn_q.bias") != nullptr;
  c.o_bias = file.find("blk.0.attn_output.bias") != nullptr;
  c.mlp_bias = file.find("blk.0.ffn_down.bias") != nullptr;
  c.token_ids = token_ids_of(file, c.vocab_size);
  if (const auto tokens = file.texts("tokenizer.ggml.tokens")) {
    check(static_cast<int64_t>(tokens->size()) <= c.vocab_size, "Llama: ", file.path(), " has ",
          tokens->size(), " tokens, and token_embd.weight has ", c.vocab_size, " rows");
  }
  if (const int64_t experts = keys.integer("expert_count", 0); experts != 0) {
    keys.fail_key("expert_count", experts, "nn::Llama has no experts");
  }
  keys.has("expert_used_count");
  const int64_t window = keys.integer("attention.sliding_window", 0);
  if (window != 0 && window < c.max_position_embeddings) {
    keys.fail_key("attention.sliding_window", window,
                  "nn::Llama attends to all positions, of which there are " +
                      std::to_string(c.max_position_embeddings));
  }
  keys.finish(options.ignore_keys);
  check(c.num_hidden_layers <= static_cast<int64_t>(file.entries().size()), "Llama: ", file.path(),
        ": ", keys.key("block_count"), " is ", c.num_hidden_layers, ", and there are only ",
        file.entries().size(), " tensors");
  return c;
}

// What a file calls a parameter.
std::string gguf_name(const std::string& parameter) {
  constexpr std::string_view kLayers = "model.layers.";
  struct Pair {
    std::string_view parameter, in_file;
  };
  constexpr Pair kWhole[] = {
      {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
  constexpr Pair kOfLayer[] = {
      {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  const size_t dot = parameter.rfind('.');
  std::string_view place = std::string_view(parameter).substr(0, dot);
  const std::string_view last = std::string_view(parameter).substr(dot);
  for (const Pair& pair : kWhole) {
    if (place == pair.parameter) return std::string(pair.in_file) + std::string(last);
  }
  if (!place.starts_with(kLayers)) return parameter;
  place.remove_prefix(kLayers.size());
  const size_t end = place.find('.');
  for (const Pair& pair : kOfLayer) {
    if (place.substr(end + 1) != pair.parameter) continue;
    return "blk." + std::string(place.substr(0, end)) + "." + std::string(pair.in_file) +
           std::string(last);
  }
  return parameter;
}

// [note: pairs of elements in GGUF]
// Rotary embedding turns pairs of a head's elements. Hero and transformers pair element i with
// element i + D / 2; files of architecture llama have the rows of queries and keys in an order in
// which pairs are neighbours, 2i and 2i + 1, and those of qwen2 do not.
class GGUFWeights : public PretrainedWeights {
 public:
  GGUFWeights(const GGUFReader& file, const LlamaConfig& config, bool neighbours)
      : file_(file), config_(config), neighbours_(neighbours) {
    for (const GGUFReader::Entry& entry : file.entries()) {
      if (entry.readable) {
        entries_.emplace(entry.name, Entry{entry.name, kFloat32, entry.shape, 0, 0});
      } else {
        unreadable_.emplace(entry.name, entry.type);
      }
    }
  }

  const std::string& path() const override { return file_.path(); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const GGUFReader::Entry& entry : file_.entries()) names.push_back(entry.name);
    return names;
  }
  const std::map<std::string, std::string>& unreadable() const override { return unreadable_; }
  const Entry* find(const std::string& name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }
  Array load(const std::string& name, DType dtype) const override {
    return in_halves(name, file_.load(name, dtype));
  }
  // The matrix as it lies in the file; a row's blocks go where the row goes.
  core::QuantizedMatrix blocks(const std::string& name) const {
    return {file_.find(name)->type, in_halves(name, file_.load_blocks(name))};
  }

 private:
  Array in_halves(const std::string& name, const Array& rows) const {
    const bool q = name.find(".attn_q.") != name.npos, k = name.find(".attn_k.") != name.npos;
    if (!neighbours_ || (!q && !k)) return rows;
    const int64_t heads = q ? config_.num_attention_heads : *config_.num_key_value_heads;
    const int64_t half = *config_.head_dim / 2;
    return rows.reshape({heads, half, 2, -1}).transpose(1, 2).contiguous().reshape(rows.shape());
  }

  const GGUFReader& file_;
  const LlamaConfig& config_;
  bool neighbours_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> unreadable_;
};

// Puts quantised layers in the place of those whose matrices the file has in blocks, and returns
// the names of these matrices. What does not fit is left to load_pretrained(), which says so.
std::set<std::string> keep_blocks(Llama& llama, const GGUFReader& file, const GGUFWeights& weights,
                                  const PretrainedOptions& options) {
  struct Change {
    std::string path, name;
    bool table, biased;
  };
  std::vector<Change> changes;
  for (const auto& [path, module] : llama.named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(module);
    const auto* table = dynamic_cast<const Embedding*>(module);
    if (linear == nullptr && table == nullptr) continue;
    const bool tied = path == "lm_head" && llama.config().tie_word_embeddings;
    const std::string name = gguf_name((tied ? "model.embed_tokens" : path) + ".weight");
    const GGUFReader::Entry* entry = file.find(name);
    const Shape& shape = linear != nullptr ? linear->weight.shape() : table->weight.shape();
    if (entry == nullptr || !entry->in_blocks || entry->shape != shape) continue;
    changes.push_back({path, name, table != nullptr, linear != nullptr && linear->bias.defined()});
  }
  std::set<std::string> kept;
  std::optional<core::QuantizedMatrix> table;  // which a tied head shares
  const std::string table_name = gguf_name("model.embed_tokens.weight");
  for (const auto& [path, name, is_table, biased] : changes) {
    const core::QuantizedMatrix matrix =
        name == table_name && table ? *table : weights.blocks(name);
    if (name == table_name) table = matrix;
    if (is_table) {
      llama.replace(path, QuantizedEmbedding(matrix, options.dtype));
    } else {
      llama.replace(path, QuantizedLinear(matrix, {.bias = biased}));
    }
    kept.insert(name);
  }
  return kept;
}

}  // namespace

LlamaConfig llama_config_of_gguf(const std::string& path, const PretrainedOptions& options) {
  return config_of(GGUFReader(path), options);
}

Llama llama_of_gguf(const std::string& path, const PretrainedOptions& options) {
  const GGUFReader file(path);
  const LlamaConfig config = config_of(file, options);
  std::optional<DeviceScope> meta(kMeta);
  Llama llama(config);
  meta.reset();
  const GGUFWeights weights(file, config, architecture_of(file) == "llama");
  const auto names = [](const std::string& parameter) {
    return PretrainedName{gguf_name(parameter), false};
  };
  std::set<std::string> kept;
  PretrainedOptions rest = options;
  if (options.quantized) {
    check(options.device == kCpu, "Llama: quantised weights are read on the cpu, not on ",
          options.device);
    kept = keep_blocks(llama, file, weights, options);
    rest.quantized = false;
  }
  const auto spare = [&](const std::string& name) {
    return name == kRotationFactors || kept.contains(name);
  };
  load_pretrained(llama, weights, names, spare, rest);
  if (options.quantized) llama.requires_grad_(false);
  return llama;
}

}  // namespace hero::nn
