#pragma once
// Llama, Qwen2 and Mistral in GGUF files.
#include <string>

#include <hero/nn/llama.h>

namespace hero::nn {

/// The configuration that a GGUF file of architecture llama or qwen2 has in its metadata and in the
/// list of its tensors. An Error names the file and the key that asks for something else.
LlamaConfig llama_config_of_gguf(const std::string& path, const PretrainedOptions& options);

/// The model in such a file.
Llama llama_of_gguf(const std::string& path, const PretrainedOptions& options);

}  // namespace hero::nn
