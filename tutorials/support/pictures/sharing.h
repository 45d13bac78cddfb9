#pragma once
// Pictures that other pages than a chapter show: the order of samples (chapter 11 draws it), a
// checkpoint that other ranks resume from (chapter 12), and what ranks share along a context axis
// and an expert axis (chapter 19).
#include <string>

#include "support/options/ranks.h"

namespace tutorial {

/// Draws which pairs of a query and a key each of four ranks of a context axis computes, at the
/// positions that dist::context_parallel() gives them. A collective of `world`, whose first four
/// ranks are the axis; with fewer nothing is drawn. Into folder/19_context.
void draw_context(const Communicator& world, const std::string& folder);

/// Draws to which experts the router of an nn::MoE sends the tokens of four ranks, and which rank
/// has which expert. Into folder/19_experts.
void draw_experts(const std::string& folder);

/// Draws the orders in which two ranks go through 24 samples in three epochs, by a
/// DistributedSampler that takes turns with batches of four. Into folder/11_order.
void draw_order(const std::string& folder);

/// Draws the shards of a GPT's block that four ranks save, and what three ranks and one read of
/// them, to scale, as fully_shard() divides the block on simulated ranks. Into folder/12_resumed.
void draw_resumed(const std::string& folder);

}  // namespace tutorial
