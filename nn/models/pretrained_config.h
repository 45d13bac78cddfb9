#pragma once
// config.json of a folder of Hugging Face's transformers, read key by key: what no model here has
// is an error that names the key, and so is a key that nobody knows.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <hero/core/json/json.h>
#include <hero/nn/pretrained.h>
#include <hero/nn/rotary.h>

namespace hero::nn {

constexpr const char* kPretrainedConfig = "config.json";

class PretrainedConfigReader {
 public:
  /// Opens folder/config.json for the model `reader` ("GPT"), which errors name.
  PretrainedConfigReader(const char* reader, const std::string& folder);

  /// What `model_type` says; an Error unless it is one of these, or where `architectures` names
  /// none of their causal language models.
  std::string model_type(const std::vector<std::string>& known);
  /// \name Values; null counts as absent. An Error where one has another type.
  /// \{
  bool has(const char* key);
  /// True also of null.
  bool names(const char* key) const { return values_.contains(key); }
  int64_t integer(const char* key);
  int64_t integer(const char* key, int64_t absent);
  double number(const char* key, double absent);
  bool flag(const char* key, bool absent);
  std::string text(const char* key, const std::string& absent);
  /// Null where it is absent.
  const core::JSON* list(const char* key);
  /// \}
  /// bos_token_id, eos_token_id (one or a list) and pad_token_id; those of `absent` for keys that
  /// are not there, none for those that are null.
  TokenIds token_ids(const TokenIds& absent);
  /// rope_theta and rope_scaling, or rope_parameters with both.
  RotaryOptions rotary(int64_t max_positions);
  [[noreturn]] void fail_key(const char* key, const std::string& why) const;
  /// An Error unless every key was asked for, is one that changes nothing here, or is among these.
  void finish(const std::vector<std::string>& ignored);

 private:
  const core::JSON* find(const char* key);

  std::string reader_, path_;
  core::JSON values_;
  std::set<std::string> asked_;
};

/// The three keys as token_ids() reads them; null where there is none.
void write_token_ids(core::JSON& config, const TokenIds& ids);

/// An Error where a folder says more layers than its files have tensors, before a model of so many
/// is made.
void check_layers(const char* reader, const std::string& folder, int64_t layers, size_t tensors);

/// The name that config.json has for a dtype, "bfloat16".
std::string pretrained_dtype(DType dtype);

}  // namespace hero::nn
