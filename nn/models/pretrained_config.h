#pragma once
// PretrainedConfigReader: reads config.json of a folder of Hugging Face's transformers key by key.
// A key that is unknown, or asks for a feature that no model here has, is an Error that names it.
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

  /// The value of `model_type`. Throws an Error if it is not one of `known`, or if `architectures`
  /// names none of their causal language models.
  std::string model_type(const std::vector<std::string>& known);
  /// \name Values; null counts as absent. An Error where one has another type.
  /// \{
  bool has(const char* key);
  /// Whether the key is present, also with the value null.
  bool names(const char* key) const { return values_.contains(key); }
  int64_t integer(const char* key);
  int64_t integer(const char* key, int64_t absent);
  double number(const char* key, double absent);
  bool flag(const char* key, bool absent);
  std::string text(const char* key, const std::string& absent);
  /// Returns nullptr if the key is absent.
  const core::JSON* list(const char* key);
  /// \}
  /// bos_token_id, eos_token_id (one or a list) and pad_token_id; a missing key has the value from
  /// `absent`, and a key that is null has none.
  TokenIds token_ids(const TokenIds& absent);
  /// rope_theta and rope_scaling, or rope_parameters with both.
  RotaryOptions rotary(int64_t max_positions);
  [[noreturn]] void fail_key(const char* key, const std::string& why) const;
  /// Throws an Error if there is a key that was not read, unless it changes nothing here or is in
  /// `ignored`.
  void finish(const std::vector<std::string>& ignored);

 private:
  const core::JSON* find(const char* key);

  std::string reader_, path_;
  core::JSON values_;
  std::set<std::string> asked_;
};

/// Writes the three keys that token_ids() reads; null for tokens that are absent.
void write_token_ids(core::JSON& config, const TokenIds& ids);

/// Throws an Error if a folder's configuration has more layers than its files have tensors, before
/// a model of that size is made.
void check_layers(const char* reader, const std::string& folder, int64_t layers, size_t tensors);

/// The name that config.json has for a dtype, "bfloat16".
std::string pretrained_dtype(DType dtype);

}  // namespace hero::nn
