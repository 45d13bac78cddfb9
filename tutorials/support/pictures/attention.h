#pragma once
// Chapter 8a: what one head of the GPT attends to in a text, as a picture.
#include <string>

#include <hero/nn/data/tokenizer.h>
#include <hero/nn/gpt.h>

namespace tutorial {

/// A head of the GPT, by the numbers of its block and of itself in it.
struct HeadOf {
  int64_t block, head;
};

/// Draws what the model computes in a head for the first dozen tokens of a text: a row for each
/// query, on the left its scores q k / sqrt(d) with the keys, on the right the weights that softmax
/// makes of them, in percent. Into folder/08a_gpt_attention.
void draw_attention(hero::nn::GPT& model, const hero::nn::data::Tokenizer& tokenizer,
                    const std::string& text, HeadOf which, const std::string& folder);

}  // namespace tutorial
