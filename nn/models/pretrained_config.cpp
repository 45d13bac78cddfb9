#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/models/pretrained_config.h>

namespace hero::nn {

using core::JSON;

namespace {

constexpr uint64_t kMostConfigBytes = uint64_t{1} << 24;

// Keys of any configuration that say what a tokenizer, a sampler or a training run does.
constexpr std::string_view kKeysOfNoEffect[] = {"_attn_implementation",
                                                "_attn_implementation_autoset",
                                                "_commit_hash",
                                                "_name_or_path",
                                                "architectures",
                                                "bad_words_ids",
                                                "begin_suppress_tokens",
                                                "bos_token_id",
                                                "chunk_size_feed_forward",
                                                "decoder_start_token_id",
                                                "diversity_penalty",
                                                "do_sample",
                                                "dtype",
                                                "early_stopping",
                                                "encoder_no_repeat_ngram_size",
                                                "eos_token_id",
                                                "exponential_decay_length_penalty",
                                                "finetuning_task",
                                                "forced_bos_token_id",
                                                "forced_eos_token_id",
                                                "id2label",
                                                "is_decoder",
                                                "is_encoder_decoder",
                                                "label2id",
                                                "length_penalty",
                                                "max_length",
                                                "min_length",
                                                "model_type",
                                                "no_repeat_ngram_size",
                                                "num_beam_groups",
                                                "num_beams",
                                                "num_return_sequences",
                                                "output_attentions",
                                                "output_hidden_states",
                                                "output_scores",
                                                "pad_token_id",
                                                "prefix",
                                                "pretraining_tp",
                                                "problem_type",
                                                "remove_invalid_values",
                                                "repetition_penalty",
                                                "return_dict",
                                                "return_dict_in_generate",
                                                "sep_token_id",
                                                "summary_activation",
                                                "summary_first_dropout",
                                                "summary_proj_to_labels",
                                                "summary_type",
                                                "summary_use_proj",
                                                "suppress_tokens",
                                                "task_specific_params",
                                                "temperature",
                                                "tokenizer_class",
                                                "top_k",
                                                "top_p",
                                                "torch_dtype",
                                                "torchscript",
                                                "transformers_version",
                                                "typical_p",
                                                "unk_token_id",
                                                "use_cache"};

}  // namespace

PretrainedConfigReader::PretrainedConfigReader(const char* reader, const std::string& folder)
    : reader_(reader), path_(folder + "/" + kPretrainedConfig) {
  check(is_folder(folder), reader_, ": ", folder, " is no folder; give one that holds ",
        kPretrainedConfig, " and safetensors files");
  values_ = core::parse_json(read_file_text(path_, kMostConfigBytes), reader, path_);
  check(values_.is_object(), reader_, ": ", path_, " is no object");
}

const JSON* PretrainedConfigReader::find(const char* key) {
  asked_.insert(key);
  const JSON* found = values_.find(key);
  return found == nullptr || found->is_null() ? nullptr : &*found;
}

void PretrainedConfigReader::fail_key(const char* key, const std::string& why) const {
  const JSON* found = values_.find(key);
  fail(reader_, ": ", path_, ": ", key,
       found == nullptr ? std::string(" is missing") : " is " + core::shown(*found), "; ", why);
}

bool PretrainedConfigReader::has(const char* key) { return find(key) != nullptr; }

int64_t PretrainedConfigReader::integer(const char* key) {
  const JSON* value = find(key);
  if (value == nullptr) fail_key(key, "a whole number is needed");
  try {
    return core::json_integer<int64_t>(*value, key);
  } catch (const Error&) {
    fail_key(key, "a whole number is needed");
  }
}

int64_t PretrainedConfigReader::integer(const char* key, int64_t absent) {
  return has(key) ? integer(key) : absent;
}

double PretrainedConfigReader::number(const char* key, double absent) {
  const JSON* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_number()) fail_key(key, "a number is needed");
  return value->number();
}

bool PretrainedConfigReader::flag(const char* key, bool absent) {
  const JSON* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail_key(key, "true or false is needed");
  return value->boolean();
}

