// Folders of Hugging Face's transformers with Llama, Qwen2 and Mistral.
#include <hero/core/io/file.h>
#include <hero/core/json/json.h>
#include <hero/nn/llama.h>
#include <hero/nn/models/llama_gguf.h>
#include <hero/nn/models/pretrained_config.h>
#include <hero/nn/models/pretrained_weights.h>

namespace hero::nn {

namespace {

// A path of a file, which only GGUF is; what does not exist is told of as a folder.
bool is_file(const std::string& path) { return path_exists(path) && !is_folder(path); }

PretrainedName same_name(const std::string& parameter) { return {parameter, false}; }

// A window as wide as the longest sequence hides nothing.
void check_window(PretrainedConfigReader& config, const std::string& type, int64_t longest) {
  if (type == "llama") return;
  const bool used = type == "mistral" || config.flag("use_sliding_window", false);
  // transformers' default where the key is missing; null is none
  constexpr int64_t kDefault = 4096;
  const bool is_default = used && !config.names("sliding_window");
  const int64_t window = config.integer("sliding_window", is_default ? kDefault : longest);
  if (used && window < longest) {
    config.fail_key("sliding_window", "nn::Llama attends to all positions, of which there are " +
                                          std::to_string(longest));
  }
  if (type == "qwen2") config.integer("max_window_layers", 0);
}

void check_layer_types(PretrainedConfigReader& config, const core::JSON* types) {
  if (types == nullptr) return;
  for (const auto& each : *types) {
    if (each != "full_attention") config.fail_key("layer_types", "all are full_attention here");
  }
}

core::JSON rope_of(const RotaryScaling& scaling) {
  using Kind = RotaryScaling::Kind;
  if (scaling.kind == Kind::none) return nullptr;
  if (scaling.kind == Kind::linear || scaling.kind == Kind::dynamic) {
    const bool is_linear = scaling.kind == Kind::linear;
    return {{"rope_type", is_linear ? "linear" : "dynamic"}, {"factor", scaling.factor}};
  }
  if (scaling.kind == Kind::yarn) {
    core::JSON yarn = {{"rope_type", "yarn"},
                       {"factor", scaling.factor},
                       {"original_max_position_embeddings", scaling.original_positions},
                       {"beta_fast", scaling.beta_fast},
                       {"beta_slow", scaling.beta_slow},
                       {"truncate", scaling.truncate}};
    if (scaling.attention_factor) yarn["attention_factor"] = *scaling.attention_factor;
    return yarn;
  }
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_positions}};
}

std::string llama_json(const LlamaConfig& c, DType dtype) {
  check(c.num_attention_heads > 0, "save_pretrained: num_attention_heads is ",
        c.num_attention_heads, "; it must be positive");
  const bool qwen = c.qkv_bias && !c.o_bias && !c.mlp_bias;
  check(qwen || c.qkv_bias == c.o_bias,
        "save_pretrained: transformers' Llama has biases of all four projections of attention or "
        "of none, and its Qwen2 of q_proj, k_proj and v_proj without mlp_bias");
  core::JSON config = {
      {"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
      {"model_type", qwen ? "qwen2" : "llama"},
      {"vocab_size", c.vocab_size},
      {"hidden_size", c.hidden_size},
      {"intermediate_size", c.intermediate_size},
      {"num_hidden_layers", c.num_hidden_layers},
      {"num_attention_heads", c.num_attention_heads},
      {"num_key_value_heads", c.num_key_value_heads.value_or(c.num_attention_heads)},
      {"head_dim", c.head_dim.value_or(c.hidden_size / c.num_attention_heads)},
      {"max_position_embeddings", c.max_position_embeddings},
      {"hidden_act", "silu"},
      {"rms_norm_eps", c.rms_norm_eps},
      {"rope_theta", c.rope_theta},
      {"rope_scaling", rope_of(c.rope_scaling)},
      {"tie_word_embeddings", c.tie_word_embeddings},
      {"attention_dropout", 0.0},
      {"initializer_range", c.initializer_range},
      {"torch_dtype", pretrained_dtype(dtype)}};
  write_token_ids(config, c.token_ids);
  if (qwen) {
    config["use_sliding_window"] = false;
  } else {
    config["attention_bias"] = c.qkv_bias;
    config["mlp_bias"] = c.mlp_bias;
  }
  return core::json_dump(config, "save_pretrained", 2, core::JSON::Order::added) + "\n";
}

}  // namespace

