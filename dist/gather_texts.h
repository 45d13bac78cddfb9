#pragma once
// Texts that ranks tell each other, such as a configuration or what each has measured.
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// Gathers a text of any length from each rank: every rank gets all of them, in the order of ranks,
/// as from PyTorch's all_gather_object. A collective. On simulated ranks all have said the same.
/// \snippet test_examples_ranks.cpp gather_texts
std::vector<std::string> gather_texts(const Communicator& world, const std::string& text);

/// Returns rank `root`'s text on every rank, as PyTorch's broadcast_object_list; what the other
/// ranks pass is ignored. A collective.
/// \snippet test_examples_ranks.cpp broadcast_text
std::string broadcast_text(const Communicator& world, const std::string& text, int root = 0);

}  // namespace hero::dist
