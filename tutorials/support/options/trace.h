#pragma once
// The options --trace FILE and --trace-steps N: what the program does, as a timeline and a table.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "support/options/command.h"

#include <hero/autograd/profile/profiler.h>

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

// Parts of traced(), which ranks.cpp uses too.

/// How the first `steps` steps are recorded, where the options do not say how many.
hero::ProfilerOptions profiler_options(const TraceOptions& options, hero::Device device,
                                       int64_t steps);
/// An Error where the file cannot be written: told before the run, not after it.
void check_writable(const TraceOptions& options);
/// What is printed of a profile after the run.
std::string trace_tables(const hero::Profile& profile, const TraceOptions& options);

}  // namespace tutorial
