#pragma once
// Options of reading and writing folders of Hugging Face's transformers, and of reading GGUF files.
#include <optional>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/dtype.h>

namespace hero::nn {

/// Options of reading a model, as by GPT::from_pretrained().
struct PretrainedOptions {
  DType dtype = kFloat32;  ///< dtype of the model; the files may have any floating dtype
  Device device = kCpu;    ///< where the model is made; weights are moved there one by one
  /// Rate of dropout, instead of the rates in config.json.
  std::optional<double> dropout = {};
  /// Keys of config.json, or of a GGUF file's metadata, that are unknown here and do not change
  /// what the model computes. Any other unknown key is an Error.
  std::vector<std::string> ignore_keys = {};
  /// True: the quantised matrices of a GGUF file stay in its blocks, in QuantizedLinear and
  /// QuantizedEmbedding layers, and `dtype` is that of the rest and of what the model computes. The
  /// model is for inference: its parameters do not require gradients. A folder has no such
  /// matrices, and gives an Error; quantize_linear() makes them.
  bool quantized = false;
};

/// The tokens that a tokenizer puts around a text: bos_token_id, eos_token_id and pad_token_id of
/// config.json, or the corresponding entries of a GGUF file's metadata. Models compute nothing with
/// them; they are written as they were read, and eos can be given as GenerateOptions::stop_tokens.
struct TokenIds {
  std::optional<int64_t> bos = {};  ///< begins a text
  std::vector<int64_t> eos = {};    ///< each of these ends a text
  std::optional<int64_t> pad = {};  ///< fills a text up

  friend bool operator==(const TokenIds&, const TokenIds&) = default;
};

/// Options of writing a model, as by GPT::save_pretrained().
struct SavePretrainedOptions {
  int64_t max_shard_bytes = 5'000'000'000;  ///< if the weights are larger, they go to several files
};

}  // namespace hero::nn
