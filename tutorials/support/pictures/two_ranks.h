#pragma once
// Chapter 17: a step of FSDP on two ranks side by side.
#include <string>

#include "support/options/ranks.h"

namespace tutorial {

/// Runs two layers, a unit each, on the first two ranks, without prefetch, and draws from top to
/// bottom what both ranks hold after each event of a step, and what they send to each other. Into
/// folder/17_fsdp_ranks. All ranks call it; with one rank alone it draws nothing.
void draw_two_ranks(const Communicator& world, const std::string& folder);

}  // namespace tutorial
