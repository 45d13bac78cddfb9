#pragma once
// Activation functions as curves; chapter 7a draws them for the page of layers.
#include <string>

namespace tutorial {

/// Draws activations of the library over [-4, 3], into folder/07a_activations.
void draw_activations(const std::string& folder);

}  // namespace tutorial
