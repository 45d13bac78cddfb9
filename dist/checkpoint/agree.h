#pragma once
// Ranks that tell each other what they found, so that an error on one is the same error on all;
// for dist's own files. An undefined communicator is one rank alone.
#include <functional>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// An Error on simulated ranks, which have no values to save or load and cannot ask the others what
/// they found.
void check_not_simulated(const Communicator& world);

/// What every rank's `body` returned, on every rank. Where one throws, all ranks throw one Error
/// that says what was said (the first eight things, and how many more there are) and by whom. A
/// collective; `body` must not call one.
std::vector<std::string> each_rank(const Communicator& world,
                                   const std::function<std::string()>& body);

/// The same of a body that returns nothing.
void agree(const Communicator& world, const std::function<void()>& body);

/// The same of a body that runs on rank 0 alone.
std::string on_rank_0(const Communicator& world, const std::function<std::string()>& body);

/// An Error on every rank unless all ranks' texts are the same: "<what>: 3 (rank 0); 4 (ranks 1,
/// 2)". A collective; `unit` is its name in errors.
void same_on_all(const Communicator& world, const std::string& what, const std::string& text,
                 const char* unit = "checkpoint");

/// An Error on every rank unless all ranks' lines are the same: "<what>: rank 0 has <line>, rank 2
/// has <line>; <advice>", of the first line that differs on the first rank that differs. Ranks
/// compare a hash; text travels where it is another. A collective; `unit` is its name in errors.
void same_lines(const Communicator& world, const std::string& what, const std::string& lines,
                const std::string& advice, const char* unit = "checkpoint");

/// "a; b; c": the first eight of the things, and how many more there are, as each of very many
/// ranks may have one to say.
std::string first_of(const std::vector<std::string>& things);

/// An Error unless the texts, one of each rank, are the same, as same_on_all() says it.
void check_same(const std::string& what, const std::vector<std::string>& texts);

/// Every rank's text, on every rank. A collective; `unit` is its name in errors.
std::vector<std::string> tell_all(const Communicator& world, const std::string& text,
                                  const char* unit = "checkpoint");

inline int rank_of(const Communicator& world) { return world.defined() ? world.rank() : 0; }
inline int size_of(const Communicator& world) { return world.defined() ? world.size() : 1; }

}  // namespace hero::dist
