// GPT-2's folders of Hugging Face's transformers.
#include <algorithm>
#include <array>

#include <hero/core/array/checked.h>
#include <hero/core/json/json.h>
#include <hero/nn/gpt.h>
#include <hero/nn/models/pretrained_config.h>
#include <hero/nn/models/pretrained_weights.h>

namespace hero::nn {

namespace {

Gelu gelu_of(PretrainedConfigReader& config) {
  const std::string name = config.text("activation_function", "gelu_new");
  if (name == "gelu") return Gelu::erf;
  for (const char* tanh : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}) {
    if (name == tanh) return Gelu::tanh;
  }
  config.fail_key("activation_function", "nn::GPT has gelu_new and gelu");
}

double dropout_of(PretrainedConfigReader& config, std::optional<double> given) {
  const std::array<double, 3> rates = {config.number("resid_pdrop", 0.1),
                                       config.number("embd_pdrop", 0.1),
                                       config.number("attn_pdrop", 0.1)};
  if (given) return *given;
  if (rates[0] != rates[1] || rates[0] != rates[2]) {
    config.fail_key("resid_pdrop",
                    "nn::GPT has one rate for it, embd_pdrop and attn_pdrop; give .dropout");
  }
  return rates[0];
}

}  // namespace

GPTConfig GPTConfig::from_pretrained(const std::string& folder, const PretrainedOptions& options) {
  PretrainedConfigReader config("GPT", folder);
  config.model_type({"gpt2"});
  GPTConfig c;
  c.vocab_size = config.integer("vocab_size", 50257);
  c.block_size = config.integer("n_positions", 1024);
  c.n_embd = config.integer("n_embd", 768);
  c.n_layer = config.integer("n_layer", 12);
  c.n_head = config.integer("n_head", 12);
  c.dropout = dropout_of(config, options.dropout);
  c.tie_weights = config.flag("tie_word_embeddings", true);
  c.gelu = gelu_of(config);
  c.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  c.token_ids = config.token_ids({.bos = 50256, .eos = {50256}});  // as transformers
  if (config.integer("n_ctx", c.block_size) != c.block_size) {
    config.fail_key("n_ctx", "it is n_positions here");
  }
  const core::Checked inner = core::Checked{"GPT: n_embd", c.n_embd} * 4;
  if (config.integer("n_inner", inner.value) != inner.value) {
    config.fail_key("n_inner", "nn::GPT is four times as wide as n_embd inside");
  }
  if (!config.flag("scale_attn_weights", true)) {
    config.fail_key("scale_attn_weights", "nn::GPT scales");
  }
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.flag(key, false)) config.fail_key(key, "nn::GPT has not that");
  }
  config.number("initializer_range", 0.02);
  config.flag("reorder_and_upcast_attn", false);  // scores are float32 or wider here anyway
  config.finish(options.ignore_keys);
  return c;
}

namespace {

bool has_suffix(const std::string& name, std::initializer_list<const char*> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](const char* end) { return name.ends_with(end); });
}

// transformers keeps the matrices of GPT-2's blocks, which it calls Conv1D, as [in, out].
PretrainedName gpt2_name(const std::string& parameter) {
  return {parameter, has_suffix(parameter, {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"})};
}

std::string gpt2_config(const GPTConfig& c, DType dtype) {
  constexpr auto kName = "save_pretrained: transformers' GPT-2";
  check(c.bias, kName, " has biases everywhere, and this GPT was made with bias = false");
  check(!c.rotary, kName, " has no rotary positions");
  check(c.n_kv_head.value_or(c.n_head) == c.n_head, kName,
        " has as many heads of keys as of "
        "queries, and this GPT has ",
        c.n_kv_head.value_or(0), " and ", c.n_head);
  core::JSON config = {{"architectures", {"GPT2LMHeadModel"}},
                       {"model_type", "gpt2"},
                       {"vocab_size", c.vocab_size},
                       {"n_positions", c.block_size},
                       {"n_embd", c.n_embd},
                       {"n_layer", c.n_layer},
                       {"n_head", c.n_head},
                       {"n_inner", nullptr},
                       {"activation_function", c.gelu == Gelu::tanh ? "gelu_new" : "gelu"},
                       {"resid_pdrop", c.dropout},
                       {"embd_pdrop", c.dropout},
                       {"attn_pdrop", c.dropout},
                       {"layer_norm_epsilon", c.norm_eps},
                       {"tie_word_embeddings", c.tie_weights},
                       {"torch_dtype", pretrained_dtype(dtype)}};
  write_token_ids(config, c.token_ids);
  return core::json_dump(config, "save_pretrained", 2, core::JSON::Order::added) + "\n";
}

}  // namespace

void GPTConfig::save_pretrained(const std::string& folder, DType dtype) const {
  save_pretrained_config(folder, gpt2_config(*this, dtype));
}

GPT GPT::from_pretrained(const std::string& folder, const PretrainedOptions& options) {
  const GPTConfig config = GPTConfig::from_pretrained(folder, options);
  const FolderWeights weights("GPT", folder);
  check_layers("GPT", folder, config.n_layer, weights.names().size());
  std::optional<DeviceScope> meta(kMeta);
  GPT gpt(config);
  meta.reset();
  // a model that was saved without its head has names without the first part
  constexpr std::string_view kBody = "transformer.";
  const bool bare = weights.find("wte.weight") != nullptr;
  const auto name_of = [&](const std::string& parameter) {
    PretrainedName name = gpt2_name(parameter);
    if (bare && name.name.starts_with(kBody)) name.name.erase(0, kBody.size());
    return name;
  };
  const auto spare = [](const std::string& name) {  // masks
    return has_suffix(name, {".attn.bias", ".attn.masked_bias"});
  };
  load_pretrained(gpt, weights, name_of, spare, options);
  return gpt;
}

void GPT::save_pretrained(const std::string& folder, const SavePretrainedOptions& options) const {
  GPTConfig now = config_;  // in which a program may have tied or untied the head
  now.tie_weights = is_same(lm_head.weight, transformer.wte.weight);
  const std::string config = gpt2_config(now, transformer.wte.weight.dtype());
  save_pretrained_folder(*this, folder, config, gpt2_name, options);
}

}  // namespace hero::nn
