#pragma once
// Collectives that turn an error on one rank into the same Error on all ranks; internal to dist. An
// undefined communicator stands for a single rank.
#include <functional>
#include <string>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// Throws an Error on simulated ranks, which have no values to save or load and cannot communicate.
void check_not_simulated(const Communicator& world);

/// Returns the results of all ranks' `body`, on every rank. If any of them throws, all ranks throw
/// one Error with the messages (the first eight, and how many more there are) and the ranks that
/// threw them. A collective; `body` must not call one.
std::vector<std::string> each_rank(const Communicator& world,
                                   const std::function<std::string()>& body);

/// Does the same for a body that returns nothing.
void agree(const Communicator& world, const std::function<void()>& body);

/// Does the same for a body that runs on rank 0 only.
std::string on_rank_0(const Communicator& world, const std::function<std::string()>& body);

/// Throws an Error on every rank unless all ranks' texts are the same: "<what>: 3 (rank 0); 4
/// (ranks 1, 2)". A collective; `unit` is its name in errors.
void same_on_all(const Communicator& world, const std::string& what, const std::string& text,
                 const char* unit = "checkpoint");

/// Throws an Error on every rank unless all ranks' lines are the same: "<what>: rank 0 has <line>,
/// rank 2 has <line>; <advice>", with the first line that differs on the first rank that differs.
/// Ranks compare hashes, and send text only if these differ. A collective; `unit` is its name in
/// errors.
void same_lines(const Communicator& world, const std::string& what, const std::string& lines,
                const std::string& advice, const char* unit = "checkpoint");

/// "a; b; c": the first eight texts, and how many more there are, since each of very many ranks may
/// have one.
std::string first_of(const std::vector<std::string>& things);

/// Throws the Error of same_on_all() unless the texts, one of each rank, are the same.
void check_same(const std::string& what, const std::vector<std::string>& texts);

/// Every rank's text, on every rank. A collective; `unit` is its name in errors.
std::vector<std::string> tell_all(const Communicator& world, const std::string& text,
                                  const char* unit = "checkpoint");

inline int rank_of(const Communicator& world) { return world.defined() ? world.rank() : 0; }
inline int size_of(const Communicator& world) { return world.defined() ? world.size() : 1; }

}  // namespace hero::dist
