#pragma once
// The supervisor: the parent process that starts a program again when it fails.
#include <optional>
#include <string>
#include <vector>

namespace hero::dist {

/// The values of the options --restarts, --elastic, --hosts and --mpirun; see launch().
struct Restarts {
  std::optional<int> count = {};  ///< restarts without progress, at most; absent: not given
  bool elastic = false;
  /// The numbers of ranks of --elastic; empty: --ranks, its half, ..
  std::vector<int> numbers = {};
  std::string hosts = {};   ///< a command of the shell that prints hosts and slots
  std::string mpirun = {};  ///< the words of the mpirun command; "": ranks are threads
};

/// Parses numbers of ranks, such as "8,4,2,1". Throws an Error for any other text.
std::vector<int> parse_numbers(const std::string& text);

/// Runs the program in children of this process, one after the other, the first on at most `ranks`
/// ranks. If ranks are threads, it returns in the child, with the number of ranks; otherwise the
/// child is mpirun with the words of this process's own command line. In the supervisor it never
/// returns: the process ends as launch() says. Throws an Error before the first child if none can
/// be started.
int supervise(const std::string& name, const Restarts& restarts, int ranks);

/// A host and how many ranks it has room for.
struct Slots {
  std::string host;
  int count = 1;
};

/// Lines "node1 slots=2", "node1:2" or "node1", as in a hostfile; '#' begins a comment.
std::vector<Slots> parse_slots(const std::string& text);

}  // namespace hero::dist
