#pragma once
// Ranks that tell each other what they found, so that an error on one is the same error on all;
// for dist's own files. An undefined communicator is one rank alone.
#include <functional>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// What every rank's `body` returned, on every rank. Where one throws, all ranks throw one Error
/// that says everything that was said and by whom. A collective; `body` must not call one.
std::vector<std::string> each_rank(const Communicator& world,
                                   const std::function<std::string()>& body);

/// The same of a body that returns nothing.
void agree(const Communicator& world, const std::function<void()>& body);

/// The same of a body that runs on rank 0 alone.
std::string on_rank_0(const Communicator& world, const std::function<std::string()>& body);

inline int rank_of(const Communicator& world) { return world.defined() ? world.rank() : 0; }
inline int size_of(const Communicator& world) { return world.defined() ? world.size() : 1; }

}  // namespace hero::dist
