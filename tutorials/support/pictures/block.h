#pragma once
// Chapter 8: what a block of the GPT does, as a picture.
#include <string>

#include <hero/nn/gpt.h>

namespace tutorial {

/// Runs the first block on [rows, T, C] zeros and draws what it consists of, with the shapes that
/// its modules have taken and given. Into folder/08_gpt_block.
void draw_block(hero::nn::GPT& model, int64_t rows, const std::string& folder);

}  // namespace tutorial
