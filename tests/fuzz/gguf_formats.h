#pragma once
// Models and tokenizers in GGUF files, fed as formats.h says.
#include <string>

#include "formats.h"

#include <hero/nn/data/bpe.h>
#include <hero/nn/data/chat.h>
#include <hero/nn/llama.h>

namespace hero_fuzz {

/// True when one of the three can be read. A tokenizer that is read gives a text back.
inline bool feed_gguf_model(std::span<const std::byte> bytes) {
  const InMemory memory(bytes);
  int read = 0;
  const auto look = [&](const auto& body) {
    try {
      body();
      ++read;
    } catch (const hero::Error&) {
    }
  };
  look([&] { hero::nn::Llama::from_pretrained(memory.path()); });
  look([&] { hero::nn::data::ChatTemplate::from_pretrained(memory.path()); });
  look([&] {
    const auto tokenizer = hero::nn::data::BPETokenizer::load_gguf(memory.path());
    try {
      const std::string text = "it's 12\n two";
      const auto tokens = tokenizer.encode(text, hero::nn::data::SpecialTokens::ignore, false);
      if (tokenizer.decode(tokens) != text) __builtin_trap();
    } catch (const hero::Error&) {  // a byte without a token
    }
  });
  return read > 0;
}

}  // namespace hero_fuzz