std::string PretrainedConfigReader::text(const char* key, const std::string& absent) {
  const JSON* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_string()) fail_key(key, "a text is needed");
  return value->text();
}

const JSON* PretrainedConfigReader::list(const char* key) {
  const JSON* value = find(key);
  if (value != nullptr && !value->is_array()) fail_key(key, "a list is needed");
  return value;
}

std::string PretrainedConfigReader::model_type(const std::vector<std::string>& known) {
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  const std::string type = text("model_type", "");
  if (std::find(known.begin(), known.end(), type) == known.end()) {
    fail_key("model_type", "nn::" + reader_ + " reads " + names);
  }
  const JSON* architectures = find("architectures");
  if (architectures == nullptr) return type;
  const bool any = architectures->is_array() &&
                   std::any_of(architectures->begin(), architectures->end(), [](const JSON& name) {
                     if (!name.is_string()) return false;
                     const auto& given = name.text();
                     return given.ends_with("ForCausalLM") || given.ends_with("LMHeadModel") ||
                            given.ends_with("Model");
                   });
  if (!any) fail_key("architectures", "nn::" + reader_ + " is a causal language model");
  return type;
}

TokenIds PretrainedConfigReader::token_ids(const TokenIds& absent) {
  const auto one = [&](const char* key, const std::optional<int64_t>& otherwise) {
    if (!names(key)) return otherwise;
    return has(key) ? std::optional<int64_t>(integer(key)) : std::nullopt;
  };
  TokenIds ids{.bos = one("bos_token_id", absent.bos), .pad = one("pad_token_id", absent.pad)};
  constexpr auto kEos = "eos_token_id";
  const JSON* eos = find(kEos);
  if (!names(kEos)) {
    ids.eos = absent.eos;
  } else if (eos != nullptr && eos->is_array()) {
    for (const JSON& each : *eos) {
      try {
        ids.eos.push_back(core::json_integer<int64_t>(each, kEos));
      } catch (const Error&) {
        fail_key(kEos, "whole numbers are needed");
      }
    }
  } else if (eos != nullptr) {
    ids.eos = {integer(kEos)};
  }
  return ids;
}

void write_token_ids(core::JSON& config, const TokenIds& ids) {
  const auto put = [&](const char* key, const std::optional<int64_t>& id) {
    config[key] = id ? core::JSON(*id) : core::JSON();
  };
  put("bos_token_id", ids.bos);
  if (ids.eos.size() > 1) {
    config["eos_token_id"] = ids.eos;
  } else {
    put("eos_token_id", ids.eos.empty() ? std::nullopt : std::optional<int64_t>(ids.eos[0]));
  }
  put("pad_token_id", ids.pad);
}

void check_layers(const char* reader, const std::string& folder, int64_t layers, size_t tensors) {
  check(layers <= static_cast<int64_t>(tensors), reader, ": ", folder, "/", kPretrainedConfig,
        " says ", layers, " layers, and there are only ", tensors, " tensors beside it");
}

