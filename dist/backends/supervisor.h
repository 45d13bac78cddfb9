#pragma once
// The process above a program that is started again when it fails.
#include <optional>
#include <string>
#include <vector>

namespace hero::dist {

/// What --restarts, --elastic, --hosts and --mpirun say; see launch().
struct Restarts {
  std::optional<int> count = {};  ///< at most so many; none where nobody said
  bool elastic = false;
  std::vector<int> numbers = {};  ///< of ranks, where elastic; empty: the first one, its half, ..
  std::string hosts = {};         ///< a command of the shell that prints hosts and slots
  std::string mpirun = {};        ///< words; "": ranks are threads
};

/// "8,4,2,1" as numbers of ranks; an Error where it is anything else.
std::vector<int> parse_numbers(const std::string& text);

/// Runs the program in children of this process, one after the other, the first on at most `ranks`
/// ranks. Where they are threads it returns in the child, with their number; else the child is
/// mpirun with the words of this process's own command line. In the supervisor it never returns: it
/// ends as launch() says. An Error before the first child where none can be started.
int supervise(const std::string& name, const Restarts& restarts, int ranks);

/// A host and how many ranks it has room for.
struct Slots {
  std::string host;
  int count = 1;
};

/// Lines "node1 slots=2", "node1:2" or "node1", as in a hostfile; '#' begins a comment.
std::vector<Slots> parse_slots(const std::string& text);

}  // namespace hero::dist
