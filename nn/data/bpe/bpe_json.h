#pragma once
// The sections of a tokenizer.json beside its vocabulary and merges; for sources only. Each is read
// whole: a field that is not known, or asks for what BPETokenizer does not do, is an Error that
// names the file and the field, so that no file is read as another tokenizer than it is.
#include <initializer_list>
#include <string>
#include <unordered_map>

#include <hero/core/json/json.h>
#include <hero/nn/data/bpe_model.h>

namespace hero::nn::data {

/// Numbers of tokens by their texts in the file.
using BPENumbers = std::unordered_map<std::string, int32_t>;

/// Throws an Error if the object has a field beside these; `where` is the file and the section.
void bpe_fields(const core::JSON& object, const std::string& where,
                std::initializer_list<const char*> known);

/// Reads everything but vocabulary, merges and added tokens.
void bpe_read_settings(const core::JSON& document, BPEModel& model, const std::string& label);

/// Reads added_tokens. One that is not in the vocabulary gets the number that Hugging Face's
/// tokenizers give it, which must be that of the file; `numbers` gets it, too.
void bpe_read_added(const core::JSON& added, BPENumbers& numbers, BPEModel& model,
                    const std::string& label);

}  // namespace hero::nn::data
