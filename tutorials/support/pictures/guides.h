#pragma once
// Pictures for guides that no chapter shows; chapter 7a draws them.
#include <string>

namespace tutorial {

/// Draws activations of the library over [-4, 3], into folder/07a_activations.
void draw_activations(const std::string& folder);

/// Draws three distributions, each as the density that log_prob() gives, over a histogram of what
/// sample() drew. Into folder/07a_distributions, and three that are made of others or reject draws
/// into folder/07a_draws.
void draw_distributions(const std::string& folder);

/// Draws the error of float32 sums over the number of terms: added up one after the other, and by
/// the library's sum(). Into folder/07a_sums.
void draw_sums(const std::string& folder);

/// Draws the modules of a small GPT as a tree, and the names of their parameters. Into
/// folder/07a_modules.
void draw_modules(const std::string& folder);

}  // namespace tutorial
