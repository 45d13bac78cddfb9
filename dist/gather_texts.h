#pragma once
// Collectives of texts, such as a configuration or the measurements of each rank.
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// Gathers a text of any length from each rank: every rank gets all of them, in the order of ranks,
/// as from PyTorch's all_gather_object. A collective. On simulated ranks every text is this rank's.
/// \snippet test_examples_ranks.cpp gather_texts
std::vector<std::string> gather_texts(const Communicator& world, const std::string& text);

/// Returns rank `root`'s text on every rank, as PyTorch's broadcast_object_list does; the texts
/// that the other ranks pass are ignored. A collective.
/// \snippet test_examples_ranks.cpp broadcast_text
std::string broadcast_text(const Communicator& world, const std::string& text, int root = 0);

}  // namespace hero::dist
