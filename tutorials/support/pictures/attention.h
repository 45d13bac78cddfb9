#pragma once
// Chapters 8 and 8a: what a head attends to in a text, as a picture.
#include <string>
#include <vector>

#include <hero/nn/data/tokenizer.h>
#include <hero/nn/gpt.h>

namespace tutorial {

/// Draws a head's scores, -infinity where a key comes after its query, and below them the weights
/// that softmax makes of them, in percent: both [T, T], a row for each query, for T tokens. Into
/// folder/name.
void draw_attention(const std::string& title, const std::vector<std::string>& tokens,
                    const hero::Tensor& scores, const hero::Tensor& weights,
                    const std::string& folder, const std::string& name);

/// A head of the GPT, by the numbers of its block and of itself in it.
struct HeadOf {
  int64_t block, head;
};

/// Draws what the model computes in a head for the first dozen tokens of a text, into
/// folder/08a_gpt_attention.
void draw_head(hero::nn::GPT& model, const hero::nn::data::Tokenizer& tokenizer,
               const std::string& text, HeadOf which, const std::string& folder);

}  // namespace tutorial
