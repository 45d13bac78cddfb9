#pragma once
// Pictures for guides and for chapter 7, which chapter 6a draws: its program needs no data.
#include <string>

namespace tutorial {

/// Draws activations of the library over [-4, 3], into folder/06a_activations.
void draw_activations(const std::string& folder);

/// Draws three distributions, each as the density that log_prob() gives, over a histogram of what
/// sample() drew. Into folder/06a_distributions, and three that are made of others or reject draws
/// into folder/06a_draws.
void draw_distributions(const std::string& folder);

/// Draws the error of float32 sums over the number of terms: added up one after the other, and by
/// the library's sum(). Into folder/06a_sums.
void draw_sums(const std::string& folder);

/// Draws how a window of 3 x 3 weights slides over an image of 6 x 6 pixels, and the sums that the
/// library's conv2d() gives. Into folder/06a_convolution.
void draw_convolution(const std::string& folder);

/// Draws the modules of a small GPT as a tree, and the names of their parameters. Into
/// folder/06a_modules.
void draw_modules(const std::string& folder);

}  // namespace tutorial