RotaryOptions PretrainedConfigReader::rotary(int64_t max_positions) {
  RotaryOptions rotary{.base = number("rope_theta", 10000.0)};
  const char* key = has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const JSON* given = find(key);
  find("rope_scaling");
  if (given == nullptr) return rotary;
  if (!given->is_object()) fail_key(key, "an object is needed");
  std::set<std::string> known;
  const auto number_of = [&](const char* name, std::optional<double> absent) {
    known.insert(name);
    const JSON* found = given->find(name);
    if (found == nullptr || found->is_null()) {
      if (!absent) fail_key(key, std::string("it has no ") + name);
      return *absent;
    }
    if (!found->is_number()) fail_key(key, std::string(name) + " is no number");
    return found->number();
  };
  std::string type = "default";
  for (const char* name : {"type", "rope_type"}) {
    known.insert(name);
    const JSON* found = given->find(name);
    if (found != nullptr && found->is_string()) type = found->text();
  }
  rotary.base = number_of("rope_theta", rotary.base);
  if (number_of("partial_rotary_factor", 1.0) != 1.0) {
    fail_key(key, "all of a head's elements turn here: partial_rotary_factor must be 1");
  }
  RotaryScaling& scaling = rotary.scaling;
  const auto original_of = [&] {
    const double before =
        number_of("original_max_position_embeddings", static_cast<double>(max_positions));
    if (!(before >= 1.0 && before <= 0x1p53)) {
      fail_key(key, "original_max_position_embeddings must be a positive whole number");
    }
    scaling.original_positions = static_cast<int64_t>(before);
  };
  if (type == "linear") {
    scaling.kind = RotaryScaling::Kind::linear;
    scaling.factor = number_of("factor", {});
  } else if (type == "llama3") {
    scaling.kind = RotaryScaling::Kind::llama3;
    scaling.factor = number_of("factor", {});
    scaling.low_freq_factor = number_of("low_freq_factor", {});
    scaling.high_freq_factor = number_of("high_freq_factor", {});
    original_of();
  } else if (type == "dynamic") {
    scaling.kind = RotaryScaling::Kind::dynamic;
    scaling.factor = number_of("factor", {});
    original_of();
    // transformers reads past this one, too, and takes max_position_embeddings
    scaling.original_positions = max_positions;
  } else if (type == "yarn") {
    scaling.kind = RotaryScaling::Kind::yarn;
    original_of();
    scaling.factor = number_of("factor", static_cast<double>(max_positions) /
                                             static_cast<double>(scaling.original_positions));
    // 0 stands for the default
    const auto or_default = [](double given_one, double absent) {
      return given_one == 0.0 ? absent : given_one;
    };
    scaling.beta_fast = or_default(number_of("beta_fast", 0.0), scaling.beta_fast);
    scaling.beta_slow = or_default(number_of("beta_slow", 0.0), scaling.beta_slow);
    known.insert("truncate");
    const JSON* truncate = given->find("truncate");
    if (truncate != nullptr) {
      if (!truncate->is_boolean()) fail_key(key, "truncate is neither true nor false");
      scaling.truncate = truncate->boolean();
    }
    const double mscale = number_of("mscale", 0.0), all = number_of("mscale_all_dim", 0.0);
    const double factor = number_of("attention_factor", 0.0);
    const JSON* has_factor = given->find("attention_factor");
    const auto by = [&](double scale) {
      return scaling.factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(scaling.factor) + 1.0;
    };
    if (has_factor != nullptr && !has_factor->is_null()) {
      scaling.attention_factor = factor;
    } else if (mscale != 0.0 && all != 0.0) {
      scaling.attention_factor = by(mscale) / by(all);
    }
  } else if (type != "default") {
    fail_key(key,
             "of the types of rotary scaling default, linear, dynamic, yarn and llama3 are known");
  }
  for (const auto& [name, value] : given->members()) {
    if (!known.contains(name)) fail_key(key, "'" + name + "' is not known of type " + type);
  }
  return rotary;
}

void PretrainedConfigReader::finish(const std::vector<std::string>& ignored) {
  if (has("quantization_config")) {
    fail_key("quantization_config", "weights must be float32, float16 or bfloat16");
  }
  core::NameList unknown;
  for (const auto& [key, value] : values_.members()) {
    const bool known = asked_.contains(key) ||
                       std::ranges::find(kKeysOfNoEffect, key) != std::end(kKeysOfNoEffect) ||
                       std::find(ignored.begin(), ignored.end(), key) != ignored.end();
    if (!known) unknown.add(key);
  }
  check(unknown.empty(), reader_, ": ", path_,
        " has keys that are not known here: ", unknown.text(),
        "; name those in .ignore_keys that do not change what the model computes");
}

std::string pretrained_dtype(DType dtype) {
  if (dtype == kBFloat16) return "bfloat16";
  if (dtype == kFloat16) return "float16";
  return dtype == kFloat64 ? "float64" : "float32";
}

}  // namespace hero::nn
