#pragma once
// The options --trace FILE and --trace-steps N: what the program does, as a timeline and a table.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "support/options/command.h"

#include <hero/dist/communicator.h>

namespace tutorial {

struct TraceOptions {
  std::string file;  ///< empty: nothing is recorded
  /// The first optimizer steps that are; where it is not given 5, and on ranks 25, since those
  /// chapters begin with one process alone.
  std::optional<int64_t> steps;
};

/// Adds both options.
void add_trace(Command& command, TraceOptions& options);

/// Runs `body` and returns what it returns. Where a file is named, writes what the calling thread
/// did until the end of those steps (a program that takes none: all of it) to that file, and prints
/// tables of it. Operations on a GPU are waited for.
int traced(const TraceOptions& options, hero::Device device, const std::function<int()>& body);

/// The same on all ranks of `world`, each on its device(): one file with a process a rank, and the
/// tables of rank 0.
void traced(const TraceOptions& options, const hero::dist::Communicator& world,
            const std::function<void()>& body);

}  // namespace tutorial
