#pragma once
// Chapters 10 to 20: programs that run on several ranks, and what they print.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hero/dist/dist.h>

namespace tutorial {

using hero::dist::Communicator;

/// A program of several ranks.
struct Ranked {
  std::string title;
  int ranks = 4;                      ///< threads where neither --ranks nor mpirun says how many
  std::optional<int64_t> steps = {};  ///< of a training run; present: there is an option --steps
  bool trains = true;                 ///< there is an option --report, see page.h
};

/// What it was told.
struct RankOptions {
  std::string out = "figures";  ///< folder for figures
  int64_t steps = 0;            ///< Ranked::steps or --steps
  double link = 0.0;  ///< bytes per second that leave a rank, of --link; 0: no such option
};

/// Runs `body` on every rank and its device (device.h). The options are launch()'s, --device,
/// --out, --steps, --report and those of trace.h; the exit status: 0, 1 after an error, 2 for wrong
/// usage.
int run_ranks(int argc, char** argv, const Ranked& program,
              const std::function<void(Communicator& world, const RankOptions& options)>& body);

/// The device of a rank where --device said `wanted`: ranks that are threads share that one; with
/// --backend nccl each has a GPU of its own. An Error where the backend moves no arrays of a GPU.
hero::Device device_of(const Communicator& rank, hero::Device wanted);

/// printf for rank 0; the others' text shows with --prefix.
[[gnu::format(printf, 2, 3)]] void say(const Communicator& world, const char* format, ...);

/// The text of every rank, on every rank. Leaves the ledger of the traffic as it was.
std::vector<std::string> texts_of(const Communicator& world, const std::string& mine);

/// True on every rank when it is on all. Leaves the ledger of the traffic as it was.
bool everywhere(const Communicator& world, bool mine);

/// True on every rank when all have the same number. Leaves the ledger of the traffic as it was.
bool same_everywhere(const Communicator& world, uint64_t mine);

/// Rows with one column a rank. All ranks add their own cell; rank 0 prints.
class RankTable {
 public:
  explicit RankTable(const Communicator& world) : world_(world) {}
  RankTable& row(const std::string& label, const std::string& cell);
  RankTable& row(const std::string& label, int64_t number);
  /// The ranks' cells of a row.
  const std::vector<std::string>& cells(size_t row) const { return rows_[row].cells; }
  /// The heads are "rank 0", "rank 1", ... beside `title`.
  void print(const std::string& title) const;

 private:
  struct Row {
    std::string label;
    std::vector<std::string> cells;
  };
  const Communicator& world_;
  std::vector<Row> rows_;
};

/// "  0 10 20": the elements, three characters each.
std::string cells(const hero::Array& x);

}  // namespace tutorial