LlamaConfig LlamaConfig::from_pretrained(const std::string& folder,
                                         const PretrainedOptions& options) {
  if (is_file(folder)) return llama_config_of_gguf(folder, options);
  PretrainedConfigReader config("Llama", folder);
  const std::string type = config.model_type({"llama", "qwen2", "mistral"});
  LlamaConfig c;
  c.vocab_size = config.integer("vocab_size");
  c.hidden_size = config.integer("hidden_size");
  c.intermediate_size = config.integer("intermediate_size");
  c.num_hidden_layers = config.integer("num_hidden_layers");
  c.num_attention_heads = config.integer("num_attention_heads");
  const bool is_mistral = type == "mistral";
  c.num_key_value_heads =
      config.integer("num_key_value_heads", is_mistral ? 8 : c.num_attention_heads);
  if (config.has("head_dim")) c.head_dim = config.integer("head_dim");
  // What is missing is what transformers takes for each type.
  const bool is_llama = type == "llama", is_qwen = type == "qwen2";
  c.max_position_embeddings = config.integer("max_position_embeddings", is_llama  ? 2048
                                                                        : is_qwen ? 32768
                                                                                  : 131072);
  c.token_ids = config.token_ids(is_qwen ? TokenIds{} : TokenIds{.bos = 1, .eos = {2}});
  c.rms_norm_eps = config.number("rms_norm_eps", 1e-6);
  c.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  c.initializer_range = config.number("initializer_range", 0.02);
  const RotaryOptions rotary = config.rotary(c.max_position_embeddings);
  c.rope_theta = rotary.base;
  c.rope_scaling = rotary.scaling;
  c.qkv_bias = type == "qwen2" || config.flag("attention_bias", false);
  c.o_bias = type != "qwen2" && c.qkv_bias;
  c.mlp_bias = config.flag("mlp_bias", false);
  if (config.text("hidden_act", "silu") != "silu") {
    config.fail_key("hidden_act", "nn::Llama has silu");
  }
  if (config.number("attention_dropout", 0.0) != 0.0 && options.dropout.value_or(1.0) != 0.0) {
    config.fail_key("attention_dropout", "nn::Llama has no dropout; give .dropout = 0 to go on");
  }
  check_window(config, type, c.max_position_embeddings);
  check_layer_types(config, config.list("layer_types"));
  config.finish(options.ignore_keys);
  return c;
}

void LlamaConfig::save_pretrained(const std::string& folder, DType dtype) const {
  save_pretrained_config(folder, llama_json(*this, dtype));
}

Llama Llama::from_pretrained(const std::string& folder, const PretrainedOptions& options) {
  if (is_file(folder)) return llama_of_gguf(folder, options);
  const LlamaConfig config = LlamaConfig::from_pretrained(folder, options);
  const FolderWeights weights("Llama", folder);
  check_layers("Llama", folder, config.num_hidden_layers, weights.names().size());
  std::optional<DeviceScope> meta(kMeta);
  Llama llama(config);
  meta.reset();
  const auto spare = [](const std::string& name) {  // tables
    return name.ends_with(".rotary_emb.inv_freq");
  };
  load_pretrained(llama, weights, same_name, spare, options);
  return llama;
}

void Llama::save_pretrained(const std::string& folder, const SavePretrainedOptions& options) const {
  LlamaConfig now = config_;  // in which a program may have tied or untied the head
  now.tie_word_embeddings = is_same(lm_head.weight, model.embed_tokens.weight);
  const std::string config = llama_json(now, model.embed_tokens.weight.dtype());
  save_pretrained_folder(*this, folder, config, same_name, options);
}

}  // namespace hero::nn
